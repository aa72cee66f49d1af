/* The listening socket of an allocation and its connections. The packets are described in gpupool/doorbell.h. */
#ifndef GPUPOOL_ARBITER_DOORBELL_H
#define GPUPOOL_ARBITER_DOORBELL_H

#include <stddef.h>

#include "share.h"

/* Listens at usage_directory/doorbell, in place of one that is there. False: `why` tells. */
bool doorbell_listen(struct share *share, const char *usage_directory, char *why, size_t size);
void doorbell_close(struct share *share);

/* Takes all connections that wait. */
void doorbell_accept(struct share *share);
/* Reads all packets that are there. True: a process rang or drained. A broken peer is closed and freed. */
bool doorbell_read(struct peer *peer);

#endif
