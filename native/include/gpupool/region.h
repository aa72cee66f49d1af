/* The three files of one allocation that the fence, the arbiter and the agent share: limits, grants, usage.

   limits  one page. Written by the agent alone, seen by the job read-only. What the allocation may have.
   grants  one page. Written by the arbiter alone, seen by the job read-only. What it may use of a card's time now.
   usage   written by the job's processes, so it is a claim: the agent reconciles it with what the card says.

   All integers are little-endian and naturally aligned; the layouts are frozen by the assertions below and compared
   with gpupool/mechanisms/regions.py by a test. A reader checks magic, layout and size before anything else and treats
   a file that fails as damaged. No CUDA type appears here, and no pointer. */
#ifndef GPUPOOL_REGION_H
#define GPUPOOL_REGION_H

#include <stdatomic.h>
#include <stdint.h>

#define FENCE_LAYOUT 1u
#define FENCE_LIMITS_MAGIC 0x31534d494c505047ull /* "GPPLIMS1" */
#define FENCE_GRANTS_MAGIC 0x31544e5247505047ull /* "GPPGRNT1" */
#define FENCE_USAGE_MAGIC 0x3147535550505047ull  /* "GPPPUSG1" */
#define FENCE_PAGE_BYTES 4096u
#ifndef FENCE_MAX_DEVICES /* the model of the slot protocol has fewer */
#define FENCE_MAX_DEVICES 16u
#define FENCE_MAX_SLOTS 1024u
#endif                        /* FENCE_MAX_SLOTS: processes of one allocation that use its cards at one time */

/* Names below the job's base directory (root's pool /run/gpupool, a user's own /tmp/gpupool-UID). */
#define FENCE_LIMITS_FILE "share/limits"
#define FENCE_GRANTS_FILE "share/grants"
#define FENCE_USAGE_FILE "usage/region"
#define FENCE_DOORBELL_FILE "usage/doorbell"  /* listening SOCK_SEQPACKET socket of the arbiter */
#define FENCE_SIMGPU_FILE "simgpu/machine"    /* the simulated cards' shared memory, in a simulated pool */
#define FENCE_DEVICES_FILE "share/devices"    /* uuids that this job may open, a line each: GPU-xxxxxxxx-... */

enum fence_sharing { FENCE_FIXED = 0, FENCE_BURST = 1, FENCE_BEST_EFFORT = 2, FENCE_OFFLINE = 3 };
enum fence_level { FENCE_LEVEL_NONE = 0, FENCE_LEVEL_ADVISORY = 1, FENCE_LEVEL_SOFT = 2 };

struct fence_header {
    uint64_t magic;
    uint32_t layout, size; /* size: bytes of the whole file */
};

/* One card of the allocation. Changed live by a resize; `generation` of the page tells. */
struct fence_device_limit {
    uint8_t uuid[16];           /* as cuDeviceGetUuid gives it */
    uint64_t memory_bytes;      /* the share's memory; 0 is refused by the agent and by the fence */
    uint64_t card_memory_bytes; /* of the whole card, for information */
    uint64_t context_bytes;     /* calibrated cost of one context on this card and driver; 0: unknown */
    uint32_t granule_bytes;     /* what the driver rounds an allocation up to (2 MiB) */
    uint32_t gpu_milli;         /* 1000: all of the card's time; no throttle */
    uint32_t sharing;           /* enum fence_sharing */
    uint32_t weight;            /* between allocations of one priority, for time that is promised to none */
    int32_t priority;           /* a higher class goes first */
    uint32_t duty_offset_milli; /* without an arbiter: where in each period this share's part begins */
    /* What the card says the allocation holds beyond its ledger: programs' code, their heaps and stacks. The agent writes it
       by itself, no generation tells; it counts against memory_bytes like everything else. */
    _Atomic uint64_t overhead_bytes;
    uint32_t reserved[14];
};

/* The allocation's memory is off its cards: calls of the driver wait before they enter it. The first to wait rings FENCE_BELL_WAKE.
   Threads wait on the word `flags` with FUTEX_WAIT (not private). */
#define FENCE_SHARE_CLOSED 1u

struct fence_limits {
    struct fence_header header;
    _Atomic uint64_t generation; /* odd while being written; a reader that sees it change reads again */
    uint32_t device_count, level; /* level: enum fence_level, what doctor and NVML text say */
    uint32_t slots;               /* processes admitted, at most FENCE_MAX_SLOTS */
    _Atomic uint32_t flags; /* FENCE_SHARE_*; the agent writes it by itself, no generation tells */
    char allocation[64], job[64], tenant[64];
    uint8_t reserved[280];
    struct fence_device_limit device[FENCE_MAX_DEVICES];
};

