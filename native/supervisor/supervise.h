/* The supervisor's main loop: the life of one job from the first connection to the exit record. */
#ifndef GPUPOOL_SUPERVISE_H
#define GPUPOOL_SUPERVISE_H

#include "job.h"

/* Runs the job in JOB (open as `directory`, also the working directory). `launcher` is told, once, how the start went. */
void supervise(struct job *job);

/* What the process that was called prints and exits with. */
struct verdict {
    int status;
    char message[300];
};

#endif
