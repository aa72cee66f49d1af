/* Decides which allocation has a card's lease next. Pure: no system call, no clock, no shared memory; the program around it
   (main.c) and the discrete-event proof (tests/unit/native/fence_compute_sim.c) drive the same code.

   One allocation at a time has the lease, for a quantum: GPU time measured by events is exact only while no other process
   runs. Each allocation with a promise (fixed, burst) owns a balance. It fills at the promised rate and is lowered by the
   time used; a negative balance is debt and is carried on. Allocations that want the card are served in this order: those
   with a balance, the higher priority class, the one that lags most behind its rate. Time that is promised to no allocation
   goes to burst and best-effort allocations: to the highest class alone, within it by weight (virtual time). A holder
   whose lease was promised keeps its quantum; a holder of left-over time yields at once.

   An offline allocation comes after every other one, whatever their priorities. Beside others it may have only a short window of work
   in flight, because what is in flight cannot be taken back: so it gives the card back within that window or one kernel.

   Used time is what the processes settled, with two bounds. It is never more than the wall clock allows: two processes that
   were sliced against each other each measured both. While others wait it is not much less than the lease was held: an
   allocation that keeps the card idle pays as if it had used it. An offline allocation that waits costs the others nothing.

   For reports each allocation's use is compared with its promise. The promise fills `lead_ns` at the promised rate and use lowers it, within a
   second's worth of promise above and below zero. What is used below that is borrowed; a fixed allocation borrows nothing, it pays debts
   back. What is promised above that is lost: denied, if the allocation waited for the card at both ends of the time and had no debt. */
#ifndef GPUPOOL_ARBITRATE_H
#define GPUPOOL_ARBITRATE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpupool/region.h"
#include "ungranted.h"

#define ARB_NEVER UINT64_MAX
#define ARB_QUANTUM_NS 10000000ll       /* of a lease while others want the card */
#define ARB_LONE_LEASE_NS 100000000ll   /* no other allocation wants it; half of what a lost arbiter may cost */
#define ARB_LONE_WINDOW_NS 30000000ll   /* in flight: what a lone holder needs to give the card back */
#define ARB_WINDOW_NS 12000000ll        /* the same while others want it: a quantum, and room for two kernels of half of it */
#define ARB_OFFLINE_WINDOW_NS 500000ll  /* the same of an offline allocation beside others: what they wait for at most, or one kernel */
#define ARB_OFFLINE_LOOK_NS 250000ll    /* between two looks at an allocation that asks for no lease, while an offline one runs */
#define ARB_RENEW_NS 2000000ll          /* so long before its end a lease is renewed, to leave no gap */
#define ARB_DEPTH_NS 20000000ll         /* what an idle allocation may save up: two points of a second */
#define ARB_PROMISE_SPAN_NS 1000000000ll /* of wall clock within which use and promise are set against each other for reports */
#define ARB_CHUNK_NS 5000000ll          /* debt that a lone fixed allocation is let into, so that it runs in pieces */
#define ARB_STEP_NS 2000000ll           /* the least that is worth a wake-up */
#define ARB_LAG_NS 100000000ll          /* of its own time that a waiting allocation may be owed */
#define ARB_LINGER_NS 200000ll          /* a holder that is idle longer than this gives the card to a waiting allocation */
#define ARB_DEAF_NS 3000000ll       /* a holder that waits and uses nothing so long is stopped: it is left out until it moves */
#define ARB_DRAIN_NS 1000000000ull   /* longest wait for work that is claimed to be in flight after a lease */
#define ARB_GAP_NS 500000ll             /* of a lease that may pass unused without being paid for */
#define ARB_FLIGHT_MAX_NS 60000000000ll /* the longest piece of work that is believed in */
#define ARB_CLAMP_NS 100000000ll        /* of wall clock that an idle allocation keeps to settle late measurements against */

struct arb_limits {
    uint32_t gpu_milli, sharing, weight; /* sharing: enum fence_sharing */
    int32_t priority;
};

/* What the usage region says now; a claim, bounded here. */
struct arb_seen {
    uint64_t charged_ns, inflight_ns;
    uint32_t waiters;
};

/* What the grants page should say. `wake` is set when waiters must look again; the caller clears it. */
struct arb_word {
    uint64_t granted_ns, lease_until_ns, window_ns;
    enum fence_holding holding;
    bool wake;
};

struct arb_member {
    struct arb_limits limits; /* in: see arb_resize */
    struct arb_seen seen;     /* in: fresh before every arb_run */
    struct arb_word word;     /* out */
    int64_t balance_ns;
    int64_t prepaid_ns; /* paid for holding the card; what is settled later is set against it */
    uint64_t virtual_ns, settled_ns, clamp_ns, served;
    bool claiming, busy; /* at the last look: wanted or had something; had something in flight */
    bool deaf; /* in and out: cleared by the caller when it rings, set here when it was given time and did not take it */
    uint64_t deaf_charged_ns;
    uint64_t flight_since_ns; /* in flight, and nothing of it settled, since then */
    uint64_t paid_ns;         /* everything that it was made to pay, promised or borrowed */
    uint64_t alone_ns;        /* time in which no other member was seen to want the card all the time */
    bool contested;           /* another member wanted the card after the last decision */
    struct ungranted ungranted;
    int64_t lead_ns; /* promised and not used yet; negative: used ahead */
    bool waited;     /* at the last look: wanted the card, had no lease and nothing in flight */
    uint64_t borrowed_ns, denied_ns; /* in and out: the caller sets where an earlier arbiter ended */
    uint64_t joined_ns; /* in and out: added by the caller when it first reads a process, what that one has in flight; cleared here */
    uint32_t nonsense; /* times the claim was impossible and was bounded */
    struct arb_member *next;
};

struct arb_card {
    struct arb_member *members, *holder;
    uint64_t now_ns, virtual_ns, served;
    uint64_t began_ns, until_ns, drain_by_ns;
    uint64_t idle_since_ns, idle_charged_ns, renewed_charged_ns; /* what the holder's charge was then */
    int64_t held_ns, debited_ns; /* of this lease while others waited; what was paid for it */
    bool leftover;               /* the holder runs on time that is promised to no allocation */
};

/* `seen` is where the claim stands when it begins; what was used before is not charged. */
void arb_join(struct arb_card *card, struct arb_member *member, struct arb_limits limits, struct arb_seen seen, uint64_t now);
void arb_leave(struct arb_card *card, struct arb_member *member);
/* Debts and what was saved stay; the new rate holds from now on. */
void arb_resize(struct arb_member *member, struct arb_limits limits);
/* How long something is in flight of which nothing was settled; 60 s at most. It may be running, so it may be owed. */
uint64_t arb_flight(const struct arb_card *card, const struct arb_member *member);
/* The balance by the arbiter's own clock, less what is in flight and may be running. For comparisons with the card's figures. */
int64_t arb_owns(const struct arb_card *card, const struct arb_member *member);
/* Decides; afterwards every member's `word` holds. Returns when to call again if nothing happens before: ARB_NEVER or later than now. */
uint64_t arb_run(struct arb_card *card, uint64_t now);

#endif
