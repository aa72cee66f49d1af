/* How many blocks fit on the card at one time. Bounded by threads, by the 32 blocks of a multiprocessor and by its
   228 KiB of shared memory, of which each block needs 1 KiB for the system; registers are taken as never the limit. */
#include "module.h"

#include "devices/card.h"

#define BLOCKS_PER_SM 32
#define SHARED_PER_SM 233472u
#define SHARED_SYSTEM 1024u
#define WARP 32u
#define MAX_THREADS 1024
#define LARGEST_CLUSTER 8

int blocks_per_sm(int device, unsigned threads, size_t shared_bytes)
{
    unsigned rounded = (threads + WARP - 1) / WARP * WARP;
    unsigned by_threads = (unsigned)card_facts(device)->threads_per_sm / (rounded ? rounded : WARP);
    size_t by_shared = SHARED_PER_SM / (shared_bytes + SHARED_SYSTEM);
    unsigned blocks = by_threads < BLOCKS_PER_SM ? by_threads : BLOCKS_PER_SM;

    return (int)(by_shared < blocks ? by_shared : blocks);
}

static CUresult device_of(CUfunction function, int *device)
{
    struct callee callee;

    TRY(callee_of(function, &callee));
    CURRENT(context);
    *device = callee.context ? callee.context->device : context->device;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int threads,
                                                              size_t shared_bytes, unsigned int flags)
{
    int device;

    LOCKED();
    REQUIRE(blocks && threads > 0, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(!(flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE), CUDA_ERROR_INVALID_VALUE);
    TRY(device_of(function, &device));
    *blocks = threads > MAX_THREADS ? 0 : blocks_per_sm(device, (unsigned)threads, shared_bytes);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                     size_t shared_bytes)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared_bytes, 0);
}

static int threads_resident(int device, int threads, CUoccupancyB2DSize to_shared, size_t shared_bytes)
{
    size_t shared = to_shared ? to_shared(threads) : shared_bytes;

    return threads * blocks_per_sm(device, (unsigned)threads, shared);
}

/* The block size that keeps most threads resident; of equal ones the largest. */
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction function,
                                                   CUoccupancyB2DSize to_shared, size_t shared_bytes, int limit,
                                                   unsigned int flags)
{
    int device, most = 0, best = 0;

    READY();
    REQUIRE(grid && block && limit >= 0, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(!(flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE), CUDA_ERROR_INVALID_VALUE);
    driver_lock();
    CUresult known = device_of(function, &device);
    driver_unlock();
    TRY(known);
    for (int threads = limit && limit < MAX_THREADS ? limit : MAX_THREADS; threads > 0;
         threads -= threads % 32 ? threads % 32 : 32) {
        int resident = threads_resident(device, threads, to_shared, shared_bytes);
        if (resident > most) {
            most = resident;
            best = threads;
        }
    }
    *block = best;
    *grid = best ? most / best * card_facts(device)->sm_count : 0;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function, CUoccupancyB2DSize to_shared,
                                          size_t shared_bytes, int limit)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, to_shared, shared_bytes, limit, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function, int blocks, int threads)
{
    int device;

    LOCKED();
    REQUIRE(bytes && blocks > 0 && threads > 0, CUDA_ERROR_INVALID_VALUE);
    TRY(device_of(function, &device));
    REQUIRE(blocks <= blocks_per_sm(device, (unsigned)threads, 0), CUDA_ERROR_INVALID_VALUE);
    *bytes = SHARED_PER_SM / (unsigned)blocks - SHARED_SYSTEM;
    return CUDA_SUCCESS;
}

static unsigned cluster_of(const CUlaunchConfig *config)
{
    for (unsigned at = 0; at < config->numAttrs; ++at)
        if (config->attrs[at].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            return config->attrs[at].value.clusterDim.x * config->attrs[at].value.clusterDim.y *
                   config->attrs[at].value.clusterDim.z;
    return 1;
}

CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CUlaunchConfig *config)
{
    int device;

    LOCKED();
    REQUIRE(clusters && config && (!config->numAttrs || config->attrs), CUDA_ERROR_INVALID_VALUE);
    TRY(device_of(function, &device));
    unsigned size = cluster_of(config);
    REQUIRE(size, CUDA_ERROR_INVALID_VALUE);
    unsigned threads = config->blockDimX * config->blockDimY * config->blockDimZ;
    *clusters = blocks_per_sm(device, threads, config->sharedMemBytes) * card_facts(device)->sm_count / (int)size;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction function, const CUlaunchConfig *config)
{
    int device;

    LOCKED();
    REQUIRE(size && config, CUDA_ERROR_INVALID_VALUE);
    TRY(device_of(function, &device));
    *size = LARGEST_CLUSTER;
    return CUDA_SUCCESS;
}
