/* The files that outlive the supervisor: JOB/started, made once, and JOB/exit, whole or absent. */
#ifndef GPUPOOL_RECORD_H
#define GPUPOOL_RECORD_H

#include "job.h"

/* JOB/started, on disk before the command exists. false with EEXIST: it has been started before. */
bool record_started(struct job *job);

/* What only the fork can tell, added to JOB/started. */
void record_command(struct job *job);

/* One line of key=value about how the job ended, as pushed to clients that wait. */
void record_line(const struct job *job, char *line, size_t size);

/* Takes the room that JOB/exit will need, so that a job that fills the disk still ends on record. */
bool record_reserve(const struct job *job);

/* JOB/exit: temporary file, fsync, rename. */
bool record_exit(const struct job *job);

#endif
