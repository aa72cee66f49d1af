/* cuGetProcAddress: the driver answers, and where its answer is a function that we stand in for, ours is given instead.
   By pointer and not by name: so the form that a version means and the kind of stream are the driver's decision. */
#include <pthread.h>
#include <string.h>

#include "fence_handlers.h"
#include "fence_real.h"
#include "table.h"

static pthread_once_t learnt = PTHREAD_ONCE_INIT;

static bool is_per_thread(cuuint64_t flags)
{
    return flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
}

static void *driver_answer(const struct fence_symbol *symbol)
{
    cuuint64_t flags =
        symbol->per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    CUdriverProcAddressQueryResult status;
    void *found = NULL;
    if (fence_real.cuGetProcAddress_v2(symbol->base, &found, symbol->born, flags, &status) == CUDA_SUCCESS)
        return found;
    if (fence_real.cuGetProcAddress(symbol->base, &found, symbol->born, flags) == CUDA_SUCCESS)
        return found;
    return NULL;
}

/* A driver may answer with another address than it exports under the name. Asked once, for what we handle. */
static void learn_answers(void)
{
    const struct fence_table *table = &fence_driver_table;
    for (size_t i = 0; i < table->count; i++) {
        const struct fence_symbol *symbol = &table->symbols[i];
        if (!symbol->ours || !fence_symbol_present(symbol) || !symbol->born)
            continue;
        void *answer = driver_answer(symbol);
        if (answer && !fence_table_identify(table, answer, symbol->base, symbol->per_thread))
            *symbol->answer = answer;
    }
}

/* Of a function that passes in all its forms any address will do. */
static bool passes(const char *base)
{
    bool known = false;
    for (size_t i = 0; i < fence_driver_table.count; i++) {
        if (strcmp(fence_driver_table.symbols[i].base, base))
            continue;
        if (fence_driver_table.symbols[i].ours)
            return false;
        known = true;
    }
    return known;
}

static void exchange(const char *base, void **found, cuuint64_t flags)
{
    if (!base || !found || !*found)
        return;
    pthread_once(&learnt, learn_answers);
    const struct fence_symbol *symbol = fence_table_identify(&fence_driver_table, *found, base, is_per_thread(flags));
    if (symbol && symbol->ours)
        *found = symbol->ours;
    if (!symbol && !passes(base))
        fence_unknown_lookup(base);
}

CUresult fence_cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    CUresult result = fence_real.cuGetProcAddress(symbol, pfn, cudaVersion, flags);
    if (result == CUDA_SUCCESS)
        exchange(symbol, pfn, flags);
    return result;
}

CUresult fence_cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                                   CUdriverProcAddressQueryResult *symbolStatus)
{
    CUresult result = fence_real.cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, symbolStatus);
    if (result == CUDA_SUCCESS)
        exchange(symbol, pfn, flags);
    return result;
}
