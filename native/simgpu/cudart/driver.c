#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct driver_functions cudart_driver[2];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int loaded;
static atomic_int ready;
static atomic_int leaving;

struct lookup {
    const char *name;
    int version;
    int twin_version; /* 0: no twin, both tables hold the same */
};

static const struct lookup lookups[] = {
#define FUNCTION(name, version) {#name, version, 0},
#define TWIN(name, version, twin_version) {#name, version, twin_version},
#include "driver_functions.def"
#undef FUNCTION
#undef TWIN
};
enum { FUNCTIONS = sizeof lookups / sizeof lookups[0] };
_Static_assert(sizeof(struct driver_functions) == FUNCTIONS * sizeof(void *), "one pointer per look-up");

/* What an older driver lacks answers as the vendor's runtime says it. */
static int needs_newer_driver(void) { return cudaErrorCallRequiresNewerDriver; }

static void *look_up(PFN_cuGetProcAddress_v12000 get, const char *name, int version, cuuint64_t flags) {
    void *found = NULL;
    CUdriverProcAddressQueryResult status;
    if (get(name, &found, version, flags, &status) != CUDA_SUCCESS || !found)
        return (void *)needs_newer_driver;
    return found;
}

static void fill_tables(PFN_cuGetProcAddress_v12000 get) {
    void **legacy = (void **)&cudart_driver[LEGACY_STREAM];
    void **per_thread = (void **)&cudart_driver[THREAD_STREAM];
    for (int i = 0; i < FUNCTIONS; i++) {
        const struct lookup *l = &lookups[i];
        legacy[i] = look_up(get, l->name, l->version, CU_GET_PROC_ADDRESS_DEFAULT);
        per_thread[i] = legacy[i];
        if (l->twin_version)
            per_thread[i] = look_up(get, l->name, l->twin_version, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    }
}

static void leave(void) { atomic_store(&leaving, 1); }

static int load(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        return cudaErrorInsufficientDriver;
    PFN_cuGetProcAddress_v12000 get = (PFN_cuGetProcAddress_v12000)dlsym(library, "cuGetProcAddress_v2");
    if (!get) {
        dlclose(library);
        return cudaErrorInsufficientDriver;
    }
    fill_tables(get);
    atexit(leave);
    return 0;
}

int cudart_driver_loaded(void) {
    if (atomic_load_explicit(&loaded, memory_order_acquire))
        return 0;
    pthread_mutex_lock(&mutex);
    int result = atomic_load(&loaded) ? 0 : load();
    if (!result)
        atomic_store(&loaded, 1);
    pthread_mutex_unlock(&mutex);
    return result;
}

int cudart_driver_ready(void) {
    if (atomic_load_explicit(&ready, memory_order_acquire))
        return 0;
    int result = cudart_driver_loaded();
    if (!result)
        result = DRIVER(cuInit)(0);
    if (!result)
        atomic_store(&ready, 1);
    return result;
}

int cudart_leaving(void) { return atomic_load(&leaving); }
