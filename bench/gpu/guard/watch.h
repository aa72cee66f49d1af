/* Sees a tenant's requests to the driver by seccomp's user notification, from outside, in a thread of its own.

   OBSERVE lets every request run as it is and counts it. EMULATE does those that allocate card memory itself, on a copy of the
   tenant's own descriptor and with a private copy of the arguments, as a guard would have to. */
#ifndef GUARD_WATCH_H
#define GUARD_WATCH_H

#include "ledger.h"
#include <pthread.h>
#include <sys/types.h>

enum watch_mode { WATCH_OBSERVE, WATCH_EMULATE };

struct watch {
    pid_t pid;
    int listener, pidfd;
    enum watch_mode mode;
    const char *files; /* requests on files whose path begins so are the driver's */
    pthread_mutex_t lock;
    struct ledger ledger; /* under the lock */
    pthread_t thread;
};

/* In the tenant, before it does anything: returns the listener, or -1 with errno. */
int watch_filter(void);
/* The listener comes over `channel`. 0, or -1 with errno. */
int watch_begin(struct watch *watch, pid_t pid, int channel, enum watch_mode mode, const char *files);
void watch_end(struct watch *watch); /* after the tenant has ended */
int watch_send_listener(int channel, int listener);

#endif
