/* The supervisor's job description: argv, environment and limits in it are a tenant's. */
#include <stdlib.h>
#include <string.h>

#include "spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct spec spec;
    static const char HEADER[] = "gpupool-job 1\n";
    char why[128] = "";
    size_t head = sizeof HEADER - 1;
    char *buffer = malloc(head + size + 1);

    memcpy(buffer, HEADER, head);
    memcpy(buffer + head, data, size);
    buffer[head + size] = '\0';
    bool whole = spec_parse(&spec, buffer, head + size, why, sizeof why);
    if (whole == (why[0] != '\0') || (whole && !spec.arguments[0]))
        abort(); /* refused without a reason, or taken without a command */
    spec_free(&spec);
    return 0;
}
