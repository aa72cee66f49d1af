/* Renews the lease of a job while its program runs, by a long poll on a connection of its own that never blocks. */
#ifndef FRONT_LEASE_H
#define FRONT_LEASE_H

#include "common/http.h"
#include "job.h"
#include "pool.h"

struct lease {
    const struct pool *pool;
    struct text job; /* its id */
    int64_t generation;
    int socket;        /* readable when there is an answer; -1: nothing is asked */
    int64_t next_ms;   /* when to ask next, or when to stop waiting for an answer */
    struct text in;
    bool over;
};

void lease_begin(struct lease *lease, const struct pool *pool, const struct job *job);
/* What is due: call it when the socket is readable or `next_ms` has come. Does not block. */
void lease_step(struct lease *lease, bool readable);
void lease_end(struct lease *lease);

/* `/api/v1/jobs/ID?generation=G&wait_seconds=20.0&lease=true` */
void job_news_target(struct text *target, struct slice id, int64_t generation, int64_t tenths, bool lease);

#endif
