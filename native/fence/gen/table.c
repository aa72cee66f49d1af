#include "table.h"

#include <dlfcn.h>
#include <string.h>

size_t fence_table_fill(const struct fence_table *table, void *handle)
{
    size_t lacking = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct fence_symbol *symbol = &table->symbols[i];
        void *real = dlsym(handle, symbol->name);
        *symbol->member = real ? real : symbol->absent;
        lacking += !real;
    }
    return lacking;
}

bool fence_symbol_present(const struct fence_symbol *symbol)
{
    return *symbol->member != symbol->absent;
}

const struct fence_symbol *fence_table_find(const struct fence_table *table, const char *name)
{
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, table->symbols[middle].name);
        if (!order)
            return &table->symbols[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static bool is_real(const struct fence_symbol *symbol, const void *real)
{
    return *symbol->member == real || (symbol->answer && *symbol->answer == real);
}

static int fit(const struct fence_symbol *symbol, const char *base, bool per_thread)
{
    return 4 * !strcmp(base, symbol->base) + 2 * (symbol->ours != NULL) + (per_thread == symbol->per_thread);
}

const struct fence_symbol *fence_table_identify(const struct fence_table *table, const void *real, const char *base,
                                                bool per_thread)
{
    const struct fence_symbol *best = NULL;
    int best_fit = -1;
    for (size_t i = 0; real && i < table->count; i++) {
        const struct fence_symbol *symbol = &table->symbols[i];
        if (!is_real(symbol, real) || *symbol->member == symbol->absent)
            continue;
        int fits = fit(symbol, base, per_thread);
        if (fits <= best_fit)
            continue;
        best = symbol;
        best_fit = fits;
    }
    return best;
}
