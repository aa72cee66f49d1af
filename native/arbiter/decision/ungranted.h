/* GPU time of work that began while its allocation had no right to begin any. It finds a process that reports its work truthfully
   but ignores the arbiter's grants. Pure.

   A process that obeys begins work only before `lease_until_ns` and below `granted_ns`. When one of the two allows none, what is in
   flight can only end, and each settlement takes its prediction out of the sum in flight: that sum sinks below all that was
   seen of it since. What is settled while it does not sink is work that began meanwhile. How long work takes says
   nothing here: a kernel of a minute that was predicted as 2 ms sinks the sum once, when it ends.

   A claim counts only against the allocation that makes it. An allocation that reports too little is found by the card's own
   figures instead. */
#ifndef GPUPOOL_UNGRANTED_H
#define GPUPOOL_UNGRANTED_H

#include <stdbool.h>
#include <stdint.h>

/* Later than this after the last look its processes may have gone alone, or will before the next beat: half of FENCE_ARBITER_LOST_NS. */
#define UNGRANTED_LATE_NS 100000000ull
/* Of a settlement that is stored in two steps the arbiter may see one; a thread that is stopped between them goes on within this. */
#define UNGRANTED_DOUBT_NS 200000000ull
/* One settlement counts for no more: a thread that was stopped between the look at its grant and the launch begins one piece of work,
   however long, too late. */
#define UNGRANTED_PIECE_NS 250000000ull

struct ungranted {
    uint64_t total_ns;
    bool could[2]; /* whether work could begin after the last decision, and after the one before */
    bool sank;     /* at the last look the sum in flight was below all that was seen since work could begin */
    uint64_t least_ns;
    uint64_t fresh_ns, doubtful_ns, turned_ns; /* seen lately: a sum that sinks later explains it */
};

/* What one look at an allocation saw. */
struct ungranted_look {
    uint64_t now_ns, elapsed_ns; /* since the look before */
    uint64_t inflight_ns;
    uint64_t joined_ns; /* in flight of processes that were not known at the look before */
    uint64_t used_ns;   /* what it paid of the card's time since */
    bool is_free;       /* it asks for no grant */
};

void ungranted_begin(struct ungranted *u, uint64_t now);
void ungranted_note(struct ungranted *u, const struct ungranted_look *look);
/* After a decision: whether work may begin until the next. */
void ungranted_decided(struct ungranted *u, bool could);
/* Whether the next look must come soon: work is in flight, or was paid for, that cannot have begun now. */
bool ungranted_watches(const struct ungranted *u, uint64_t inflight_ns);

#endif
