/* Physical memory of cuMemCreate: it lives until its last handle is released and its last mapping is gone. */
#include <pthread.h>
#include <stdlib.h>

#include "account.h"
#include "charge.h"
#include "process/cards.h"
#include "process/real.h"
#include "process/reentry.h"
#include "process/state.h"

/* One piece of memory under one or more handles. An imported one is charged to its exporter; what is mapped of it is shown. */
struct piece {
    int card;
    uint64_t bytes;
    uint64_t references, mappings;
    bool imported, exported, counted_unmapped;
};

/* An imported handle that is mapped nowhere keeps memory of a size that the driver does not tell. */
static void count_unmapped(struct piece *piece)
{
    bool unmapped = piece->imported && piece->references && !piece->mappings;
    if (unmapped != piece->counted_unmapped)
        account_unmapped_imports(unmapped ? 1 : -1);
    piece->counted_unmapped = unmapped;
}

/* Held over the driver's calls: an address or handle that is free may be given out again at once. */
struct vmm {
    pthread_mutex_t lock;
};

static _Atomic(struct vmm *) own_vmm;

static bool lock_vmm(void)
{
    struct vmm *found = atomic_load(&own_vmm);
    if (!found) {
        struct vmm *made = fence_process_memory(sizeof *made);
        if (!made)
            return false;
        found = atomic_compare_exchange_strong(&own_vmm, &found, made) ? made : found;
    }
    return !pthread_mutex_lock(&found->lock);
}

static void unlock_vmm(void)
{
    pthread_mutex_unlock(&atomic_load(&own_vmm)->lock);
}

static bool remember(uint64_t key, int card, uint64_t bytes, bool imported)
{
    struct piece *piece = malloc(sizeof *piece);
    if (!piece)
        return false; /* stays charged */
    *piece = (struct piece){card, bytes, 1, 0, imported, false, false};
    count_unmapped(piece);
    handles_add(&(struct handle){.key = key, .kind = HANDLE_PHYSICAL, .card = card, .object = piece});
    return true;
}

static void let_go(struct piece *piece)
{
    count_unmapped(piece);
    if (piece->references || piece->mappings)
        return;
    if (piece->exported)
        account_orphan(piece->card, piece->bytes);
    if (piece->imported)
        account_open_imports(-1);
    else
        account_release(piece->card, piece->bytes);
    free(piece);
}

static struct piece *piece_of(CUmemGenericAllocationHandle key)
{
    struct handle handle;
    return handles_find(HANDLE_PHYSICAL, key, &handle) ? handle.object : NULL;
}

static int card_of(const CUmemAllocationProp *wanted)
{
    if (!wanted || wanted->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CARD_NONE; /* the host's memory */
    return fence_ready() ? card_of_device(wanted->location.id) : CARD_NONE;
}

CUresult fence_cuMemCreate(CUmemGenericAllocationHandle *key, size_t bytes, const CUmemAllocationProp *wanted,
                           unsigned long long flags)
{
    struct charge charge;
    if (!fence_enter())
        return fence_real.cuMemCreate(key, bytes, wanted, flags);
    CUresult result = charge_begin(&charge, card_of(wanted), bytes);
    if (result != CUDA_SUCCESS)
        return fence_leave(result);
    /* A handle that another thread is releasing is the driver's to give again before that thread has forgotten it. */
    bool locked = charge.card >= 0 && lock_vmm();
    result = fence_real.cuMemCreate(key, bytes, wanted, flags);
    if (charge.card >= 0 && result == CUDA_SUCCESS) {
        remember(*key, charge.card, charge.bytes, false);
        account_commit(charge.card, charge.bytes);
    } else {
        charge_cancel(&charge);
    }
    if (locked)
        unlock_vmm();
    return fence_leave(result);
}

CUresult fence_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *key, void *from, CUmemAllocationHandleType type)
{
    CUmemAllocationProp made;
    if (!fence_enter())
        return fence_real.cuMemImportFromShareableHandle(key, from, type);
    bool counted = fence_ready() != NULL, kept = false;
    if (counted)
        account_open_imports(1);
    CUresult result = fence_real.cuMemImportFromShareableHandle(key, from, type);
    if (result == CUDA_SUCCESS && counted && lock_vmm()) {
        struct piece *known = piece_of(*key);
        int card = fence_real.cuMemGetAllocationPropertiesFromHandle(&made, *key) == CUDA_SUCCESS ? card_of(&made) : CARD_NONE;
        if (known)
            known->references++; /* a driver may give the exporter its own handle again */
        else if (card >= 0)
            kept = remember(*key, card, 0, true);
        unlock_vmm();
    }
    if (counted && !kept)
        account_open_imports(-1);
    return fence_leave(result);
}

