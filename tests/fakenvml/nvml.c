/* A libnvidia-ml.so.1 that tells of GPUs which are not there.
 *
 * What it tells stands in the file `state` beside the library and is read anew at every call, so that a test can change
 * it at any time by renaming another file into its place. A line is `SCOPE KEY VALUE...`, where SCOPE is the index of a
 * GPU, or * for the machine. tests/fakenvml/__init__.py writes such files and lists the keys.
 *
 * Any function fails with a code by `SCOPE fail FUNCTION CODE` and takes its time by `SCOPE delay FUNCTION MILLISECONDS`;
 * `SCOPE crash FUNCTION` ends the process. A GPU with `lost 1` answers every question with GPU_IS_LOST.
 */
#include "fakestate.h"

typedef struct card *Card;

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, TIMEOUT = 10, LOST = 15 };
enum { XID = 8 };

typedef struct {
    char legacy[16];
    u32 domain, bus, device, device_id, subsystem_id;
    char id[32];
} PciInfo;
typedef struct { u64 total, free, used; } Memory;
typedef struct { u32 version; u64 total, reserved, free, used; } Memory2;
typedef struct { u32 gpu, memory; } Utilization;
typedef struct { u32 pid; u64 memory; u32 instance, compute_instance; } Process;
typedef struct { u32 pid; u64 time; u32 sm, memory, encoder, decoder; } ProcessUtilization;
typedef struct { u32 busy, memory_busy; u64 most_memory, time, start; u32 is_running, reserved[5]; } Accounting;
typedef struct { u64 reference, violation; } Violation;
typedef struct { u64 time; union { double real; u64 number; } value; } Sample;
typedef struct { Card card; u64 type, data; u32 instance, compute_instance; } Event;

struct card { int told_xids; };
static struct card cards[MOST];
static int users;

static void rest(long milliseconds) {
    struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&pause, 0);
}

/* What every function does first: the code to return at once, or OK to go on. */
static int begin(int scope, const char *function) {
    long argument;
    if (asked_for(scope, "crash", function, &argument)) _exit(134);
    if (asked_for(scope, "delay", function, &argument)) rest(argument);
    if (asked_for(scope, "fail", function, &argument)) return argument;
    if (scope != MACHINE && number_of(scope, "lost", 0)) return LOST;
    return OK;
}

static int index_of(Card card) { return card - cards; }

#define BEGIN(scope) do { int code = begin(scope, __func__); if (code) return code; if (!users) return UNINITIALIZED; } while (0)
#define TELL_TEXT(name, scope, key) { BEGIN(scope); return tell_text(scope, key, name, size); }
#define TELL_NUMBER(name, scope, key) \
    { BEGIN(scope); char value[LINE]; if (!find(scope, key, 0, value)) return NOT_SUPPORTED; \
      *name = strtoull(value, 0, 0); return OK; }

static int tell_text(int scope, const char *key, char *text, u32 size) {
    char value[LINE];
    if (!find(scope, key, 0, value)) return NOT_SUPPORTED;
    if (strlen(value) + 1 > size) return TOO_SMALL;
    strcpy(text, value);
    return OK;
}

int nvmlInitWithFlags(u32 flags) {
    (void)flags;
    int code = begin(MACHINE, "nvmlInit");
    if (!code) users++;
    return code;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { BEGIN(MACHINE); users--; return OK; }
const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : code ? "a fake error" : "Success"; }

int nvmlSystemGetDriverVersion(char *text, u32 size) TELL_TEXT(text, MACHINE, "driver")
int nvmlSystemGetNVMLVersion(char *text, u32 size) TELL_TEXT(text, MACHINE, "driver")
int nvmlSystemGetCudaDriverVersion(int *version) TELL_NUMBER(version, MACHINE, "cuda")
int nvmlSystemGetCudaDriverVersion_v2(int *version) TELL_NUMBER(version, MACHINE, "cuda")

