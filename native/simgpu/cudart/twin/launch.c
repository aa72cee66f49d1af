/* Launches, for the default stream of the process and, compiled again, for that of the thread. */
#include "code/launch_config.h"
#include "code/registry.h"

/* In place of a function the driver takes one of its context-independent kernels, cast. */
static CUfunction as_function(CUkernel kernel) { return (CUfunction)kernel; }

/* A value that the driver refuses in a launch is, in the runtime's words, the launch's configuration. */
static cudaError_t launched(int result) {
    return cudart_result(result == CUDA_ERROR_INVALID_VALUE ? (int)cudaErrorInvalidConfiguration : result);
}

#define LAUNCH(host, name, ...)                                  \
    ({                                                           \
        CUkernel kernel = NULL;                                  \
        int launch_result = cudart_enter();                      \
        if (!launch_result)                                      \
            launch_result = cudart_kernel(host, &kernel);        \
        if (!launch_result)                                      \
            launch_result = (int)DRIVER_TABLE.name##_fn(__VA_ARGS__); \
        launched(launch_result);                                 \
    })

cudaError_t cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared_bytes, cudaStream_t stream) {
    return LAUNCH(host, cuLaunchKernel, as_function(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                  (unsigned)shared_bytes, stream, arguments, NULL);
}

cudaError_t cudaLaunchCooperativeKernel(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                        cudaStream_t stream) {
    return LAUNCH(host, cuLaunchCooperativeKernel, as_function(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                  (unsigned)shared_bytes, stream, arguments);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *host, void **arguments) {
    if (!config)
        return cudart_result(cudaErrorInvalidValue);
    CUlaunchConfig c = cudart_launch_config(config);
    return LAUNCH(host, cuLaunchKernelEx, &c, as_function(kernel), arguments, NULL);
}

/* What nvcc 13 makes of <<<>>>: it keeps the kernel's handle and launches by it. */
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define LAUNCH_BY_HANDLE __cudaLaunchKernel_ptsz
#else
#define LAUNCH_BY_HANDLE __cudaLaunchKernel
#endif

cudaError_t LAUNCH_BY_HANDLE(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                             cudaStream_t stream);
cudaError_t LAUNCH_BY_HANDLE(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                             cudaStream_t stream) {
    int result = cudart_enter();
    if (!result)
        result = DRIVER(cuLaunchKernel)(as_function(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                        (unsigned)shared_bytes, stream, arguments, NULL);
    return launched(result);
}
