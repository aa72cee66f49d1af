/* The front's HTTP answers and event frames, as they arrive in pieces. */
#include <stdlib.h>
#include <string.h>

#include "common/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct text in = {0};
    if (!size)
        return 0;
    size_t piece = data[0] + 1u, at = 1;
    for (bool ended = false; !ended; at += piece) {
        size_t length = at >= size ? 0 : size - at < piece ? size - at : piece;
        ended = !length;
        text_add(&in, (const char *)data + at, length);
        for (enum http got = HTTP_WHOLE; got == HTTP_WHOLE && in.length;) {
            struct answer answer = {0};
            size_t before = in.length;
            got = http_take(&in, ended, &answer);
            if (got == HTTP_WHOLE && in.length >= before)
                abort(); /* nothing was taken: it would be read for ever */
            text_free(&answer.body);
            ended |= got == HTTP_BROKEN;
        }
    }
    text_free(&in);
    return 0;
}
