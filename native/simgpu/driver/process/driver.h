/* What every file of the simulated driver shares: the vendor's types, one lock, the state of this process, handles.

   Lock order: `driver_lock` first, then the lock of data that moves (transfer.c) or of jobs (jobs.c), then the machine's.
   Nothing waits for a card, calls a tenant's function or moves tenant data while it holds `driver_lock`. */
#ifndef GPUPOOL_SIMGPU_DRIVER_H
#define GPUPOOL_SIMGPU_DRIVER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every form of a function under its exact name, and every entry point visible. */
#pragma GCC visibility push(default)
#include <gpupool/cuda_all.h>
#pragma GCC visibility pop

#define DRIVER_VERSION_DEFAULT 13050
#define EXPORTED __attribute__((visibility("default")))

enum handle_kind {
    HANDLE_CONTEXT = 1, HANDLE_STREAM, HANDLE_EVENT, HANDLE_MODULE, HANDLE_LIBRARY, HANDLE_FUNCTION, HANDLE_KERNEL,
    HANDLE_GRAPH, HANDLE_NODE, HANDLE_EXEC, HANDLE_POOL, HANDLE_PHYSICAL, HANDLE_ARRAY, HANDLE_MIPMAP, HANDLE_OBJECT,
    HANDLE_LINK, HANDLE_TEXREF, HANDLE_SURFREF, HANDLE_TEXOBJECT, HANDLE_SURFOBJECT, HANDLE_NOTIFICATION,
};

/* state.c */
enum driver_state { DRIVER_COLD, DRIVER_READY, DRIVER_FORKED, DRIVER_CLOSED };
extern _Atomic int driver_state;
CUresult driver_refusal(void);   /* why a call made before cuInit, or in a forked child, is refused */
void driver_lock(void);
void driver_unlock(void);
uint64_t driver_next_id(void);   /* unique in this process, from 1 */
CUresult driver_start(void);
/* The word of this process in the machine that is 0 while its calls may pass; card.c. */
extern const _Atomic uint64_t *_Atomic driver_suspension;
void driver_pass_gate(void);

static inline void driver_unlock_scope(int *held)
{
    (void)held;
    driver_unlock();
}

/* The first lines of an entry point. READY: after cuInit, in the process that called it, and not while another process has
   locked this one to suspend it. LOCKED: and alone, until the function returns. */
#define READY() \
    do { \
        if (__builtin_expect(driver_state != DRIVER_READY, 0)) \
            return driver_refusal(); \
        if (__builtin_expect(atomic_load_explicit(driver_suspension, memory_order_relaxed) != 0, 0)) \
            driver_pass_gate(); \
    } while (0)
#define LOCKED() \
    READY(); \
    driver_lock(); \
    __attribute__((cleanup(driver_unlock_scope), unused)) int driver_lock_held = 1
#define REQUIRE(condition, error) \
    do { \
        if (!(condition)) \
            return (error); \
    } while (0)
#define TRY(call) \
    do { \
        CUresult tried = (call); \
        if (tried != CUDA_SUCCESS) \
            return tried; \
    } while (0)

/* handles.c; under the lock. A handle that is not there is answered, never followed. */
bool handle_add(const void *handle, enum handle_kind kind);
void handle_drop(const void *handle);
bool handle_is(const void *handle, enum handle_kind kind);
void *handle_new(size_t size, enum handle_kind kind); /* zeroed and registered; NULL: no memory */
void handle_free(void *handle);

/* log.c */
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool log_enabled(void);
void log_start(void);
CUresult unsupported(const char *symbol, const void *caller);

/* settings.c: the environment, read once by cuInit. */
struct settings {
    int64_t kernel_ns;          /* GPUPOOL_SIMGPU_KERNEL_US, -1: from the launch */
};
extern struct settings settings;
void settings_read(void);
long settings_number(const char *name, long otherwise);

#endif
