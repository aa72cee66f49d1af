#include "unsupported.h"

#include <stdio.h>

#include "runtime.h"

int cudart_unsupported(int symbol) {
    if (__atomic_fetch_add(&cudart_unsupported_calls[symbol], 1, __ATOMIC_RELAXED) == 0)
        fprintf(stderr, "gpupool: %s is not supported by the simulated card's CUDA runtime\n", cudart_symbols[symbol]);
    return (int)cudart_result(cudaErrorNotSupported);
}

const char *gpupoolCudartUnsupported(int i, unsigned long *calls) {
    if (i < 0 || i >= cudart_symbol_count)
        return NULL;
    *calls = __atomic_load_n(&cudart_unsupported_calls[i], __ATOMIC_RELAXED);
    return cudart_symbols[i];
}
