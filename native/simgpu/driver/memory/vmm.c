/* Virtual memory management: physical allocations are anonymous shared files that can be mapped in several places and
   handed to other processes by descriptor; reserved ranges are address space without access. */
#include "vmm.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "copies/transfer.h"
#include "devices/card.h"
#include "machine/machine.h"
#include "memory.h"

static struct mapping {
    struct mapping *next;
    char *start;
    size_t size, offset;
    struct physical *physical;
    CUmemAccess_flags access;
} *mappings;
static struct physical *all_physical;

struct physical *physical_of(CUmemGenericAllocationHandle handle)
{
    void *physical = (void *)(uintptr_t)handle;

    return handle_is(physical, HANDLE_PHYSICAL) ? physical : NULL;
}

static void put(struct physical *physical)
{
    struct physical **link = &all_physical;

    if (--physical->references)
        return;
    while (*link != physical)
        link = &(*link)->next;
    *link = physical->next;
    if (!physical->imported)
        card_uncharge(physical->device, SIM_PHYSICAL, physical->size);
    close(physical->file);
    handle_free(physical);
}

static CUresult properties_check(const CUmemAllocationProp *prop)
{
    REQUIRE(prop && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
    DEVICE(prop->location.id);
    REQUIRE(!(prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), CUDA_ERROR_NOT_SUPPORTED);
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    LOCKED();
    REQUIRE(granularity, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(option == CU_MEM_ALLOC_GRANULARITY_MINIMUM || option == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED,
            CUDA_ERROR_INVALID_VALUE);
    TRY(properties_check(prop));
    *granularity = GRANULE;
    return CUDA_SUCCESS;
}

struct physical *physical_new(int file, size_t size, const CUmemAllocationProp *prop)
{
    struct stat facts;
    struct physical *physical = handle_new(sizeof *physical, HANDLE_PHYSICAL);

    if (!physical || fstat(file, &facts)) {
        handle_free(physical);
        return NULL;
    }
    physical->file = file;
    physical->size = size;
    physical->properties = *prop;
    physical->device = prop->location.id;
    physical->references = physical->handles = 1;
    physical->file_device = facts.st_dev;
    physical->file_number = facts.st_ino;
    physical->next = all_physical;
    all_physical = physical;
    return physical;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                     unsigned long long flags)
{
    LOCKED();
    REQUIRE(handle && size && size % GRANULE == 0 && !flags, CUDA_ERROR_INVALID_VALUE);
    TRY(properties_check(prop));
    TRY(card_health(prop->location.id));
    TRY(card_charge(prop->location.id, SIM_PHYSICAL, size));
    int file = memfd_create("gpupool-simgpu-memory", MFD_CLOEXEC);
    struct physical *physical = file < 0 || ftruncate(file, (off_t)size) ? NULL : physical_new(file, size, prop);
    if (!physical) {
        if (file >= 0)
            close(file);
        card_uncharge(prop->location.id, SIM_PHYSICAL, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *handle = (uintptr_t)physical;
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    LOCKED();
    struct physical *physical = physical_of(handle);
    REQUIRE(physical && physical->handles, CUDA_ERROR_INVALID_VALUE);
    --physical->handles;
    put(physical);
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t size, size_t alignment, CUdeviceptr wanted,
                             unsigned long long flags)
{
    LOCKED();
    REQUIRE(pointer && size && size % GRANULE == 0 && !flags, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(!(alignment & (alignment - 1)), CUDA_ERROR_INVALID_VALUE);
    REQUIRE(size <= MEMORY_MAX, CUDA_ERROR_OUT_OF_MEMORY);
    (void)wanted; /* a hint that need not be followed */
    char *start = pages_map(size, alignment > GRANULE ? alignment : GRANULE, 0);
    REQUIRE(start, CUDA_ERROR_OUT_OF_MEMORY);
    struct block like = {
        .start = start, .size = size, .mapped = size, .kind = BLOCK_RESERVED, .context = context_top(),
        .device = context_top() ? context_top()->device : 0, .shared_file = -1,
    };
    if (mprotect(start, size, PROT_NONE) || !block_insert(&like)) {
        pages_unmap(start, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *pointer = (CUdeviceptr)start;
    return CUDA_SUCCESS;
}

static struct mapping *mapping_in(const char *start, size_t size)
{
    struct mapping *mapping = mappings;

    while (mapping && (mapping->start >= start + size || start >= mapping->start + mapping->size))
        mapping = mapping->next;
    return mapping;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t size)
{
    LOCKED();
    struct block *range = block_exact((void *)pointer);
    REQUIRE(range && range->kind == BLOCK_RESERVED && range->size == size, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(!mapping_in(range->start, size), CUDA_ERROR_INVALID_VALUE);
    block_remove(range);
    return CUDA_SUCCESS;
}

static bool inside_reserved(const char *start, size_t size)
{
    struct block *range = block_at(start);

    return range && range->kind == BLOCK_RESERVED && size <= (size_t)(range->start + range->size - start);
}

CUresult cuMemMap(CUdeviceptr pointer, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    char *start = (char *)pointer;

    LOCKED();
    struct physical *physical = physical_of(handle);
    REQUIRE(physical && size && size % GRANULE == 0 && !flags && pointer % GRANULE == 0, CUDA_ERROR_INVALID_VALUE);
    /* Offsets are not supported by the real driver either, but for their being granules. */
    REQUIRE(offset % GRANULE == 0 && offset <= physical->size && size <= physical->size - offset,
            CUDA_ERROR_INVALID_VALUE);
    REQUIRE(inside_reserved(start, size) && !mapping_in(start, size), CUDA_ERROR_INVALID_VALUE);
    struct mapping *mapping = malloc(sizeof *mapping);
    REQUIRE(mapping, CUDA_ERROR_OUT_OF_MEMORY);
    if (mmap(start, size, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, physical->file, (off_t)offset) ==
        MAP_FAILED) {
        free(mapping);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *mapping = (struct mapping){mappings, start, size, offset, physical, CU_MEM_ACCESS_FLAGS_PROT_NONE};
    mappings = mapping;
    ++physical->references;
    return CUDA_SUCCESS;
}

static void end_mapping(struct mapping **link)
{
    struct mapping *mapping = *link;

    *link = mapping->next;
    data_lock_exclusive();
    mmap(mapping->start, mapping->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    data_unlock();
    put(mapping->physical);
    free(mapping);
}

/* Every mapping in the range must lie in it as a whole. */
static bool whole_mappings(const char *start, size_t size)
{
    size_t covered = 0;

    for (struct mapping *mapping = mappings; mapping; mapping = mapping->next) {
        if (mapping->start >= start + size || start >= mapping->start + mapping->size)
            continue;
        if (mapping->start < start || mapping->start + mapping->size > start + size)
            return false;
        covered += mapping->size;
    }
    return covered == size;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t size)
{
    char *start = (char *)pointer;

    LOCKED();
    REQUIRE(size && inside_reserved(start, size) && whole_mappings(start, size), CUDA_ERROR_INVALID_VALUE);
    for (struct mapping **link = &mappings; *link;) {
        if ((*link)->start >= start && (*link)->start < start + size)
            end_mapping(link);
        else
            link = &(*link)->next;
    }
    return CUDA_SUCCESS;
}

void vmm_range_close(struct block *range)
{
    for (struct mapping **link = &mappings; *link;) {
        if ((*link)->start >= range->start && (*link)->start < range->start + range->size)
            end_mapping(link);
        else
            link = &(*link)->next;
    }
}

/* Access is one for all devices here; the last description of any says what the range allows. */
CUresult cuMemSetAccess(CUdeviceptr pointer, size_t size, const CUmemAccessDesc *access, size_t count)
{
    char *start = (char *)pointer;
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;

    LOCKED();
    REQUIRE(access && count && size && size % GRANULE == 0, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(inside_reserved(start, size) && whole_mappings(start, size), CUDA_ERROR_INVALID_VALUE);
    for (size_t at = 0; at < count; ++at) {
        REQUIRE(access[at].location.type == CU_MEM_LOCATION_TYPE_DEVICE ||
                    access[at].location.type == CU_MEM_LOCATION_TYPE_HOST, CUDA_ERROR_INVALID_VALUE);
        if (access[at].location.type == CU_MEM_LOCATION_TYPE_DEVICE)
            DEVICE(access[at].location.id);
        if (access[at].flags > flags)
            flags = access[at].flags;
    }
    int protection = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE : flags ? PROT_READ : 0;
    data_lock_exclusive();
    int refused = mprotect(start, size, protection);
    data_unlock();
    REQUIRE(!refused, CUDA_ERROR_INVALID_VALUE);
    for (struct mapping *mapping = mappings; mapping; mapping = mapping->next)
        if (mapping->start >= start && mapping->start < start + size)
            mapping->access = flags;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr pointer)
{
    LOCKED();
    REQUIRE(flags && location, CUDA_ERROR_INVALID_VALUE);
    struct mapping *mapping = mapping_in((char *)pointer, 1);
    REQUIRE(mapping, CUDA_ERROR_INVALID_VALUE);
    *flags = mapping->access;
    return CUDA_SUCCESS;
}

bool vmm_range_usable(const struct block *range, const char *address, size_t size, bool writes)
{
    (void)range;
    while (size) {
        struct mapping *mapping = mapping_in(address, 1);
        CUmemAccess_flags needed = writes ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
        if (!mapping || mapping->access < needed)
            return false;
        size_t here = (size_t)(mapping->start + mapping->size - address);
        address += here < size ? here : size;
        size -= here < size ? here : size;
    }
    return true;
}

int vmm_device_at(const struct block *range, const char *address)
{
    struct mapping *mapping = mapping_in(address, 1);

    return mapping ? mapping->physical->device : range->device;
}

struct physical *physical_at(const char *address)
{
    struct mapping *mapping = mapping_in(address, 1);

    return mapping ? mapping->physical : NULL;
}

struct physical *physical_of_file(dev_t file_device, ino_t file_number)
{
    struct physical *known = all_physical;

    while (known && (known->file_device != file_device || known->file_number != file_number))
        known = known->next;
    return known;
}
