/* What a made-up library of NVIDIA's tells: lines `SCOPE KEY VALUE...` in the file `state` beside it, read anew at every
 * call, or in the file that FAKE_STATE names. SCOPE is the index of a GPU, or * for the machine.
 */
#define _GNU_SOURCE
#include <features.h>
/* glibc 2.38 and newer would take the functions of C23, which an older image's C library does not have. */
#undef __GLIBC_USE_C2X_STRTOL
#undef __GLIBC_USE_C23_STRTOL
#define __GLIBC_USE_C2X_STRTOL 0
#define __GLIBC_USE_C23_STRTOL 0
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef unsigned int u32;
typedef unsigned long long u64;
enum { MACHINE = -1, MOST = 64, LINE = 512 };

/* The n-th value of a key; its words in `value`. Returns whether there is one. */
static int find(int scope, const char *key, int number, char *value) {
    char path[4096], line[LINE], who[16], what[64], wanted[16];
    Dl_info place;
    int at;
    dladdr((void *)find, &place);
    snprintf(path, sizeof path, "%s", place.dli_fname);
    strcpy(strrchr(path, '/') + 1, "state");
    if (getenv("FAKE_STATE")) snprintf(path, sizeof path, "%s", getenv("FAKE_STATE"));
    if (scope == MACHINE) strcpy(wanted, "*");
    else snprintf(wanted, sizeof wanted, "%d", scope);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%15s %63s %n", who, what, &at) < 2 || strcmp(who, wanted) || strcmp(what, key)) continue;
        if (number-- == 0) {
            strcpy(value, line + at);
            fclose(file);
            return 1;
        }
    }
    fclose(file);
    return 0;
}

static u64 number_of(int scope, const char *key, u64 otherwise) {
    char value[LINE];
    return find(scope, key, 0, value) ? strtoull(value, 0, 0) : otherwise;
}

static int asked_for(int scope, const char *kind, const char *function, long *argument) {
    char value[LINE], name[128];
    for (int n = 0; find(scope, kind, n, value); n++) {
        *argument = 0;
        if (sscanf(value, "%127s %ld", name, argument) >= 1 && !strcmp(name, function)) return 1;
    }
    return 0;
}
