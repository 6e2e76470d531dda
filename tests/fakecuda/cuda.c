/* A libcuda.so.1 whose cards are this process's own memory.
 *
 * What it tells stands in the file `state` beside the library, or in the one that FAKE_STATE names. A line is
 * `SCOPE KEY VALUE...`, where SCOPE is the index of a card, or * for the machine. Any function fails with a code by
 * `SCOPE fail FUNCTION CODE`, takes its time by `SCOPE delay FUNCTION MILLISECONDS` and ends the process by `SCOPE crash
 * FUNCTION`. tests/fakecuda/__init__.py lists the other keys.
 *
 * It is strict where the real one is: nothing before cuInit, no memory without a current context, no kernel that was not
 * loaded, no launch with fewer threads than numbers. The one program that it can run is the one that adds an index.
 */
#include "fakestate.h"
#include <stdint.h>

typedef struct { int device; } Context;

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101 };
enum { INVALID_CONTEXT = 201, INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500 };

static int is_ready;
static Context contexts[MOST];
static Context *current;
static u64 taken[MOST];
static const char module_loaded[] = "module", kernel_loaded[] = "kernel";
static int has_module;

static int begin(int scope, const char *function) {
    long argument;
    for (int who = MACHINE;; who = scope) {
        if (asked_for(who, "delay", function, &argument))
            nanosleep(&(struct timespec){argument / 1000, argument % 1000 * 1000000}, 0);
        if (asked_for(who, "crash", function, &argument)) _exit(139);
        if (asked_for(who, "fail", function, &argument)) return argument;
        if (who == scope) return OK;
    }
}
#define BEGIN(scope) { int code = begin(scope, __func__); if (code) return code; }
#define READY(scope) { if (!is_ready) return NOT_INITIALIZED; BEGIN(scope) }
#define ON_CARD { if (!current) return INVALID_CONTEXT; READY(current->device) }

static int count_cards(void) {
    char value[LINE];
    int n = 0;
    while (n < MOST && find(n, "name", 0, value)) n++;
    return n;
}

