/* Signals as a descriptor to wait for beside sockets; no handlers. Signals that were ignored stay ignored (nohup). */
#ifndef FRONT_SIGNALS_H
#define FRONT_SIGNALS_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct signals {
    int fd; /* readable when one has come */
    sigset_t before;
};

enum { FOREVER = -1 };

/* From now on these wait on `fd` instead of doing anything. */
void signals_begin(struct signals *signals, const int *numbers, size_t count);
/* The ways that a user or a closed terminal ends a client: `submit` knows Ctrl-C alone. */
void signals_begin_ending(struct signals *signals, bool with_hangup);
/* Forgets what has come and puts everything back. */
void signals_end(struct signals *signals);
/* The next one that has come; 0: none. */
int signals_take(struct signals *signals);

enum readiness { READY, TIMED_OUT, SIGNALLED };
/* Until `events` happen on `fd` (-1: never), a signal comes or the time is over. */
enum readiness signals_wait(struct signals *signals, int fd, short events, int64_t milliseconds);

int64_t now_ms(void); /* of a clock that is never set */

#endif
