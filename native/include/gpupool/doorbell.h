/* What a process under the fence and the arbiter say to each other over usage/doorbell, a SOCK_SEQPACKET socket.

   One connection per process and exec, opened at the first use of a card, non-blocking and close-on-exec. Every packet is
   one struct fence_bell, from the process to the arbiter; the arbiter answers through the grants page alone and
   never writes to the socket. It takes the process's pid from SO_PEERCRED, never from a packet, opens a pidfd for
   it, and stores the pid in the slot's `pid_outside` when the hello has come and the slot's owner is alive. A connection that
   closes says little (a forked child may keep it open, an exec closes it): the pidfd tells of death.

   The socket has the owner and the mode of the usage region, so that a user that may not write the region may not ring. A packet
   about a slot whose owner word is not the pid of the connection's process (in its own pid namespace or in one above) is a
   stranger's: the arbiter closes that connection and changes nothing.

   The socket may be absent, refuse, fill up or break: the process carries on, falls to its static part of the time
   (decision 0004) and tries again with its next ring, at most once per FENCE_BELL_RETRY_NS. A packet of another size, an unknown
   kind, a slot or card out of range is a broken peer: the arbiter closes that connection. */
#ifndef GPUPOOL_DOORBELL_H
#define GPUPOOL_DOORBELL_H

#include <stdint.h>

#define FENCE_BELL_RETRY_NS 100000000ull
#define FENCE_WAKE_NS 1000000000ull

enum fence_bell_kind {
    FENCE_BELL_HELLO = 1,  /* first on every connection: this process has `slot` (again after a slot was lost) */
    FENCE_BELL_RING = 2,   /* wants time on `device` and has none */
    FENCE_BELL_DRAINED = 3, /* nothing of this process is in flight on `device` any more; said under FENCE_HOLDING_WANTED */
    FENCE_BELL_WAKE = 4     /* a call waits because the share is closed (FENCE_SHARE_CLOSED); again each FENCE_WAKE_NS */
};

struct fence_bell {
    uint16_t kind;   /* enum fence_bell_kind */
    uint16_t layout; /* FENCE_LAYOUT */
    uint32_t slot;
    uint32_t device; /* index into limits.device; 0 in a hello */
    uint32_t reserved;
};

_Static_assert(sizeof(struct fence_bell) == 16, "layout");

#endif
