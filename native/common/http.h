/* Parses HTTP/1.1 answers from bytes as they arrive. Reads no socket itself. */
#ifndef GPUPOOL_COMMON_HTTP_H
#define GPUPOOL_COMMON_HTTP_H

#include "text.h"

struct answer {
    int status;
    bool json;   /* what its type says */
    bool closes; /* the connection is not to be used again */
    struct text body;
};

enum http { HTTP_MORE, HTTP_WHOLE, HTTP_BROKEN };

/* Whether a whole answer has come; then it is taken out of `in`. `ended`: no more will come. */
enum http http_take(struct text *in, bool ended, struct answer *answer);

#endif
