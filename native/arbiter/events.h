/* The event loop: one epoll for all sockets and processes, and one timer. Knows no share. */
#ifndef GPUPOOL_ARBITER_EVENTS_H
#define GPUPOOL_ARBITER_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

struct share;

/* What an epoll event is about. */
enum source_kind { SOURCE_COMMANDS, SOURCE_TIMER, SOURCE_DOORBELL, SOURCE_PEER, SOURCE_PROCESS };

struct source {
    enum source_kind kind;
    int file;
    struct share *share;
};

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
