/* Device code that a program loads itself. */
#include "registry.h"
#include "runtime.h"

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *options, void **values,
                                unsigned int count, enum cudaLibraryOption *library_options, void **library_values,
                                unsigned int library_count) {
    return CALL(cuLibraryLoadData, (CUlibrary *)library, code, (CUjit_option *)options, values, count,
                (CUlibraryOption *)library_options, library_values, library_count);
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *path, enum cudaJitOption *options, void **values,
                                    unsigned int count, enum cudaLibraryOption *library_options, void **library_values,
                                    unsigned int library_count) {
    return CALL(cuLibraryLoadFromFile, (CUlibrary *)library, path, (CUjit_option *)options, values, count,
                (CUlibraryOption *)library_options, library_values, library_count);
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) { return CALL(cuLibraryUnload, (CUlibrary)library); }

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name) {
    cudaError_t result = CALL(cuLibraryGetKernel, (CUkernel *)kernel, (CUlibrary)library, name);
    if (result == cudaSuccess)
        cudart_handle_add(*kernel);
    return result;
}

cudaError_t cudaLibraryGetGlobal(void **address, size_t *bytes, cudaLibrary_t library, const char *name) {
    return CALL(cuLibraryGetGlobal, (CUdeviceptr *)address, bytes, (CUlibrary)library, name);
}

cudaError_t cudaLibraryGetManaged(void **address, size_t *bytes, cudaLibrary_t library, const char *name) {
    return CALL(cuLibraryGetManaged, (CUdeviceptr *)address, bytes, (CUlibrary)library, name);
}

cudaError_t cudaLibraryGetUnifiedFunction(void **function, cudaLibrary_t library, const char *symbol) {
    return CALL(cuLibraryGetUnifiedFunction, function, (CUlibrary)library, symbol);
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attribute, int value, int device) {
    return CALL(cuKernelSetAttribute, (CUfunction_attribute)attribute, value, (CUkernel)kernel, device);
}

#if CUDART_VERSION >= 13000

cudaError_t cudaLibraryGetKernelCount(unsigned int *count, cudaLibrary_t library) {
    return CALL(cuLibraryGetKernelCount, count, (CUlibrary)library);
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned int count, cudaLibrary_t library) {
    cudaError_t result = CALL(cuLibraryEnumerateKernels, (CUkernel *)kernels, count, (CUlibrary)library);
    for (unsigned int i = 0; result == cudaSuccess && i < count; i++)
        cudart_handle_add(kernels[i]);
    return result;
}

#endif
