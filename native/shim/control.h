/* The control socket: one text line in, one text line out. The protocol is in docs/reference/supervisor.md. */
#ifndef GPUPOOL_CONTROL_H
#define GPUPOOL_CONTROL_H

#include "job.h"

#ifndef PROTOCOL_MIN
#define PROTOCOL_MIN 1
#endif
#ifndef PROTOCOL_MAX
#define PROTOCOL_MAX 1
#endif

/* Makes JOB/sock; the working directory must be JOB, because a socket's path is short. -1 and errno on failure. */
int control_listen(void);

/* Somebody is at the door. */
void control_accept(struct job *job);

/* Somebody who is inside has said something, or has gone. */
void control_read(struct job *job, int index);

/* Tells all who wait how it ended, and closes every connection. */
void control_finish(struct job *job);

#endif
