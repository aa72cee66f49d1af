/* Sends requests to the pool over one connection that is kept; `Api.request` of client/transport.py in C. Knows no job. */
#ifndef FRONT_API_H
#define FRONT_API_H

#include "common/http.h"
#include "failure.h"
#include "pool.h"
#include "signals.h"

enum { ANSWER_MS = 60000 };

struct api {
    const struct pool *pool;
    struct signals *signals; /* what comes there ends a request */
    struct failure *failure;
    int socket; /* -1: there is none now */
    struct text in;
};

struct request {
    const char *method;
    struct text target;
    struct slice body; /* NULL: none */
    const char *key;   /* makes a POST one that may be repeated; NULL: none */
    int64_t timeout_ms;
};

/* `?name=value` and `&name=value` are added by hand: names and numbers of ours. A segment is quoted. */
void api_add_segment(struct text *target, struct slice segment);

/* The bytes of a request, head and body. */
void api_write_request(const struct request *request, struct text *out);

/* The answer of a request that succeeded. Sent again once when the connection breaks, if it may be repeated. */
enum outcome api_request(struct api *api, const struct request *request, struct answer *answer);

/* What a problem answer says, or that it is none. DONE: the request succeeded. */
enum outcome api_judge(const struct pool *pool, struct answer *answer, struct failure *failure);
/* Told when the answer of a request that succeeded is not what it should be. */
enum outcome api_broken_json(const struct api *api);

void api_close(struct api *api);

#endif