int cuGetErrorName(int code, const char **name) {
    static const struct { int code; const char *name; } names[] = {
        {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"}, {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
        {34, "CUDA_ERROR_STUB_LIBRARY"}, {35, "CUDA_ERROR_INSUFFICIENT_DRIVER"}, {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
        {NO_DEVICE, "CUDA_ERROR_NO_DEVICE"}, {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
        {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"}, {INVALID_PTX, "CUDA_ERROR_INVALID_PTX"},
        {221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND"}, {719, "CUDA_ERROR_LAUNCH_FAILED"},
        {802, "CUDA_ERROR_SYSTEM_NOT_READY"}, {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
        {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"}, {999, "CUDA_ERROR_UNKNOWN"},
    };
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        if (names[n].code == code) { *name = names[n].name; return OK; }
    *name = 0;
    return INVALID_VALUE;
}

int cuDriverGetVersion(int *version) {
    BEGIN(MACHINE);
    *version = number_of(MACHINE, "cuda", 0);
    return OK;
}
int cuInit(u32 flags) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (flags) return INVALID_VALUE;
    BEGIN(MACHINE);
    if (!count_cards() || (visible && (!*visible || *visible == '-'))) return NO_DEVICE;
    is_ready = 1;
    return OK;
}
int cuDeviceGetCount(int *count) { READY(MACHINE); *count = count_cards(); return OK; }
int cuDeviceGet(int *device, int index) {
    READY(index);
    if (index < 0 || index >= count_cards()) return INVALID_DEVICE;
    *device = index;
    return OK;
}
int cuDeviceGetName(char *name, int size, int device) {
    char value[LINE];
    READY(device);
    if (!find(device, "name", 0, value)) return INVALID_DEVICE;
    snprintf(name, size, "%s", value);
    return OK;
}
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    char value[LINE];
    READY(device);
    if (!find(device, "uuid", 0, value)) return INVALID_DEVICE;
    int n = 0;
    for (char *at = strchr(value, '-'); at && *at && n < 16; )
        if (*at == '-') at++;
        else { sscanf(at, "%2hhx", &uuid[n++]); at += 2; }
    return n == 16 ? OK : INVALID_VALUE;
}
int cuDeviceGetAttribute(int *number, int attribute, int device) {
    char value[LINE];
    int major, minor;
    READY(device);
    if (!find(device, "capability", 0, value) || sscanf(value, "%d.%d", &major, &minor) != 2) return INVALID_DEVICE;
    if (attribute != 75 && attribute != 76) return INVALID_VALUE;
    *number = attribute == 75 ? major : minor;
    return OK;
}

int cuDevicePrimaryCtxRetain(Context **context, int device) {
    READY(device);
    if (device < 0 || device >= count_cards()) return INVALID_DEVICE;
    contexts[device].device = device;
    *context = &contexts[device];
    return OK;
}
int cuDevicePrimaryCtxRelease(int device) {
    READY(device);
    if (current == &contexts[device]) current = 0;
    return OK;
}
int cuCtxSetCurrent(Context *context) { READY(MACHINE); current = context; return OK; }
int cuCtxSynchronize(void) { ON_CARD; return OK; }

int cuMemAlloc_v2(u64 *address, size_t size) {
    ON_CARD;
    if (taken[current->device] + size > number_of(current->device, "memory", 0)) return OUT_OF_MEMORY;
    void *memory = malloc(size);
    if (!memory) return OUT_OF_MEMORY;
    taken[current->device] += size;
    *address = (u64)(uintptr_t)memory;
    return OK;
}
int cuMemFree_v2(u64 address) { ON_CARD; free((void *)(uintptr_t)address); return OK; }
int cuMemsetD32_v2(u64 address, u32 value, size_t count) {
    ON_CARD;
    for (size_t n = 0; n < count; n++) ((u32 *)(uintptr_t)address)[n] = value;
    return OK;
}
int cuMemcpyDtoH_v2(void *there, u64 address, size_t size) {
    ON_CARD;
    memcpy(there, (void *)(uintptr_t)address, size);
    return OK;
}

int cuModuleLoadData(const void **module, const char *text) {
    char value[LINE];
    int major = 0, target = 0;
    ON_CARD;
    const char *said = strstr(text, ".target sm_");
    find(current->device, "capability", 0, value);
    sscanf(value, "%d", &major);
    if (!said || sscanf(said, ".target sm_%d", &target) != 1 || target / 10 > major) return INVALID_PTX;
    if (!strstr(text, ".entry add_index(")) return INVALID_PTX;
    *module = module_loaded;
    has_module = 1;
    return OK;
}
int cuModuleUnload(const void *module) { ON_CARD; has_module = 0; return module == module_loaded ? OK : INVALID_HANDLE; }
int cuModuleGetFunction(const void **function, const void *module, const char *name) {
    ON_CARD;
    if (module != module_loaded || !has_module) return INVALID_HANDLE;
    if (strcmp(name, "add_index")) return NOT_FOUND;
    *function = kernel_loaded;
    return OK;
}
int cuLaunchKernel(const void *function, u32 grid_x, u32 grid_y, u32 grid_z, u32 block_x, u32 block_y, u32 block_z,
                   u32 shared, void *stream, void **given, void **extra) {
    ON_CARD;
    if (function != kernel_loaded || !has_module) return INVALID_HANDLE;
    if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || block_x > 1024 || shared || stream || extra)
        return INVALID_VALUE;
    u32 *numbers = (u32 *)(uintptr_t) * (u64 *)given[0], count = *(u32 *)given[1], threads = grid_x * block_x;
    for (u32 n = 0; n < count && n < threads; n++) numbers[n] += n;
    if (number_of(current->device, "wrong", 0)) numbers[count - 1]++;
    return OK;
}
