/* Starts the command: fork, then session, cgroup, namespace, identity and exec in the child. */
#ifndef GPUPOOL_LAUNCH_H
#define GPUPOOL_LAUNCH_H

#include "job.h"

/* What the child says over its close-on-exec pipe before the command replaces it. */
struct report {
    enum { REPORT_SHARE_MOUNTED, REPORT_SHARE_REFUSED, REPORT_FAILED } kind;
    int error;
    char stage[24], message[256];
};

/* The terminal side of the job. A member that is -1 is /dev/null. */
struct streams {
    int input, output, errors;
    bool terminal; /* input is the terminal that shall control the job's session */
};

/* Forks the command. The caller keeps `streams`. false: the job has failed. */
bool launch(struct job *job, const struct streams *streams);

/* A new terminal for the job, of the job's user; -1 and errno. The other end goes to `slave`. */
int open_terminal(const struct job *job, unsigned rows, unsigned columns, int *slave);

#endif
