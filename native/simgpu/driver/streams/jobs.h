/* Work of the host in a stream's order: host functions, and data that must not move before them. */
#ifndef GPUPOOL_SIMGPU_JOBS_H
#define GPUPOOL_SIMGPU_JOBS_H

#include "copies/transfer.h"
#include "stream.h"

enum job_kind { JOB_FUNCTION, JOB_CALLBACK, JOB_TRANSFER, JOB_FILL, JOB_WAIT_VALUE, JOB_WRITE_VALUE, JOB_FAULT };

struct job_call {
    CUhostFn function;
    CUstreamCallback callback;
    CUstream stream; /* as the tenant named it */
    void *data;
};

struct job_value {
    void *address;
    uint64_t value;
    unsigned flags;
    bool wide;
};

struct job {
    enum job_kind kind;
    struct target target;
    union {
        struct job_call call;
        struct transfer transfer;
        struct fill fill;
        struct job_value value;
    };
    /* of jobs.c */
    uint64_t id;
    struct job *next;
    struct engine_ticket ticket;
};

/* Copies the job and submits it behind the stream's work. */
CUresult job_submit(const struct job *job, struct engine_ticket *ticket);
/* Whether data may be moved at once: no job of this process is waiting or running. */
bool jobs_none(void);
bool jobs_inside(void);               /* the calling thread runs a job */
void jobs_drop(uint32_t engine_context); /* its work was taken away: the jobs will never come */
bool value_reached(const struct job_value *value);
void value_write(const struct job_value *value);

#endif