/* The arbiter's word on one card. `granted_ns` only grows; a process may submit work while the allocation's
   charged_ns is below it, the work it has in flight is predicted to end before `lease_until_ns`, and does not exceed
   `window_ns` (one piece of work longer than that is admitted when nothing is in flight, and becomes debt).
   `word` changes with every change that lets more be submitted: threads wait on it with FUTEX_WAIT (not private).
   `beat_ns` is renewed at least every FENCE_BEAT_NS while a process of the allocation waits; when it is older than
   FENCE_ARBITER_LOST_NS the arbiter is taken for lost and the static part of every period holds. */
#define FENCE_BEAT_NS 50000000ull
#define FENCE_ARBITER_LOST_NS 200000000ull

enum fence_holding {
    FENCE_WAITING = 0,        /* has no lease; another has, or nothing was asked */
    FENCE_HOLDING = 1,        /* has the lease, and no other allocation wants the card */
    FENCE_HOLDING_WANTED = 2, /* has the lease, others wait: say so when idle */
    FENCE_USED_UP = 3         /* has no lease because its share is used up for now */
};

struct fence_grant {
    _Atomic uint32_t word;
    _Atomic uint32_t holder; /* enum fence_holding */
    _Atomic uint64_t granted_ns;
    _Atomic uint64_t lease_until_ns; /* CLOCK_MONOTONIC; 0: none. Never open-ended: an arbiter that died must be missed */
    _Atomic uint64_t window_ns;      /* most predicted GPU time in flight per process */
    _Atomic uint64_t beat_ns;        /* CLOCK_MONOTONIC when the arbiter last looked */
    /* Sums that only grow; a new arbiter goes on with them. What was used beyond the promise, and what of the promise was lost while the
       allocation waited: arbitrate.h. */
    _Atomic uint64_t borrowed_ns, denied_ns;
    uint64_t reserved[1];
};

struct fence_grants {
    struct fence_header header;
    uint64_t arbiter_pid;
    uint64_t reserved[5];
    struct fence_grant device[FENCE_MAX_DEVICES];
    uint8_t rest[FENCE_PAGE_BYTES - 64 - 64 * FENCE_MAX_DEVICES];
};

/* What one process uses of one card. Written by that process alone, except when a dead one is reaped. */
struct fence_slot_device {
    _Atomic uint64_t committed_bytes; /* memory the driver has given */
    _Atomic uint64_t pending_bytes;   /* reserved, the driver not asked or not answered yet */
    _Atomic uint64_t imported_bytes;  /* mapped from another process that is charged for it; counts for nothing */
    _Atomic uint64_t gpu_ns;          /* GPU time measured */
    _Atomic uint64_t inflight_ns;     /* predicted GPU time submitted and not seen finished */
    _Atomic uint64_t wait_ns;         /* time its threads were held back */
    _Atomic uint64_t throttled_ns;    /* of that: because the share was used up, not because another one ran */
    _Atomic uint64_t launches;        /* kernels, graphs and copies submitted */
    _Atomic uint32_t refusals;        /* allocations refused for the limit */
    _Atomic uint32_t waiters;         /* threads waiting for a grant now */
    _Atomic uint32_t contexts;
    uint32_t reserved[5];
};

/* The owner word: bits 0 to 31 the low bits of the process's start time in clock ticks as /proc/PID/stat says, 32 to 53 its pid, 54 to 61
   the low bits of its pid namespace's inode, 62 and 63 what it is doing with the slot. That one word says which process and since when, so
   that a reused pid is not mistaken. A slot counts while its owner is not 0.

   Taking: compare-and-swap from 0 to the own word with FENCE_OWNER_ENTERING, store `image` and `pid_namespace`, compare-and-swap that bit
   away. While it is there, both fields may be an earlier owner's and are not believed.
   Dead is a slot when no such process lives, or when that process runs another image since (exec keeps pid and start
   time but not the memory of the card). Clearing: compare-and-swap the owner seen to the own word with FENCE_OWNER_REAPER, zero the
   counters, compare-and-swap that to 0. `image` is the dead owner's and says nothing of the one that clears; should that one die in the
   middle, the next clears. Both fields stay, for they tell in which namespace the word means something.
   The arbiter, whose pid means nothing in the job's namespace, puts FENCE_OWNER_REAPING, which no process touches; an arbiter that
   starts finishes the slots it finds so. tests/unit/native/fence_slot_model.c runs every interleaving of this. */
#define FENCE_OWNER_REAPING 1ull
#define FENCE_OWNER_REAPER (1ull << 63)
#define FENCE_OWNER_ENTERING (1ull << 62)
#define FENCE_OWNER_TAG_SHIFT 54
#define FENCE_OWNER_TAG_MASK 0xffull
#define FENCE_OWNER_PID_MASK 0x3fffffull /* pid_max is 2^22 at most */

