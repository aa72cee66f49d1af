/* Which device a thread means, and the primary contexts. */
#include "runtime.h"

#include <pthread.h>
#include <stdatomic.h>

enum { DEVICES = 64 };

static struct {
    CUcontext primary; /* the handle, also after a reset: other threads may still have it current */
    int retained;
} devices[DEVICES];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Grows when a primary context ends: what a thread knows of its context is then to be looked at again. */
static atomic_uint epoch = 1;

static __thread int chosen_device;
static __thread unsigned int seen_epoch;

static int device_of_primary(CUcontext context) {
    for (int i = 0; i < DEVICES; i++)
        if (devices[i].primary == context)
            return i;
    return -1;
}

static int retain_locked(int device) {
    if (devices[device].retained)
        return 0;
    int result = DRIVER(cuDevicePrimaryCtxRetain)(&devices[device].primary, device);
    devices[device].retained = !result;
    return result;
}

int cudart_primary(int device, CUcontext *context) {
    int result = cudart_driver_ready();
    if (result)
        return result;
    if (device < 0 || device >= DEVICES)
        return cudaErrorInvalidDevice;
    pthread_mutex_lock(&mutex);
    result = retain_locked(device);
    *context = devices[device].primary;
    pthread_mutex_unlock(&mutex);
    return result;
}

static int make_current(int device) {
    unsigned int now = atomic_load(&epoch);
    CUcontext context;
    int result = cudart_primary(device, &context);
    if (!result)
        result = DRIVER(cuCtxSetCurrent)(context);
    if (!result)
        seen_epoch = now;
    return result;
}

/* A context is current that this thread has not looked at since a primary context ended: a dead primary, or the program's own. */
static int look_again(CUcontext current) {
    unsigned int now = atomic_load(&epoch);
    pthread_mutex_lock(&mutex);
    int device = device_of_primary(current);
    int dead = device >= 0 && !devices[device].retained;
    pthread_mutex_unlock(&mutex);
    if (dead)
        return make_current(device);
    seen_epoch = now;
    return 0;
}

int cudart_enter(void) {
    int result = cudart_driver_ready();
    if (result)
        return result;
    CUcontext current = NULL;
    result = DRIVER(cuCtxGetCurrent)(&current);
    if (result)
        return result;
    if (!current)
        return make_current(chosen_device);
    return seen_epoch == atomic_load(&epoch) ? 0 : look_again(current);
}

int cudart_enter_device(int device) {
    int result = cudart_driver_ready();
    if (result)
        return result;
    int count = 0;
    result = DRIVER(cuDeviceGetCount)(&count);
    if (result)
        return result;
    if (device < 0 || device >= count)
        return cudaErrorInvalidDevice;
    result = make_current(device);
    if (!result)
        chosen_device = device;
    return result;
}

int cudart_device(int *device) {
    int result = cudart_driver_ready();
    if (result)
        return result;
    CUcontext current = NULL;
    result = DRIVER(cuCtxGetCurrent)(&current);
    if (!result && current && DRIVER(cuCtxGetDevice)(device) == CUDA_SUCCESS)
        return 0;
    *device = chosen_device;
    return result;
}

/* The reset ends the context whatever its references are; ours goes as well, and its answer says nothing new. */
int cudart_reset(int device) {
    if (device < 0 || device >= DEVICES)
        return cudaErrorInvalidDevice;
    pthread_mutex_lock(&mutex);
    int result = 0;
    if (devices[device].retained) {
        result = DRIVER(cuDevicePrimaryCtxReset)(device);
        (void)DRIVER(cuDevicePrimaryCtxRelease)(device);
        devices[device].retained = 0;
        atomic_fetch_add(&epoch, 1);
    }
    pthread_mutex_unlock(&mutex);
    if (!result)
        result = DRIVER(cuCtxSetCurrent)(NULL);
    return result;
}

int cudart_set_flags(unsigned int flags) {
    int device;
    int result = cudart_device(&device);
    return result ? result : (int)DRIVER(cuDevicePrimaryCtxSetFlags)(device, flags);
}
