/* Makes a stand-in of generated code alone: takes the real functions, and counts what no table knows. */
#include <dlfcn.h>
#include <stdatomic.h>

#include "table.h"

static atomic_int unknown;

__attribute__((visibility("default"))) int bare_lacking = -1;
__attribute__((visibility("default"))) void bare_unclassified(void (*seen)(const char *, void *), void *context)
{
    fence_table_unclassified(&TABLE, dlopen(DRIVER, RTLD_NOW | RTLD_NOLOAD), seen, context);
}
__attribute__((visibility("default"))) int bare_unknown(void)
{
    return unknown;
}

__attribute__((constructor)) static void fill(void)
{
    void *driver = dlopen(DRIVER, RTLD_NOW | RTLD_NOLOAD);
    if (driver)
        bare_lacking = (int)fence_table_fill(&TABLE, driver);
}

void fence_unknown_lookup(const char *name)
{
    (void)name;
    unknown++;
}
