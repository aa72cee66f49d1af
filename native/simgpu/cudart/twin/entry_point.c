/* Driver functions handed to the program itself. */
#include "../runtime.h"

static unsigned long long stream_flags(unsigned long long flags) {
    if (flags != cudaEnableDefault)
        return flags;
    return DEFAULT_STREAM == THREAD_STREAM ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_DEFAULT;
}

/* That there is no such function is an answer where the caller asks for the status, and an error where not. */
static cudaError_t entry_point(const char *symbol, void **function, unsigned int version, unsigned long long flags,
                               enum cudaDriverEntryPointQueryResult *status) {
    if (!symbol || !function)
        return cudart_result(cudaErrorInvalidValue);
    int result = cudart_driver_ready();
    if (result)
        return cudart_result(result);
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    *function = NULL;
    result = DRIVER(cuGetProcAddress)(symbol, function, (int)version, stream_flags(flags), &found);
    if (status)
        *status = (enum cudaDriverEntryPointQueryResult)found;
    return cudart_result(status && result == CUDA_ERROR_NOT_FOUND ? 0 : result);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned int version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status) {
    return entry_point(symbol, function, version, flags, status);
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status) {
    return entry_point(symbol, function, CUDART_VERSION, flags, status);
}
