/* Handles a program's first call: refuses CUDA without a share, a slot, or a driver that the table knows. */
#include <stdio.h>

#include "driver.h"
#include "real.h"
#include "reentry.h"
#include "state.h"

#define OLDEST_DRIVER 12000 /* the oldest headers that the table was made of */

__thread int fence_inside __attribute__((tls_model("initial-exec")));

/* Only looks up names in a library that the loader has mapped and initialised before this one; the loader's lock is this
   thread's already. So no handler has to ask whether the table is filled. */
__attribute__((constructor)) static void fill_table(void)
{
    void *handle = driver_handle();
    if (handle)
        fence_table_fill(&fence_driver_table, handle);
}

static bool is_too_old(void)
{
    static atomic_bool was_printed;
    char line[160];
    int version = 0;
    if (fence_real.cuDriverGetVersion(&version) != CUDA_SUCCESS || version >= OLDEST_DRIVER)
        return false;
    if (!atomic_exchange(&was_printed, true)) {
        snprintf(line, sizeof line, "the fence refuses CUDA in this process: the driver is for CUDA %d.%d, older than 12.0",
                 version / 1000, version % 1000 / 10);
        print_message(line);
    }
    return true;
}

CUresult fence_cuInit(unsigned int flags)
{
    if (!fence_enter())
        return fence_real.cuInit(flags);
    if (!driver_handle() || is_too_old() || !fence_ready())
        return fence_leave(CUDA_ERROR_SYSTEM_NOT_READY);
    return fence_leave(fence_real.cuInit(flags));
}

void fence_unknown_lookup(const char *name)
{
    (void)name;
    if (fence_ready())
        atomic_fetch_add(&fence_state.region.usage->unknown_lookups, 1);
}
