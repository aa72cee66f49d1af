/* Handlers of cuMemAlloc, cuMemAllocManaged, cuMemAllocPitch and cuMemFree. */
#include "account.h"
#include "charge.h"
#include "imports.h"
#include "pools.h"
#include "process/cards.h"
#include "process/real.h"
#include "process/reentry.h"
#include "reserve.h"

#define PITCH_UNIT 512u /* no card asks for a larger alignment of a row */

CUresult fence_cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    struct charge charge;
    if (!fence_enter())
        return fence_real.cuMemAlloc_v2(pointer, bytes);
    CUresult result = charge_begin(&charge, card_of_current(), bytes);
    if (result == CUDA_SUCCESS) {
        result = fence_real.cuMemAlloc_v2(pointer, bytes);
        charge_end_in_context(&charge, result, HANDLE_MEMORY, result ? 0 : *pointer);
    }
    return fence_leave(result);
}

CUresult fence_cuMemAlloc(CUdeviceptr_v1 *pointer, unsigned int bytes)
{
    struct charge charge;
    if (!fence_enter())
        return fence_real.cuMemAlloc(pointer, bytes);
    CUresult result = charge_begin(&charge, card_of_current(), bytes);
    if (result == CUDA_SUCCESS) {
        result = fence_real.cuMemAlloc(pointer, bytes);
        charge_end_in_context(&charge, result, HANDLE_MEMORY, result ? 0 : *pointer);
    }
    return fence_leave(result);
}

CUresult fence_cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags)
{
    struct charge charge;
    if (!fence_enter())
        return fence_real.cuMemAllocManaged(pointer, bytes, flags);
    CUresult result = charge_begin(&charge, card_of_current(), bytes);
    if (result == CUDA_SUCCESS) {
        result = fence_real.cuMemAllocManaged(pointer, bytes, flags);
        charge_end_in_context(&charge, result, HANDLE_MEMORY, result ? 0 : *pointer);
    }
    return fence_leave(result);
}

/* Saturates: what is too large to count is too large for the card. */
static uint64_t product(uint64_t a, uint64_t b)
{
    uint64_t result;
    return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX : result;
}

static uint64_t pitched(uint64_t width, uint64_t height)
{
    uint64_t row = width > UINT64_MAX - PITCH_UNIT ? UINT64_MAX : (width + PITCH_UNIT - 1) / PITCH_UNIT * PITCH_UNIT;
    return product(row, height);
}

/* The driver chose a longer row than was thought: the rest is charged too, or the memory goes back. */
static CUresult settle_pitch(struct charge *charge, CUdeviceptr pointer, uint64_t bytes)
{
    uint64_t actual = charge->card < 0 ? 0 : account_size(charge->card, bytes);
    if (charge->card < 0 || actual <= charge->bytes)
        return CUDA_SUCCESS;
    if (!reserve_memory(charge->card, actual - charge->bytes)) {
        fence_real.cuMemFree_v2(pointer);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    charge->bytes = actual;
    return CUDA_SUCCESS;
}

CUresult fence_cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned int element)
{
    struct charge charge;
    if (!fence_enter())
        return fence_real.cuMemAllocPitch_v2(pointer, pitch, width, height, element);
    CUresult result = charge_begin(&charge, card_of_current(), pitched(width, height));
    if (result == CUDA_SUCCESS) {
        result = fence_real.cuMemAllocPitch_v2(pointer, pitch, width, height, element);
        if (result == CUDA_SUCCESS)
            result = settle_pitch(&charge, *pointer, product(*pitch, height));
        charge_end_in_context(&charge, result, HANDLE_MEMORY, result ? 0 : *pointer);
    }
    return fence_leave(result);
}

CUresult fence_cuMemAllocPitch(CUdeviceptr_v1 *pointer, unsigned int *pitch, unsigned int width, unsigned int height,
                               unsigned int element)
{
    struct charge charge;
    if (!fence_enter())
        return fence_real.cuMemAllocPitch(pointer, pitch, width, height, element);
    CUresult result = charge_begin(&charge, card_of_current(), pitched(width, height));
    if (result == CUDA_SUCCESS) {
        result = fence_real.cuMemAllocPitch(pointer, pitch, width, height, element);
        if (result == CUDA_SUCCESS)
            result = settle_pitch(&charge, *pointer, product(*pitch, height));
        charge_end_in_context(&charge, result, HANDLE_MEMORY, result ? 0 : *pointer);
    }
    return fence_leave(result);
}

/* A pointer from a pool may be freed here too. */
CUresult fence_cuMemFree_v2(CUdeviceptr pointer)
{
    struct handle handle;
    if (!fence_enter())
        return fence_real.cuMemFree_v2(pointer);
    bool pooled = pools_take(pointer, &handle);
    bool known = !pooled && charge_take(HANDLE_MEMORY, pointer, &handle);
    CUresult result = charge_freed(&handle, known, fence_real.cuMemFree_v2(pointer));
    if (pooled)
        pools_freed(&handle, result);
    else if (!known)
        imports_freed(pointer, result);
    return fence_leave(result);
}

CUresult fence_cuMemFree(CUdeviceptr_v1 pointer)
{
    struct handle handle;
    if (!fence_enter())
        return fence_real.cuMemFree(pointer);
    bool known = charge_take(HANDLE_MEMORY, pointer, &handle);
    return fence_leave(charge_freed(&handle, known, fence_real.cuMemFree(pointer)));
}
