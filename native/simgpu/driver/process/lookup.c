/* cuGetProcAddress: base name and version to function. The form is the newest that was born in the version asked for or
   before; flags choose the per-thread twin. Asked before cuInit, too. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#include "lookup.h"
#include "simgpu_driver.h"

#define KNOWN_FLAGS (CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)

/* The first row of a base name, or lookup_row_count. */
static unsigned first_row(const char *base)
{
    unsigned low = 0, high = lookup_row_count;

    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (strcmp(lookup_rows[middle].base, base) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const struct lookup_row *find(const char *name, int version, bool *known)
{
    const struct lookup_row *best = NULL;

    *known = false;
    for (unsigned at = first_row(name); at < lookup_row_count && !strcmp(lookup_rows[at].base, name); ++at) {
        *known = true;
        if (lookup_rows[at].born <= version)
            best = &lookup_rows[at];
    }
    return best;
}

static CUresult look_up(const char *name, void **function, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status)
{
    bool known, own = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

    REQUIRE(name && function && !(flags & ~(cuuint64_t)KNOWN_FLAGS), CUDA_ERROR_INVALID_VALUE);
    const struct lookup_row *row = find(name, version, &known);
    *function = row ? own ? row->twin : row->function : NULL;
    if (status)
        *status = row ? CU_GET_PROC_ADDRESS_SUCCESS
                  : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (!row)
        log_line("look-up of %s for %d: %s", name, version, known ? "too old" : "not found");
    return row ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    return look_up(name, function, version, flags, status);
}

CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags)
{
    return look_up(name, function, version, flags, NULL);
}

int simgpu_symbol_is_implemented(const char *symbol)
{
    for (unsigned at = 0; at < lookup_export_count; ++at)
        if (!strcmp(lookup_exports[at].symbol, symbol))
            return lookup_exports[at].implemented;
    return -1;
}
