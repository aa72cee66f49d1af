/* A job in the pool's answers: the fields that this program needs of JobOut and SubmittedOut. */
#ifndef FRONT_JOB_H
#define FRONT_JOB_H

#include "common/json.h"

struct job {
    struct text answer; /* the fields point into it */
    struct slice id, name, state, reason, share, fence, fence_why, attach_socket, model;
    struct text cards; /* device names, a comma between them */
    int64_t generation, started_ns, ended_ns, exit_code, signal;
    bool has_generation, has_exit_code, has_signal, simulated;
    size_t seats;
};

struct submitted {
    struct job first;
    struct slice array;
    int64_t count;
};

/* What a reading found: NULL it is good, "" no JSON, else the name of a field that is missing. The answer's body is
 * taken over. What was in the job before is freed only when the new one is good. */
const char *job_read(struct job *job, struct text *body);
const char *submitted_read(struct submitted *submitted, struct text *body);
void job_free(struct job *job);

bool job_has_ended(const struct job *job);
/* The exit code that a shell would show for an ended job. */
int job_exit_code(const struct job *job);

/* `0.30 GPU (30 % compute) + 8192 MiB on node-1:0 (H200, SIMULATED) · fence: none (why)` */
void job_grant_line(const struct job *job, struct text *line);
/* `done after 0:04, exit code 3` */
void job_end_line(const struct job *job, struct text *line);

#endif
