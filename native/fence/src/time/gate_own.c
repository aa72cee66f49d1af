/* Handlers of calls that the gate must see and that fit no generated wrapper. */
#include "gate.h"
#include "process/real.h"
#include "process/reentry.h"

CUresult fence_cuStreamDestroy(CUstream stream)
{
    if (!fence_enter())
        return fence_real.cuStreamDestroy(stream);
    gate_stream_ended(stream);
    return fence_leave(fence_real.cuStreamDestroy(stream));
}

CUresult fence_cuStreamDestroy_v2(CUstream stream)
{
    if (!fence_enter())
        return fence_real.cuStreamDestroy_v2(stream);
    gate_stream_ended(stream);
    return fence_leave(fence_real.cuStreamDestroy_v2(stream));
}

/* The process ends: this library's destructor comes before the driver's, which it needs. */
__attribute__((destructor)) static void end(void)
{
    struct gate *g = gate();
    if (g)
        completion_end(&g->completion);
}
