/* The client's half of an attached job: hands its descriptors to the supervisor; client/attach.py in C. */
#ifndef FRONT_ATTACH_H
#define FRONT_ATTACH_H

#include "failure.h"

/* Lines to and from one supervisor (docs/reference/supervisor.md). */
struct channel {
    int socket;
    struct text in;
    bool ended; /* it has said how the program ended */
    int exit_code;
};

/* Gives a waiting job our three descriptors, which starts it. FAILED: GP-2007 if it cannot be attached to. Blocks for
 * the time of three answers, which is microseconds, and at most 30 s for each. */
enum outcome channel_attach(struct channel *channel, struct slice path, struct failure *failure);
/* One line to it. A supervisor that has gone is noticed when its answer is read. */
__attribute__((format(printf, 2, 3))) void channel_send(struct channel *channel, const char *format, ...);
/* Reads what has come. DONE: go on, or `ended`. FAILED: the program was never started, or its supervisor is gone. */
enum outcome channel_listen(struct channel *channel, struct failure *failure);
/* What has come already; `channel_listen` is for more. */
enum outcome channel_heard(struct channel *channel, struct failure *failure);
void channel_close(struct channel *channel);

#endif
