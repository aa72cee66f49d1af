/* The entry points that compiled code calls before main, at a launch, and for managed variables. Prototypes as in crt/host_runtime.h. */
#include "registry.h"
#include "runtime.h"

void **__cudaRegisterFatBinary(void *wrapper) { return (void **)cudart_binary_new(wrapper); }

void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }

void __cudaUnregisterFatBinary(void **handle) {
    if (handle)
        cudart_binary_delete((struct binary *)handle);
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int thread_limit, uint3 *thread,
                            uint3 *block, dim3 *block_size, dim3 *grid_size, int *warp_size) {
    (void)device, (void)thread_limit, (void)thread, (void)block, (void)block_size, (void)grid_size, (void)warp_size;
    cudart_entry_add((struct binary *)handle, KERNEL_ENTRY, host, name, 0);
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t bytes, int constant,
                       int global) {
    (void)device, (void)external, (void)constant, (void)global;
    cudart_entry_add((struct binary *)handle, VARIABLE_ENTRY, host, name, bytes);
}

void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int external, size_t bytes, int constant,
                              int global) {
    (void)device, (void)external, (void)constant, (void)global;
    cudart_entry_add((struct binary *)handle, MANAGED_ENTRY, host, name, bytes);
}

char __cudaInitModule(void **handle) {
    int result = cudart_enter();
    if (!result)
        result = cudart_managed_ready((struct binary *)handle);
    return cudart_result(result) == cudaSuccess;
}

/* A launch with <<<>>> is two calls: the configuration is put aside, and the stub of the kernel takes it. They nest in arguments. */
enum { CONFIGURATIONS = 16 };

struct configuration {
    dim3 grid, block;
    size_t shared_bytes;
    void *stream;
};
static __thread struct configuration configurations[CONFIGURATIONS];
static __thread int configured;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, struct CUstream_st *stream) {
    if (configured == CONFIGURATIONS)
        return (unsigned)cudart_result(cudaErrorInvalidConfiguration);
    configurations[configured++] = (struct configuration){grid, block, shared_bytes, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream) {
    if (!configured)
        return cudart_result(cudaErrorMissingConfiguration);
    const struct configuration *c = &configurations[--configured];
    *grid = c->grid;
    *block = c->block;
    *shared_bytes = c->shared_bytes;
    *(void **)stream = c->stream;
    return cudaSuccess;
}
