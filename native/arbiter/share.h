/* One allocation: its three files, its cards, its processes and its doorbell. */
#ifndef GPUPOOL_ARBITER_SHARE_H
#define GPUPOOL_ARBITER_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "decision/arbitrate.h"
#include "events.h"
#include "gpupool/region.h"

/* A connection. The kernel names its process; the process itself names its slot, which is then checked. */
struct peer {
    struct source source;
    pid_t pid;
    bool greeted;
    uint32_t slot;
    struct peer *next;
};

/* A process with a slot, until its pidfd says that it has ended. */
struct process {
    struct source source; /* the pidfd */
    pid_t pid;
    uint32_t slot;
    uint64_t owner; /* the slot's owner word when the process entered; 0: the slot had no owner */
    bool seen;      /* what it has in flight was read once */
    struct process *next;
};

struct card {
    uint8_t uuid[16];
    struct arb_card arb;
    uint64_t due_ns; /* ARB_NEVER: nothing to do until something happens */
    uint32_t members;
    struct card *next;
};

struct seat { /* an allocation on one card */
    struct arb_member member;
    struct card *card;
    uint64_t nonsense_reported_ns; /* when nonsense in it was last reported */
};

struct share {
    char name[128]; /* a pod's uid and a container's name fit */
    const struct fence_limits *limits;
    struct fence_grants *grants;
    struct fence_usage *usage;
    int usage_file;
    uid_t region_uid; /* of the usage region's file: its users may ring */
    gid_t region_gid;
    mode_t region_mode;
    uint64_t reported_ns;
    uint64_t woke_ns; /* when a wake was last reported */
    uint64_t generation; /* of the limits that are in force here */
    uint32_t devices, peers_count;
    bool damaged;
    struct seat seat[FENCE_MAX_DEVICES];
    struct source doorbell;
    struct peer *peers;
    struct process *processes;
    struct share *next;
};

/* Maps and checks the files. NULL: `why` tells in a clause. Reports nothing. */
struct share *share_open(const char *name, const char *share_directory, const char *usage_directory, char *why, size_t size);
/* Frees the share. Its doorbell and its processes have been let go before. */
void share_close(struct share *share);

/* Reports an event about a connection's process, at most once a second: a job cannot fill its node's log with them. */
void share_report_event(struct share *share, const char *event, pid_t pid);

/* Reports that a process waits for its closed share, at most each half second; its process rings again after one. */
void share_report_wake(struct share *share, pid_t pid);
/* Wakes the processes that wait for their closed share; those that still have to, wait again. */
void share_wake_opened(struct share *share);

/* Whether the agent changed the limits since; then they are read again. */
bool share_refresh(struct share *share);
struct arb_limits share_limits(const struct share *share, uint32_t device);

/* Reads what the region claims of every card into seat[].member.seen. False: it is cut short; `damaged` is set. */
bool share_read_claims(struct share *share);
/* Writes seat[device].member.word into the grants page and wakes the processes that wait for it. */
void share_publish_grant(struct share *share, uint32_t device, uint64_t now);
/* Goes on with the sums that an earlier arbiter left on the grants page. */
void share_resume_sums(struct share *share, uint32_t device);

#endif