/* A process has the slot and said which it is. */
static inline int fence_owner_is_process(uint64_t owner)
{
    return owner > FENCE_OWNER_REAPING && !(owner & (FENCE_OWNER_REAPER | FENCE_OWNER_ENTERING));
}

struct fence_slot {
    _Atomic uint64_t owner;
    _Atomic uint32_t pid_outside; /* pid in the agent's namespace, from the socket's credentials; 0: not known yet */
    _Atomic uint32_t flags;       /* FENCE_SLOT_* */
    _Atomic uint64_t pid_namespace; /* inode of /proc/PID/ns/pid; the pid means nothing in another. 0: not told yet */
    _Atomic uint64_t image;         /* address of the stack's start (/proc/PID/stat), another after each exec; 0: not told */
    _Atomic uint64_t imports;          /* pieces of memory of other processes that are open here, on all cards */
    _Atomic uint64_t unmapped_imports; /* of these: handles whose memory is mapped nowhere, so that no size is known */
    uint64_t reserved[2];
    struct fence_slot_device device[FENCE_MAX_DEVICES];
};

#define FENCE_SLOT_FOREIGN_DRIVER 1u /* another libcuda was mapped before the fence: advisory for this process */

/* Shared by all processes of the allocation: time charged is one sum, its error after a kill is one window. */
struct fence_usage_device {
    _Atomic uint64_t charged_ns; /* predicted when submitted, corrected when measured */
    _Atomic uint64_t departed_gpu_ns, departed_wait_ns, departed_throttled_ns; /* sums over the slots cleared so far */
    _Atomic uint64_t departed_launches, departed_refusals;
    /* What processes held that have ended, or gave back, while others had memory of other processes open: some of it may live on.
       It counts up to what is imported, all of it while there are unmapped imports, and is 0 when nothing is open. */
    _Atomic uint64_t orphaned_bytes;
    uint64_t reserved[1];
};

struct fence_usage {
    struct fence_header header;
    _Atomic uint32_t high_water; /* slots below it may be in use */
    _Atomic uint32_t unknown_lookups; /* cuGetProcAddress names the table does not know */
    uint64_t reserved[5];
    struct fence_usage_device device[FENCE_MAX_DEVICES];
    struct fence_slot slot[FENCE_MAX_SLOTS];
};

/* When the allocation's work ran on a card, by CLOCK_MONOTONIC. Work of several processes that the card divides its time between
   is measured by each from its first kernel to its last: what overlaps counts once.

   It lies at FENCE_TIMELINES_AT of the usage file, behind struct fence_usage. header.size does not count it, so that a reader that knows nothing of it goes
   on as before; in a file that ends before it each process keeps a timeline of its own. All of the allocation's processes write it
   and it is as much a claim as the rest of the file. Nothing is locked: each word changes by one compare-and-swap, and a process that dies
   between two words leaves the rest as it was. Zero is empty.

   Both arrays are rings. The upper half of a word is the round of the ring that it belongs to, from 1; the lower half of a fine word
   has a bit for each FENCE_FINE_NS in which something ran, that of a coarse word is how much of its FENCE_COARSE_NS was counted. */
#define FENCE_FINE_NS 512u
#define FENCE_FINE_WORDS 8192u /* of 32 bits: 134 ms, more than a window of work in flight */
#define FENCE_COARSE_NS 8388608u
#define FENCE_COARSE_WORDS 8192u /* 68 s: the longest piece of work that is believed in */

struct fence_timeline {
    _Atomic uint64_t fine[FENCE_FINE_WORDS];
    _Atomic uint64_t coarse[FENCE_COARSE_WORDS];
};

struct fence_timelines {
    struct fence_timeline device[FENCE_MAX_DEVICES];
};

#define FENCE_TIMELINES_AT (26u << 16) /* whole pages of any size */

_Static_assert(sizeof(struct fence_usage) <= FENCE_TIMELINES_AT, "layout");
_Static_assert(sizeof(struct fence_timeline) == 8 * (FENCE_FINE_WORDS + FENCE_COARSE_WORDS), "layout");
_Static_assert(sizeof(struct fence_device_limit) == 128, "layout");
_Static_assert(sizeof(struct fence_limits) == 512 + 128 * FENCE_MAX_DEVICES, "layout");
_Static_assert(sizeof(struct fence_limits) <= FENCE_PAGE_BYTES, "layout");
_Static_assert(sizeof(struct fence_grant) == 64, "layout");
_Static_assert(sizeof(struct fence_grants) == FENCE_PAGE_BYTES, "layout");
_Static_assert(sizeof(struct fence_slot_device) == 96, "layout");
_Static_assert(sizeof(struct fence_slot) == 64 + 96 * FENCE_MAX_DEVICES, "layout");
_Static_assert(sizeof(struct fence_usage) == 64 + 64 * FENCE_MAX_DEVICES + sizeof(struct fence_slot) * FENCE_MAX_SLOTS,
               "layout");

#endif
