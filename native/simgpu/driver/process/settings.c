/* Reads the environment variables of the simulated driver once. */
#include "driver.h"

#include <stdlib.h>

struct settings settings = {.kernel_ns = -1};

long settings_number(const char *name, long otherwise)
{
    const char *text = getenv(name);
    char *end;

    if (!text || !*text)
        return otherwise;
    long value = strtol(text, &end, 10);
    return *end || value < 0 ? otherwise : value;
}

void settings_read(void)
{
    long kernel_us = settings_number("GPUPOOL_SIMGPU_KERNEL_US", -1);

    settings.kernel_ns = kernel_us < 0 ? -1 : kernel_us * 1000;
}