int nvmlDeviceGetCount_v2(u32 *count) {
    char value[LINE];
    BEGIN(MACHINE);
    for (*count = 0; *count < MOST && find(*count, "name", 0, value); ++*count) {}
    return OK;
}
int nvmlDeviceGetHandleByIndex_v2(u32 index, Card *card) {
    char value[LINE];
    if (index >= MOST || !find(index, "name", 0, value)) return INVALID;
    BEGIN((int)index);
    *card = &cards[index];
    return OK;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, Card *card) {
    char value[LINE];
    for (int index = 0; index < MOST && find(index, "uuid", 0, value); index++)
        if (!strcmp(value, uuid)) {
            BEGIN(index);
            *card = &cards[index];
            return OK;
        }
    return NOT_FOUND;
}
int nvmlDeviceGetIndex(Card card, u32 *index) { BEGIN(index_of(card)); *index = index_of(card); return OK; }
int nvmlDeviceGetMinorNumber(Card card, u32 *number) { BEGIN(index_of(card)); *number = index_of(card); return OK; }
int nvmlDeviceGetName(Card card, char *text, u32 size) TELL_TEXT(text, index_of(card), "name")
int nvmlDeviceGetUUID(Card card, char *text, u32 size) TELL_TEXT(text, index_of(card), "uuid")
int nvmlDeviceGetPowerUsage(Card card, u32 *milliwatts) TELL_NUMBER(milliwatts, index_of(card), "power")
int nvmlDeviceGetEnforcedPowerLimit(Card card, u32 *milliwatts) TELL_NUMBER(milliwatts, index_of(card), "power_limit")
int nvmlDeviceGetTotalEnergyConsumption(Card card, u64 *millijoules) TELL_NUMBER(millijoules, index_of(card), "energy")
int nvmlDeviceGetCurrentClocksThrottleReasons(Card card, u64 *bits) TELL_NUMBER(bits, index_of(card), "throttle")
int nvmlDeviceGetCurrentClocksEventReasons(Card card, u64 *bits) TELL_NUMBER(bits, index_of(card), "throttle")
int nvmlDeviceGetTemperature(Card card, int sensor, u32 *celsius) {
    (void)sensor;
    TELL_NUMBER(celsius, index_of(card), "temperature")
}
int nvmlDeviceGetTotalEccErrors(Card card, int kind, int counter, u64 *count) {
    (void)counter;
    TELL_NUMBER(count, index_of(card), kind ? "ecc_uncorrected" : "ecc_corrected")
}
int nvmlDeviceGetClockInfo(Card card, int kind, u32 *megahertz) {
    TELL_NUMBER(megahertz, index_of(card), kind == 2 ? "memory_clock" : "core_clock")
}
int nvmlDeviceGetMaxClockInfo(Card card, int kind, u32 *megahertz) {
    TELL_NUMBER(megahertz, index_of(card), kind == 2 ? "memory_clock" : "core_clock")
}

static int tell_switch(int scope, const char *key, u32 *current, u32 *pending) {
    char value[LINE];
    if (!find(scope, key, 0, value)) return NOT_SUPPORTED;
    *current = *pending = atoi(value);
    return OK;
}
int nvmlDeviceGetEccMode(Card card, u32 *current, u32 *pending) {
    BEGIN(index_of(card));
    return tell_switch(index_of(card), "ecc", current, pending);
}
int nvmlDeviceGetMigMode(Card card, u32 *current, u32 *pending) {
    BEGIN(index_of(card));
    return tell_switch(index_of(card), "mig", current, pending);
}
int nvmlDeviceGetAccountingMode(Card card, u32 *mode) TELL_NUMBER(mode, index_of(card), "accounting")

int nvmlDeviceGetPciInfo_v3(Card card, PciInfo *info) {
    char value[LINE];
    BEGIN(index_of(card));
    if (!find(index_of(card), "pci", 0, value)) return NOT_SUPPORTED;
    memset(info, 0, sizeof *info);
    if (sscanf(value, "%x:%x:%x", &info->domain, &info->bus, &info->device) != 3) return INVALID;
    snprintf(info->legacy, sizeof info->legacy, "%04X:%02X:%02X.0", info->domain & 0xffff, info->bus & 0xff, info->device & 0xff);
    snprintf(info->id, sizeof info->id, "%08X:%02X:%02X.0", info->domain, info->bus, info->device);
    return OK;
}
int nvmlDeviceGetCudaComputeCapability(Card card, int *major, int *minor) {
    char value[LINE];
    BEGIN(index_of(card));
    if (!find(index_of(card), "capability", 0, value)) return NOT_SUPPORTED;
    return sscanf(value, "%d.%d", major, minor) == 2 ? OK : INVALID;
}

int nvmlDeviceGetMemoryInfo(Card card, Memory *memory) {
    int index = index_of(card);
    BEGIN(index);
    memory->total = number_of(index, "memory", 0);
    memory->used = number_of(index, "used", 0);
    memory->free = memory->total - memory->used;
    return OK;
}
int nvmlDeviceGetMemoryInfo_v2(Card card, Memory2 *memory) {
    int index = index_of(card);
    BEGIN(index);
    memory->total = number_of(index, "memory", 0);
    memory->reserved = number_of(index, "reserved", 0);
    memory->used = number_of(index, "used", 0) - memory->reserved;
    memory->free = memory->total - memory->used - memory->reserved;
    return OK;
}
int nvmlDeviceGetUtilizationRates(Card card, Utilization *busy) {
    char value[LINE];
    BEGIN(index_of(card));
    if (!find(index_of(card), "busy", 0, value)) return NOT_SUPPORTED;
    busy->memory = 0;
    return sscanf(value, "%u %u", &busy->gpu, &busy->memory) >= 1 ? OK : INVALID;
}

