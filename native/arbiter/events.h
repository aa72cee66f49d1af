/* One epoll for everything, and the one timer. */
#ifndef GPUPOOL_ARBITER_EVENTS_H
#define GPUPOOL_ARBITER_EVENTS_H

#include <stdint.h>

#include "share.h"

bool poll_start(void);
bool poll_add(struct source *source);
void poll_remove(struct source *source);
/* Frees what `source` is the first member of, once no event of this round can name it any more. */
void poll_free(struct source *source);

/* Waits for events and calls `handle` for each that still stands; false: epoll failed. */
bool poll_once(void (*handle)(struct source *source, bool hung_up));

/* CLOCK_MONOTONIC at which SOURCE_TIMER fires; ARB_NEVER: not at all. */
void poll_wake_at(uint64_t at_ns);
void poll_timer_seen(void);

uint64_t now_ns(void);

#endif
