/* What the runtime's parts share: the last error, the device of a thread and its context, and the two shapes of a call. */
#ifndef GPUPOOL_CUDART_RUNTIME_H
#define GPUPOOL_CUDART_RUNTIME_H

#include "driver.h"

#pragma GCC visibility push(hidden)

/*
 * Turns what the driver (or the runtime itself) said into a cudaError_t and remembers it for this thread when it is an error. The
 * numbers are the same on both sides; a driver code that the runtime has no name for becomes cudaErrorUnknown.
 */
cudaError_t cudart_result(int code);

/* The driver is up and this thread has a context: the current one, or the primary context of its device. 0 or an error code. */
int cudart_enter(void);
/* As cudart_enter, for a device of the caller's choice, which becomes the thread's. */
int cudart_enter_device(int device);
/* The primary context of DEVICE, made if need be, without making it current. */
int cudart_primary(int device, CUcontext *context);
/* Ends DEVICE's primary context; other threads notice at their next call. */
int cudart_reset(int device);
/* The device that a call of this thread goes to. */
int cudart_device(int *device);
/* Flags for the primary context of the thread's device, now or when it is made. */
int cudart_set_flags(unsigned int flags);

#pragma GCC visibility pop

/* A call of the driver in this thread's context, and its result in the runtime's words. */
#define CALL(name, ...)                                          \
    ({                                                           \
        int call_result = cudart_enter();                        \
        if (!call_result)                                        \
            call_result = (int)DRIVER_TABLE.name##_fn(__VA_ARGS__); \
        cudart_result(call_result);                              \
    })

/* The same for what needs no context. */
#define CALL_BARE(name, ...)                                     \
    ({                                                           \
        int call_result = cudart_driver_ready();                 \
        if (!call_result)                                        \
            call_result = (int)DRIVER_TABLE.name##_fn(__VA_ARGS__); \
        cudart_result(call_result);                              \
    })

/* Several runtime structures are the driver's by another name; their use as such is checked by size where it happens. */
#define SAME_LAYOUT(a, b) _Static_assert(sizeof(a) == sizeof(b), #a " is " #b " by another name")

#endif
