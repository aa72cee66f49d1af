/* Page-locked host memory: allocated, or the tenant's own registered. Nothing is really locked. */
#include "contexts/context.h"

#include <unistd.h>

#include "memory.h"
#include "streams/stream.h"

#define ALLOC_FLAGS (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS                                                                                             \
    (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY |                   \
     CU_MEMHOSTREGISTER_READ_ONLY)

CUresult cuMemHostAlloc(void **out, size_t size, unsigned int flags)
{
    LOCKED();
    REQUIRE(out && size && !(flags & ~ALLOC_FLAGS), CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    struct block like = {
        .size = size, .kind = BLOCK_HOST, .device = context->device, .flags = flags, .context = context,
    };
    return block_allocate(out, &like, 0);
}

CUresult cuMemAllocHost_v2(void **out, size_t size)
{
    return cuMemHostAlloc(out, size, 0);
}

CUresult cuMemAllocHost(void **out, unsigned int size)
{
    return cuMemHostAlloc(out, size, 0);
}

static CUresult owner_of(void *start, enum block_kind kind, CUresult otherwise, CUcontext *owner)
{
    LOCKED();
    struct block *block = block_exact(start);
    REQUIRE(block && block->kind == kind && !block->freeing, otherwise);
    block->freeing = true;
    *owner = block->context;
    return CUDA_SUCCESS;
}

static CUresult release(void *start, enum block_kind kind, CUresult otherwise)
{
    CUcontext owner = NULL;

    TRY(owner_of(start, kind, otherwise, &owner));
    context_drain(owner);
    LOCKED();
    struct block *block = block_exact(start);
    REQUIRE(block && block->freeing, otherwise);
    block_remove(block);
    return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *start)
{
    READY();
    if (!start)
        return CUDA_SUCCESS;
    return release(start, BLOCK_HOST, CUDA_ERROR_INVALID_VALUE);
}

static bool overlaps(const char *start, size_t size)
{
    size_t at = 0;

    for (struct block *block; (block = block_next(&at));)
        if (block->start < start + size && start < block->start + block->size)
            return true;
    return false;
}

CUresult cuMemHostRegister_v2(void *start, size_t size, unsigned int flags)
{
    LOCKED();
    REQUIRE(start && size && !(flags & ~REGISTER_FLAGS), CUDA_ERROR_INVALID_VALUE);
    REQUIRE((char *)start + size > (char *)start, CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    REQUIRE(!overlaps(start, size), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    struct block like = {
        .start = start, .size = size, .mapped = size, .kind = BLOCK_REGISTERED, .device = context->device,
        .flags = flags, .context = context, .shared_file = -1,
    };
    return block_insert(&like) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemHostRegister(void *start, size_t size, unsigned int flags)
{
    return cuMemHostRegister_v2(start, size, flags);
}

CUresult cuMemHostUnregister(void *start)
{
    READY();
    REQUIRE(start, CUDA_ERROR_INVALID_VALUE);
    return release(start, BLOCK_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

static struct block *host_block(const void *address)
{
    struct block *block = block_at(address);

    return block && (block->kind == BLOCK_HOST || block->kind == BLOCK_REGISTERED) ? block : NULL;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned int flags)
{
    LOCKED();
    REQUIRE(device && host && !flags, CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    REQUIRE(host_block(host), CUDA_ERROR_INVALID_VALUE);
    *device = (CUdeviceptr)host;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *host)
{
    LOCKED();
    REQUIRE(flags && host, CUDA_ERROR_INVALID_VALUE);
    struct block *block = host_block(host);
    REQUIRE(block, CUDA_ERROR_INVALID_VALUE);
    /* With unified addressing all of it is mapped and portable, asked for or not. */
    *flags = block->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}
