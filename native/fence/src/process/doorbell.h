/* This process's connection to the arbiter. A failure here only costs time, never the limit: see gpupool/doorbell.h. */
#ifndef GPUPOOL_DOORBELL_SEND_H
#define GPUPOOL_DOORBELL_SEND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "gpupool/doorbell.h"

/* One connection; all zero is none. The caller keeps others away from it meanwhile. */
struct doorbell {
    int file; /* descriptor + 1; 0: none */
    dev_t device;
    ino_t inode; /* of the socket: the program may close all descriptors and reuse their numbers */
    uint64_t tried_ns;
};

/* Sends one packet over the socket below `base`, connecting and saying hello first where needed; at most one connection is tried per
   FENCE_BELL_RETRY_NS. Never blocks. True: it is on its way. */
bool doorbell_send(struct doorbell *bell, const char *base, enum fence_bell_kind kind, uint32_t slot, uint32_t device,
                   uint64_t now_ns);

/* Closes the descriptor if it still is that connection. */
void doorbell_drop(struct doorbell *bell);

#endif
