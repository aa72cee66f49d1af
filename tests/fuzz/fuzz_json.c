/* The front's JSON: what was read must read again to the same text once it is written. */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"

static bool pretty(const uint8_t *data, size_t size, struct text *out)
{
    struct text in = {0};
    text_add(&in, (const char *)data, size);
    struct json json = json_over(&in);
    json_pretty(&json, out);
    bool whole = json_end(&json);
    text_free(&in);
    return whole;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct text once = {0}, twice = {0};
    if (pretty(data, size, &once) &&
        (!pretty((uint8_t *)once.at, once.length, &twice) || once.length != twice.length ||
         memcmp(once.at, twice.at, once.length)))
        abort();
    text_free(&once);
    text_free(&twice);
    return 0;
}
