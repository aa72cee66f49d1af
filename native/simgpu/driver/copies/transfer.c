#include "transfer.h"

#include <string.h>

#include "devices/card.h"
#include "memory/memory.h"

#define COPY_OVERHEAD_NS 1000u

static pthread_rwlock_t data_lock = PTHREAD_RWLOCK_INITIALIZER;

void data_lock_exclusive(void)
{
    pthread_rwlock_wrlock(&data_lock);
}

void data_unlock(void)
{
    pthread_rwlock_unlock(&data_lock);
}

static size_t extent(size_t width, size_t height, size_t depth, size_t pitch, size_t slice)
{
    return (depth - 1) * slice + (height - 1) * pitch + width;
}

static CUresult transfer_ranges(const struct transfer *t)
{
    TRY(range_check(t->to, extent(t->width, t->height, t->depth, t->to_pitch, t->to_slice), false, true));
    return range_check(t->from, extent(t->width, t->height, t->depth, t->from_pitch, t->from_slice), false, false);
}

static CUresult fill_range(const struct fill *fill)
{
    return range_check(fill->to, extent(fill->width * fill->element, fill->height, 1, fill->pitch, 0), true, true);
}

static bool is_linear(const struct transfer *t)
{
    return (t->height <= 1 || (t->to_pitch == t->width && t->from_pitch == t->width)) &&
           (t->depth <= 1 || (t->to_slice == t->width * t->height && t->from_slice == t->to_slice));
}

static void move_rows(const struct transfer *t)
{
    for (size_t slice = 0; slice < t->depth; ++slice)
        for (size_t row = 0; row < t->height; ++row)
            memmove(t->to + slice * t->to_slice + row * t->to_pitch,
                    t->from + slice * t->from_slice + row * t->from_pitch, t->width);
}

/* Between the check and the move nothing is unmapped: unmapping takes both locks. */
CUresult transfer_run(const struct transfer *t)
{
    driver_lock();
    CUresult usable = transfer_ranges(t);
    pthread_rwlock_rdlock(&data_lock);
    driver_unlock();
    if (usable == CUDA_SUCCESS && is_linear(t))
        memmove(t->to, t->from, t->width * t->height * t->depth);
    else if (usable == CUDA_SUCCESS)
        move_rows(t);
    pthread_rwlock_unlock(&data_lock);
    return usable;
}

static void fill_row(char *to, uint32_t value, uint32_t element, size_t count)
{
    if (element == 1)
        memset(to, (int)value, count);
    else if (element == 2)
        for (size_t at = 0; at < count; ++at)
            ((uint16_t *)to)[at] = (uint16_t)value;
    else
        for (size_t at = 0; at < count; ++at)
            ((uint32_t *)to)[at] = value;
}

CUresult fill_run(const struct fill *fill)
{
    driver_lock();
    CUresult usable = fill_range(fill);
    pthread_rwlock_rdlock(&data_lock);
    driver_unlock();
    for (size_t row = 0; usable == CUDA_SUCCESS && row < fill->height; ++row)
        fill_row(fill->to + row * fill->pitch, fill->value, fill->element, fill->width);
    pthread_rwlock_unlock(&data_lock);
    return usable;
}

static uint32_t direction(const struct transfer *t)
{
    bool to_card = range_is_device(t->to), from_card = range_is_device(t->from);

    if (to_card && from_card) {
        struct block *to = block_at(t->to), *from = block_at(t->from);
        return to->device == from->device ? ENGINE_COPY_DEVICE : ENGINE_COPY_IN;
    }
    return to_card ? ENGINE_COPY_IN : from_card ? ENGINE_COPY_OUT : 0;
}

/* Reading an unwritten page of a shared file makes it exist; reading one of other memory does not. */
static bool has_room(const struct transfer *t, size_t to_size, size_t from_size)
{
    struct block *from = block_at(t->from);
    bool shared = from && (from->kind == BLOCK_RESERVED || from->shared_file >= 0);

    return (!block_at(t->to) || pages_room(t->to, to_size)) && (!shared || pages_room(t->from, from_size));
}

CUresult transfer_check(struct transfer *t)
{
    size_t to_size, from_size;

    if (!t->width || !t->height || !t->depth)
        return CUDA_SUCCESS;
    to_size = extent(t->width, t->height, t->depth, t->to_pitch, t->to_slice);
    from_size = extent(t->width, t->height, t->depth, t->from_pitch, t->from_slice);
    TRY(transfer_ranges(t));
    REQUIRE(has_room(t, to_size, from_size), CUDA_ERROR_OUT_OF_MEMORY);
    t->kind = direction(t);
    return CUDA_SUCCESS;
}

CUresult fill_check(const struct fill *fill)
{
    size_t bytes = fill->width * fill->element;

    if (!fill->width || !fill->height)
        return CUDA_SUCCESS;
    REQUIRE((uintptr_t)fill->to % fill->element == 0, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(fill->height == 1 || (fill->pitch >= bytes && fill->pitch % fill->element == 0),
            CUDA_ERROR_INVALID_VALUE);
    size_t size = extent(bytes, fill->height, 1, fill->pitch, 0);
    TRY(range_check(fill->to, size, true, true));
    return pages_room(fill->to, size) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

uint64_t transfer_ns(int device, const struct transfer *t)
{
    const struct card_facts *facts = card_facts(device);
    double bytes = (double)t->width * (double)t->height * (double)t->depth;
    /* On the card it is read and written. */
    double rate = t->kind == ENGINE_COPY_DEVICE ? (double)facts->memory_bandwidth / 2 : (double)facts->link_bandwidth;

    return COPY_OVERHEAD_NS + (uint64_t)(bytes * 1e9 / (rate > 0 ? rate : 1e9));
}

uint64_t fill_ns(int device, const struct fill *fill)
{
    const struct card_facts *facts = card_facts(device);
    double bytes = (double)fill->width * fill->element * (double)fill->height;

    return COPY_OVERHEAD_NS + (uint64_t)(bytes * 1e9 / (double)(facts->memory_bandwidth ? facts->memory_bandwidth : 1));
}
