/* Memory nodes. An allocation has its address as long as a node names it, and memory on the card from the launch that
   reaches its node until it is freed. What was freed stays reserved for graphs until cuDeviceGraphMemTrim. */
#include "capture.h"
#include "graph.h"
#include "memory/pool.h"

#include <sys/mman.h>

CUresult graph_memory_new(CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params)
{
    REQUIRE(params->bytesize && params->poolProps.allocType == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(params->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
    REQUIRE(params->bytesize <= MEMORY_MAX, CUDA_ERROR_OUT_OF_MEMORY);
    struct block like = {
        .size = params->bytesize, .kind = BLOCK_GRAPH, .device = params->poolProps.location.id,
        .pool = pool_of_graphs(params->poolProps.location.id),
    };
    return block_allocate((void **)&params->dptr, &like, params->bytesize < SMALL_BELOW ? 0 : GRANULE);
}

static struct block *graph_block(CUdeviceptr pointer)
{
    struct block *block = block_exact((void *)pointer);

    return block && block->kind == BLOCK_GRAPH ? block : NULL;
}

void graph_memory_retain(CUdeviceptr pointer)
{
    ++graph_block(pointer)->opened;
}

static void settle(struct block *block)
{
    if (!block->opened && !block->active)
        block_remove(block);
}

void graph_memory_release(CUdeviceptr pointer)
{
    struct block *block = graph_block(pointer);

    if (!block)
        return;
    --block->opened;
    settle(block);
}

/* `again`: the executable graph frees by itself what an earlier launch left. */
CUresult graph_memory_start(CUdeviceptr pointer, bool again)
{
    struct block *block = graph_block(pointer);

    REQUIRE(block && (!block->active || again), CUDA_ERROR_INVALID_VALUE);
    if (block->active)
        return CUDA_SUCCESS;
    TRY(pool_take(block->pool, block->size));
    block->active = true;
    return CUDA_SUCCESS;
}

CUresult graph_memory_end(CUdeviceptr pointer)
{
    struct block *block = block_exact((void *)pointer);

    REQUIRE(block, CUDA_ERROR_INVALID_VALUE);
    if (block->kind == BLOCK_POOLED) {
        pool_release(block);
        return CUDA_SUCCESS;
    }
    REQUIRE(block->kind == BLOCK_GRAPH && block->active, CUDA_ERROR_INVALID_VALUE);
    block->active = false;
    pool_give(block->pool, block->size);
    madvise(block->start, block->mapped, MADV_DONTNEED); /* the host's memory, at once */
    settle(block);
    return CUDA_SUCCESS;
}

CUresult graph_memory_free_by_stream(struct block *block)
{
    return graph_memory_end((CUdeviceptr)block->start);
}
