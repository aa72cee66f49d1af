/*
 * A driver that only says what it was asked: each look-up goes to the file RECORD as "name version flags". Calls of the ordinary
 * functions answer 2 (out of memory), calls of the per-thread ones 600 (not ready), and what a thread needs to begin succeeds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fine(void) { return 0; }
static int ordinary(void) { return 2; }
static int per_thread(void) { return 600; }

static int current(void **context) {
    static int one;
    *context = &one;
    return 0;
}

int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, int *status) {
    static FILE *record;
    if (!record)
        record = fopen(getenv("RECORD"), "w");
    fprintf(record, "%s %d %llu\n", name, version, flags);
    fflush(record);
    *status = 0;
    *function = flags & 2 ? (void *)per_thread : (void *)ordinary;
    if (!strcmp(name, "cuInit"))
        *function = (void *)fine;
    if (!strcmp(name, "cuCtxGetCurrent"))
        *function = (void *)current;
    return 0;
}
