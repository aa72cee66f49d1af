/* Functions that this runtime lacks: each answers cudaErrorNotSupported, is counted, and is named once on stderr. */
#ifndef GPUPOOL_CUDART_UNSUPPORTED_H
#define GPUPOOL_CUDART_UNSUPPORTED_H

#pragma GCC visibility push(hidden)
int cudart_unsupported(int symbol);
extern const char *const cudart_symbols[];
extern const int cudart_symbol_count;
extern unsigned long cudart_unsupported_calls[];
#pragma GCC visibility pop

/*
 * For tests, and to learn what a program would have needed: the I-th symbol of the runtime and how often it was called
 * without being supported. NULL after the last.
 */
const char *gpupoolCudartUnsupported(int i, unsigned long *calls);

#endif