CUresult fence_cuMemExportToShareableHandle(void *to, CUmemGenericAllocationHandle key, CUmemAllocationHandleType type,
                                            unsigned long long flags)
{
    if (!fence_enter())
        return fence_real.cuMemExportToShareableHandle(to, key, type, flags);
    if (fence_ready() && lock_vmm()) {
        struct piece *piece = piece_of(key);
        if (piece && !piece->imported)
            piece->exported = true; /* before anybody can have it */
        unlock_vmm();
    }
    return fence_leave(fence_real.cuMemExportToShareableHandle(to, key, type, flags));
}

CUresult fence_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *key, void *address)
{
    struct handle mapping;
    if (!fence_enter())
        return fence_real.cuMemRetainAllocationHandle(key, address);
    CUresult result = fence_real.cuMemRetainAllocationHandle(key, address);
    if (result == CUDA_SUCCESS && fence_ready() && lock_vmm()) {
        struct piece *piece = piece_of(*key);
        if (!piece && handles_find_covering(HANDLE_MAPPING, (uint64_t)(uintptr_t)address, &mapping)) {
            piece = mapping.object; /* its handles were all released: this is a new one */
            handles_add(&(struct handle){.key = *key, .kind = HANDLE_PHYSICAL, .card = piece->card, .object = piece});
        }
        if (piece)
            piece->references++;
        unlock_vmm();
    }
    return fence_leave(result);
}

static void released(CUmemGenericAllocationHandle key)
{
    struct handle handle;
    struct piece *piece = piece_of(key);
    if (!piece || --piece->references)
        return;
    handles_take(HANDLE_PHYSICAL, key, &handle);
    let_go(piece);
}

CUresult fence_cuMemRelease(CUmemGenericAllocationHandle key)
{
    if (!fence_enter())
        return fence_real.cuMemRelease(key);
    bool locked = fence_ready() && lock_vmm();
    CUresult result = fence_real.cuMemRelease(key);
    if (locked) {
        if (result == CUDA_SUCCESS)
            released(key);
        unlock_vmm();
    }
    return fence_leave(result);
}

static void mapped(uint64_t address, size_t bytes, CUmemGenericAllocationHandle key)
{
    struct piece *piece = piece_of(key);
    struct handle mapping = {.key = address, .kind = HANDLE_MAPPING, .bytes = bytes, .object = piece};
    if (!piece || !handles_add(&mapping))
        return;
    piece->mappings++;
    count_unmapped(piece);
    if (piece->imported)
        account_import(piece->card, bytes);
}

CUresult fence_cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle key,
                        unsigned long long flags)
{
    if (!fence_enter())
        return fence_real.cuMemMap(address, bytes, offset, key, flags);
    bool locked = fence_ready() && lock_vmm();
    CUresult result = fence_real.cuMemMap(address, bytes, offset, key, flags);
    if (locked) {
        if (result == CUDA_SUCCESS)
            mapped(address, bytes, key);
        unlock_vmm();
    }
    return fence_leave(result);
}

/* Mappings are unmapped whole, several that lie end to end at once. */
static void unmapped(uint64_t address, size_t bytes)
{
    struct handle mapping;
    uint64_t end = address + bytes;
    while (address < end && handles_take(HANDLE_MAPPING, address, &mapping) && mapping.bytes) {
        struct piece *piece = mapping.object;
        if (piece->imported)
            account_unimport(piece->card, mapping.bytes);
        piece->mappings--;
        let_go(piece);
        address += mapping.bytes;
    }
}

CUresult fence_cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    if (!fence_enter())
        return fence_real.cuMemUnmap(address, bytes);
    bool locked = fence_ready() && lock_vmm();
    CUresult result = fence_real.cuMemUnmap(address, bytes);
    if (locked) {
        if (result == CUDA_SUCCESS)
            unmapped(address, bytes);
        unlock_vmm();
    }
    return fence_leave(result);
}
