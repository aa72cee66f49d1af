/* The supervisor's own parser of job descriptions, callable from a test. Linked with native/supervisor's sources. */
#include <stdlib.h>
#include <string.h>

#include "spec.h"

int spec_probe(const char *bytes, size_t length, char *why, size_t why_size)
{
    struct spec *spec = calloc(1, sizeof *spec);
    char *buffer = malloc(length + 1);

    if (!spec || !buffer)
        abort();
    memcpy(buffer, bytes, length);
    buffer[length] = '\0';
    int good = spec_parse(spec, buffer, length, why, why_size);
    spec_free(spec);
    free(spec);
    return good;
}
