/* `gpupool submit`: sends a job and prints its name. */
#ifndef FRONT_SUBMIT_H
#define FRONT_SUBMIT_H

#include "options.h"
#include "pool/api.h"
#include "pool/job.h"

enum {
    KEY_BYTES = 33,
    TO_PYTHON = -1, /* instead of an exit code: the pool refused it, and Python knows another request for the same */
};

/* An Idempotency-Key; false without randomness. */
bool make_key(char key[KEY_BYTES]);
/* POST jobs, and the answer read; the same request each time, so that a repetition finds the job of the first.
 * `answer`, if it is not NULL, gets the body too. */
enum outcome send_job(struct api *api, struct slice body, const char *key, struct submitted *submitted,
                      struct text *answer);

/* More cards than a node has: Python asks for the gang that the refusal offers. */
bool may_be_gang(const struct failure *failure);
/* The exit code, or TO_PYTHON. */
int submit(const struct options *options, struct api *api, struct slice body, const char *key);

#endif
