/* The blocks of this process in order of address. */
#include "contexts/context.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "copies/transfer.h"
#include "devices/card.h"
#include "machine/machine.h"

static struct block **sorted;
static size_t count, room;

size_t block_charge_size(size_t size)
{
    size_t granule = size < SMALL_BELOW ? SMALL_GRANULE : GRANULE;

    return (size + granule - 1) / granule * granule;
}

static uint32_t block_purpose(enum block_kind kind)
{
    return kind == BLOCK_MANAGED ? SIM_MANAGED : kind == BLOCK_ARRAY ? SIM_ARRAY : SIM_DEVICE;
}

/* The first block that begins above the address. */
static size_t above(const char *address)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (sorted[middle]->start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct block *block_at(const void *address)
{
    size_t next = above(address);

    if (!next)
        return NULL;
    struct block *block = sorted[next - 1];
    return (const char *)address < block->start + block->size ? block : NULL;
}

struct block *block_exact(const void *address)
{
    struct block *block = block_at(address);

    return block && block->start == (const char *)address ? block : NULL;
}

struct block *block_next(size_t *position)
{
    return *position < count ? sorted[(*position)++] : NULL;
}

struct block *block_insert(const struct block *like)
{
    if (count == room) {
        size_t wanted = room ? room * 2 : 64;
        struct block **more = realloc(sorted, wanted * sizeof *more);
        if (!more)
            return NULL;
        sorted = more;
        room = wanted;
    }
    struct block *block = malloc(sizeof *block);
    if (!block)
        return NULL;
    *block = *like;
    block->id = driver_next_id();
    size_t at = above(block->start);
    memmove(&sorted[at + 1], &sorted[at], (count - at) * sizeof *sorted);
    sorted[at] = block;
    ++count;
    return block;
}

static void forget(struct block *block)
{
    size_t at = above(block->start) - 1;

    memmove(&sorted[at], &sorted[at + 1], (count - at - 1) * sizeof *sorted);
    --count;
}

void block_remove(struct block *block)
{
    forget(block);
    if (block->kind == BLOCK_RESERVED)
        vmm_range_close(block);
    data_lock_exclusive();
    if (block->kind != BLOCK_REGISTERED)
        pages_unmap(block->start, block->mapped);
    data_unlock();
    if (block->shared_file >= 0)
        close(block->shared_file);
    if (block->charged)
        card_uncharge(block->device, block_purpose(block->kind), block->charged);
    free(block);
}

/* Reservations and imports of other processes' memory outlive no context either; registered pages stay the tenant's. */
void blocks_close(CUcontext context)
{
    for (size_t at = count; at > 0; --at)
        if (sorted[at - 1]->context == context && sorted[at - 1]->kind != BLOCK_RESERVED &&
            sorted[at - 1]->kind != BLOCK_POOLED)
            block_remove(sorted[at - 1]);
}

CUresult block_allocate(void **out, const struct block *like, size_t alignment)
{
    struct block block = *like;
    CUresult charged = block.charged ? card_charge(block.device, block_purpose(block.kind), block.charged) : CUDA_SUCCESS;

    TRY(charged);
    block.mapped = pages_round(block.size);
    block.start = pages_map(block.size, alignment, block.low ? MAP_32BIT : 0);
    block.shared_file = -1;
    struct block *made = block.start ? block_insert(&block) : NULL;
    if (made) {
        *out = made->start;
        return CUDA_SUCCESS;
    }
    if (block.start)
        pages_unmap(block.start, block.size);
    if (block.charged)
        card_uncharge(block.device, block_purpose(block.kind), block.charged);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult range_check(const void *address, size_t size, bool must_be_known, bool writes)
{
    const char *start = address;
    struct block *block = block_at(start);

    REQUIRE(address && start + size >= start, CUDA_ERROR_INVALID_VALUE);
    if (!block)
        return must_be_known ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (must_be_known && block->kind == BLOCK_ARRAY)
        return CUDA_ERROR_INVALID_VALUE;
    if (block->kind == BLOCK_RESERVED)
        return vmm_range_usable(block, start, size, writes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    /* A registered range may be followed by more of the tenant's own memory. */
    if (block->kind == BLOCK_REGISTERED || block->kind == BLOCK_HOST)
        return CUDA_SUCCESS;
    return size <= (size_t)(block->start + block->mapped - start) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool range_is_device(const void *address)
{
    struct block *block = block_at(address);

    return block && block->kind != BLOCK_HOST && block->kind != BLOCK_REGISTERED;
}

bool range_is_pinned(const void *address)
{
    return block_at(address) != NULL;
}
