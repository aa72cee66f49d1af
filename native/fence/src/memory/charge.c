#include "charge.h"

#include "account.h"
#include "process/cards.h"
#include "process/real.h"
#include "process/state.h"
#include "reserve.h"

CUresult charge_begin(struct charge *charge, int card, uint64_t bytes)
{
    *charge = (struct charge){CARD_NONE, 0};
    if (!fence_ready())
        return CUDA_ERROR_SYSTEM_NOT_READY;
    if (card == CARD_FOREIGN)
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    if (card == CARD_NONE)
        return CUDA_SUCCESS;
    *charge = (struct charge){card, account_size(card, bytes)};
    return reserve_memory(card, charge->bytes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void charge_cancel(const struct charge *charge)
{
    if (charge->card >= 0)
        account_cancel(charge->card, charge->bytes);
}

static CUresult end(const struct charge *charge, CUresult result, struct handle handle)
{
    if (charge->card < 0)
        return result;
    if (result != CUDA_SUCCESS) {
        account_cancel(charge->card, charge->bytes);
        return result;
    }
    handles_add(&handle); /* first: another thread may free it as soon as it is told */
    account_commit(charge->card, charge->bytes);
    return result;
}

CUresult charge_end(const struct charge *charge, CUresult result, enum handle_kind kind, uint64_t key)
{
    return end(charge, result, (struct handle){.key = key, .kind = kind, .card = charge->card, .bytes = charge->bytes});
}

CUresult charge_end_in_context(const struct charge *charge, CUresult result, enum handle_kind kind, uint64_t key)
{
    CUcontext context = NULL;
    if (result == CUDA_SUCCESS && charge->card >= 0)
        fence_real.cuCtxGetCurrent(&context);
    return end(charge, result,
               (struct handle){.key = key, .kind = kind, .card = charge->card, .bytes = charge->bytes, .context = context});
}

bool charge_take(enum handle_kind kind, uint64_t key, struct handle *handle)
{
    return fence_ready() && handles_take(kind, key, handle);
}

CUresult charge_freed(const struct handle *handle, bool known, CUresult result)
{
    if (!known)
        return result;
    if (result == CUDA_SUCCESS)
        account_release(handle->card, handle->bytes);
    else
        handles_add(handle);
    return result;
}