/* process PID BYTES [PERCENT] */
static int tell_processes(int index, u32 *count, Process *told) {
    char value[LINE];
    u32 room = *count, n = 0;
    for (; find(index, "process", n, value); n++)
        if (told && n < room) {
            memset(&told[n], 0, sizeof *told);
            told[n].instance = told[n].compute_instance = 0xffffffff;
            sscanf(value, "%u %llu", &told[n].pid, &told[n].memory);
        }
    *count = n;
    return n > room ? TOO_SMALL : OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Card card, u32 *count, Process *told) {
    BEGIN(index_of(card));
    return tell_processes(index_of(card), count, told);
}
int nvmlDeviceGetComputeRunningProcesses_v2(Card card, u32 *count, Process *told) {
    BEGIN(index_of(card));
    return tell_processes(index_of(card), count, told);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(Card card, u32 *count, Process *told) {
    (void)told;
    BEGIN(index_of(card));
    *count = 0;
    return OK;
}
int nvmlDeviceGetProcessUtilization(Card card, ProcessUtilization *told, u32 *count, u64 since) {
    char value[LINE];
    struct timespec now;
    u32 room = *count, n = 0;
    (void)since;
    BEGIN(index_of(card));
    clock_gettime(CLOCK_REALTIME, &now);
    for (; find(index_of(card), "process", n, value); n++)
        if (told && n < room) {
            u64 bytes;
            memset(&told[n], 0, sizeof *told);
            told[n].time = now.tv_sec * 1000000ull + now.tv_nsec / 1000;
            sscanf(value, "%u %llu %u", &told[n].pid, &bytes, &told[n].sm);
        }
    *count = n;
    return n == 0 ? NOT_FOUND : n > room ? TOO_SMALL : OK;
}
/* sample MICROSECONDS PERCENT */
int nvmlDeviceGetSamples(Card card, int type, u64 since, int *value_type, u32 *count, Sample *told) {
    char value[LINE];
    u64 time;
    u32 percent, n = 0;
    BEGIN(index_of(card));
    if (type != 1) return NOT_SUPPORTED;
    *value_type = 1;
    for (int line = 0; find(index_of(card), "sample", line, value); line++) {
        if (sscanf(value, "%llu %u", &time, &percent) != 2 || time <= since) continue;
        if (told) { told[n].time = time; told[n].value.number = percent; }
        n++;
    }
    *count = n;
    return n == 0 ? NOT_FOUND : OK;
}
/* accounted PID PERCENT MOST_BYTES MILLISECONDS IS_RUNNING */
int nvmlDeviceGetAccountingStats(Card card, u32 pid, Accounting *told) {
    char value[LINE];
    u32 one;
    BEGIN(index_of(card));
    memset(told, 0, sizeof *told);
    for (int n = 0; find(index_of(card), "accounted", n, value); n++)
        if (sscanf(value, "%u %u %llu %llu %u", &one, &told->busy, &told->most_memory, &told->time, &told->is_running) == 5
            && one == pid) return OK;
    return NOT_FOUND;
}
/* violation POLICY NANOSECONDS */
int nvmlDeviceGetViolationStatus(Card card, int policy, Violation *told) {
    char value[LINE];
    int one;
    struct timespec now;
    BEGIN(index_of(card));
    clock_gettime(CLOCK_REALTIME, &now);
    told->reference = now.tv_sec * 1000000ull;
    told->violation = 0;
    for (int n = 0; find(index_of(card), "violation", n, value); n++)
        if (sscanf(value, "%d %llu", &one, &told->violation) == 2 && one == policy) return OK;
    return OK;
}

/* One set is enough for one process; it hears of every GPU that was registered. */
static int listens[MOST];
int nvmlEventSetCreate(void **set) { BEGIN(MACHINE); *set = listens; return OK; }
int nvmlEventSetFree(void *set) { (void)set; BEGIN(MACHINE); memset(listens, 0, sizeof listens); return OK; }
int nvmlDeviceGetSupportedEventTypes(Card card, u64 *types) { BEGIN(index_of(card)); *types = XID; return OK; }
int nvmlDeviceRegisterEvents(Card card, u64 types, void *set) {
    (void)set;
    BEGIN(index_of(card));
    listens[index_of(card)] = (types & XID) != 0;
    return OK;
}
int nvmlEventSetWait_v2(void *set, Event *event, u32 milliseconds) {
    char value[LINE];
    (void)set;
    BEGIN(MACHINE);
    for (long waited = 0;; waited += 10) {
        for (int index = 0; index < MOST; index++)
            if (listens[index] && find(index, "xid", cards[index].told_xids, value)) {
                cards[index].told_xids++;
                *event = (Event){&cards[index], XID, strtoull(value, 0, 0), 0xffffffff, 0xffffffff};
                return OK;
            }
        if (waited >= (long)milliseconds) return TIMEOUT;
        rest(10);
    }
}
