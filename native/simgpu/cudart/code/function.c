/* Kernels and variables by the host addresses that stand for them: handles, attributes, how many fit. */
#include "launch_config.h"
#include "registry.h"

static int enter_kernel(const void *host, CUkernel *kernel) {
    int result = cudart_enter();
    return result ? result : cudart_kernel(host, kernel);
}

/* Declared in a header for device code only. */
cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *host);

cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *host) {
    return cudart_result(enter_kernel(host, (CUkernel *)out));
}

cudaError_t cudaGetKernel(cudaKernel_t *out, const void *host) {
    return cudart_result(out ? enter_kernel(host, (CUkernel *)out) : (int)cudaErrorInvalidValue);
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *out, const void *host) {
    CUkernel kernel;
    int result = out ? enter_kernel(host, &kernel) : (int)cudaErrorInvalidValue;
    if (!result)
        result = DRIVER(cuKernelGetFunction)((CUfunction *)out, kernel);
    if (!result)
        cudart_handle_add(*out);
    return cudart_result(result);
}

cudaError_t cudaGetSymbolAddress(void **address, const void *symbol) {
    size_t bytes;
    int result = address ? cudart_enter() : (int)cudaErrorInvalidValue;
    return cudart_result(result ? result : cudart_variable(symbol, (CUdeviceptr *)address, &bytes));
}

cudaError_t cudaGetSymbolSize(size_t *bytes, const void *symbol) {
    CUdeviceptr address;
    int result = bytes ? cudart_enter() : (int)cudaErrorInvalidValue;
    return cudart_result(result ? result : cudart_variable(symbol, &address, bytes));
}

struct kernel_on_device {
    CUkernel kernel;
    CUdevice device;
};

static int here(const void *host, struct kernel_on_device *k) {
    int result = enter_kernel(host, &k->kernel);
    return result ? result : (int)DRIVER(cuCtxGetDevice)(&k->device);
}

static int attribute(const struct kernel_on_device *k, CUfunction_attribute which, int *failure) {
    int value = 0;
    CUresult result = DRIVER(cuKernelGetAttribute)(&value, which, k->kernel, k->device);
    if (result != CUDA_SUCCESS)
        *failure = result;
    return value;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *host) {
    struct kernel_on_device k;
    int failure = out ? here(host, &k) : (int)cudaErrorInvalidValue;
    if (failure)
        return cudart_result(failure);
    *out = (struct cudaFuncAttributes){
        .sharedSizeBytes = (size_t)attribute(&k, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &failure),
        .constSizeBytes = (size_t)attribute(&k, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, &failure),
        .localSizeBytes = (size_t)attribute(&k, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &failure),
        .maxThreadsPerBlock = attribute(&k, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &failure),
        .numRegs = attribute(&k, CU_FUNC_ATTRIBUTE_NUM_REGS, &failure),
        .ptxVersion = attribute(&k, CU_FUNC_ATTRIBUTE_PTX_VERSION, &failure),
        .binaryVersion = attribute(&k, CU_FUNC_ATTRIBUTE_BINARY_VERSION, &failure),
        .cacheModeCA = attribute(&k, CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, &failure),
        .maxDynamicSharedSizeBytes = attribute(&k, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &failure),
        .preferredShmemCarveout = attribute(&k, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, &failure),
    };
    return cudart_result(failure);
}

cudaError_t cudaFuncSetAttribute(const void *host, enum cudaFuncAttribute which, int value) {
    struct kernel_on_device k;
    int result = here(host, &k);
    return cudart_result(result ? result
                                : (int)DRIVER(cuKernelSetAttribute)((CUfunction_attribute)which, value, k.kernel, k.device));
}

cudaError_t cudaFuncSetCacheConfig(const void *host, enum cudaFuncCache config) {
    struct kernel_on_device k;
    int result = here(host, &k);
    return cudart_result(result ? result : (int)DRIVER(cuKernelSetCacheConfig)(k.kernel, (CUfunc_cache)config, k.device));
}

cudaError_t cudaFuncGetName(const char **name, const void *host) {
    CUkernel kernel;
    int result = enter_kernel(host, &kernel);
    return cudart_result(result ? result : (int)DRIVER(cuKernelGetName)(name, kernel));
}

cudaError_t cudaFuncGetParamInfo(const void *host, size_t index, size_t *offset, size_t *bytes) {
    CUkernel kernel;
    int result = enter_kernel(host, &kernel);
    return cudart_result(result ? result : (int)DRIVER(cuKernelGetParamInfo)(kernel, index, offset, bytes));
}

#if CUDART_VERSION >= 13000
cudaError_t cudaFuncGetParamCount(const void *host, size_t *count) {
    CUkernel kernel;
    int result = enter_kernel(host, &kernel);
    return cudart_result(result ? result : (int)DRIVER(cuKernelGetParamCount)(kernel, count));
}
#endif

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *host, int block_size,
                                                                   size_t shared_bytes, unsigned int flags) {
    CUkernel kernel;
    int result = enter_kernel(host, &kernel);
    if (!result)
        result = DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(blocks, (CUfunction)kernel, block_size, shared_bytes,
                                                                             flags);
    return cudart_result(result);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host, int block_size, size_t shared_bytes) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, block_size, shared_bytes, 0);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *host, int blocks, int block_size) {
    CUkernel kernel;
    int result = enter_kernel(host, &kernel);
    if (!result)
        result = DRIVER(cuOccupancyAvailableDynamicSMemPerBlock)(bytes, (CUfunction)kernel, blocks, block_size);
    return cudart_result(result);
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int *size, const void *host, const cudaLaunchConfig_t *config) {
    CUkernel kernel;
    int result = config ? enter_kernel(host, &kernel) : (int)cudaErrorInvalidValue;
    if (result)
        return cudart_result(result);
    CUlaunchConfig c = cudart_launch_config(config);
    return cudart_result(DRIVER(cuOccupancyMaxPotentialClusterSize)(size, (CUfunction)kernel, &c));
}

cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *host, const cudaLaunchConfig_t *config) {
    CUkernel kernel;
    int result = config ? enter_kernel(host, &kernel) : (int)cudaErrorInvalidValue;
    if (result)
        return cudart_result(result);
    CUlaunchConfig c = cudart_launch_config(config);
    return cudart_result(DRIVER(cuOccupancyMaxActiveClusters)(clusters, (CUfunction)kernel, &c));
}
