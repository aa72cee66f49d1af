/* The control socket: one text line in, one text line out. The protocol is in docs/reference/supervisor.md. */
#ifndef GPUPOOL_CONTROL_H
#define GPUPOOL_CONTROL_H

#include "job.h"

#ifndef PROTOCOL_MIN
#define PROTOCOL_MIN 1
#endif
#ifndef PROTOCOL_MAX
#define PROTOCOL_MAX 2
#endif

/* Makes JOB/sock; the working directory must be JOB, because a socket's path is short. -1 and errno on failure. */
int control_listen(void);

/* Accepts a connection that waits. */
void control_accept(struct job *job);

/* Reads from an open connection, which may have been closed by the client. */
void control_read(struct job *job, int index);

/* Tells the client that writes the log of a terminal that no more will come. false: there is none. */
bool control_tell_ending(struct job *job);

/* Tells all waiting clients how the job ended, and closes every connection. */
void control_finish(struct job *job);

#endif
