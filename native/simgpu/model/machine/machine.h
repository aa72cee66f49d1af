/* One simulated machine: a file that every simulated driver, NVML and tool maps (MAP_SHARED), and what they do with it.

   The file is shared between all users of a pool and any of them can write all of it. It stands for the hardware in
   tests and try-outs and is never a security boundary.

   Found by $GPUPOOL_SIMGPU, else /run/gpupool/simgpu/machine, else /tmp/gpupool-UID/simgpu/machine. Cards that are not
   listed in `share/devices` (uuids, a line each) of the base directory are not there for this process, as with a device cgroup;
   without that file all are. Made by gpupool/probes/simgpu_make.py or sim_format(), read by simgpu.py beside
   it; a test compares simgpu_layout.py with this. Integers little-endian, naturally aligned. */
#ifndef GPUPOOL_SIM_MODEL_H
#define GPUPOOL_SIM_MODEL_H

#include "engine/engine.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_MAGIC 0x3143414d4d495350ull /* "PSIMMAC1" */
#define SIM_LAYOUT 1u
#define SIM_CARDS ENGINE_CARDS
#define SIM_PROCESSES 1024u
#define SIM_FAULTS 64u /* remembered */
#define SIM_ENDED 48u  /* contexts that ended, remembered */
#define SIM_NO_CARD UINT32_MAX
#define SIM_NESTED 2u  /* memory limits above one another that hold one process */
#define SIM_UNLIMITED UINT64_MAX /* NVML_DEVICE_MEMORY_LIMIT_MAX */

enum sim_clock { SIM_CLOCK_REAL = 0, SIM_CLOCK_VIRTUAL = 1 };

/* What a process's memory on a card is for. */
enum sim_memory {
    SIM_CONTEXT = 0, /* what a context costs */
    SIM_DEVICE = 1,  /* cuMemAlloc, pitch, module globals */
    SIM_ARRAY = 2,
    SIM_MANAGED = 3,
    SIM_PHYSICAL = 4, /* cuMemCreate */
    SIM_POOL = 5,     /* reserved by memory pools */
    SIM_GRAPH = 6,    /* graphs' memory nodes */
    SIM_OTHER = 7,
    SIM_KINDS = 8,
};

struct sim_card {
    uint8_t uuid[16];
    char name[64];
    uint64_t memory_bytes;   /* of the card */
    uint64_t reserved_bytes; /* of it kept by the driver: shown by NVML, never allocatable */
    uint64_t context_bytes;  /* what the first context of a process costs */
    uint64_t granule_bytes;  /* allocations are rounded up to it */
    uint64_t launch_ns;      /* the least time that a kernel takes on the card */
    uint64_t memory_bandwidth, link_bandwidth; /* bytes per second; link: to the host */
    uint32_t multiprocessors, threads_per_multiprocessor;
    uint32_t compute_major, compute_minor;
    uint32_t pci_domain, pci_bus, pci_device, pci_device_id; /* device_id as NVML has it: device << 16 | vendor */
    uint32_t sm_clock_mhz, memory_clock_mhz, memory_bus_bits, l2_bytes;
    uint32_t power_idle_mw, power_limit_mw;
    int32_t numa_node;
    uint32_t minor; /* of /dev/nvidiaN */
    /* Failures. Written when a fault is injected, by Python or sim_fault(). */
    _Atomic uint32_t lost;         /* fell off the bus: every call fails */
    _Atomic uint32_t needs_reset;  /* new contexts are refused until it is healed */
    _Atomic uint32_t last_xid;
    _Atomic uint32_t ecc_enabled;
    _Atomic uint64_t ecc_corrected, ecc_uncorrected;
    uint8_t unused[280];
};

/* What befell a card; the ring is also NVML's source of events. `number` of faults counts up; fault n lies at n % SIM_FAULTS.
   Writers hold flock(2) on the file (they may not have atomics), and publish `faults` of the header last. */
struct sim_fault {
    uint64_t time_ns; /* CLOCK_MONOTONIC, or virtual */
    uint32_t card, xid;
    uint32_t error; /* CUresult that contexts on the card fail with; 0: none fails */
    uint32_t pid;   /* only this process's context; 0: all */
    uint32_t kind;  /* enum sim_fault_kind */
    uint32_t count; /* of ECC errors */
};

/* A context that ended and had time of its card, as NVML's accounting mode keeps it. Context n lies at n % SIM_ENDED; written
   under the lock, `ended` of the header is published last. */
struct sim_ended {
    uint64_t owner, pid_namespace; /* as in struct sim_process */
    uint64_t gpu_ns;
    uint32_t card, unused;
};

enum sim_fault_kind { SIM_FAULT_XID = 1, SIM_FAULT_ECC_CORRECTED = 2, SIM_FAULT_ECC_UNCORRECTED = 3, SIM_FAULT_LOST = 4,
                      SIM_FAULT_HEALED = 5 };

/* Taken by compare-and-swap of `owner` from 0 to (pid << 32 | low 32 bits of the start time in clock ticks, proc_pid_stat(5)
   field 22). One writer (the process, under the lock), except when it is reaped. Its memory counts while owner is not 0. */
struct sim_process {
    _Atomic uint64_t owner;
    _Atomic uint32_t waiting; /* on the virtual clock: value of `wake` since which a thread of it waits */
    uint32_t flags;           /* SIM_OBSERVER */
    uint64_t since_ns;
    uint64_t image; /* of the program: an exec keeps pid and start time, but not what was allocated */
    uint64_t pid_namespace; /* inode of /proc/PID/ns/pid: only processes in it can tell whether the pid lives */
    uint64_t limits[SIM_NESTED]; /* names of the cgroups with a memory limit that it is charged to, inner ones first; 0: none */
    _Atomic uint64_t suspension; /* enum sim_suspension; written under the lock, by any process */
    uint16_t context[SIM_CARDS]; /* in the engine, index + 1 */
    _Atomic uint64_t memory[SIM_CARDS][SIM_KINDS];
};

#define SIM_OBSERVER 1u /* the virtual clock never waits for it: tools */
#define SIM_SHARING 2u  /* it has exported memory to another process, or opened another's: it cannot be suspended */

/* Of a suspended process the memory stays on record in its slot and counts against no card: one word decides, so a kill at
   any instruction leaves it wholly on the card or wholly on the host. */
enum sim_suspension { SIM_RUNNING = 0, SIM_LOCKED = 1, SIM_SUSPENDED = 2 };

struct sim_header {
    uint64_t magic;
    uint32_t layout, cards;
    uint64_t size; /* of the whole file, sizeof(struct sim_machine) */
    uint32_t clock, mode; /* enum sim_clock, enum engine_mode */
    uint64_t slice_ns, switch_ns;
    uint32_t cuda_version; /* 13000 */
    uint32_t nvml_version; /* 13 */
    char driver_version[32];
    char name[64];    /* of the machine */
    uint8_t boot[16]; /* boot id (random(4)) it was made under: times do not outlive a boot */
    _Atomic uint64_t virtual_ns;
    _Atomic uint64_t lock;    /* thread id << 32 | low 20 bits of its start time << 12 | low 12 bits of its pid namespace's
                                 inode; top bit: a thread waits */
    _Atomic uint32_t wake;    /* changes when something happened that no prediction knew, from 1; a futex */
    _Atomic uint32_t waiters; /* threads that wait on it; too high after a kill, which only costs system calls */
    _Atomic uint64_t faults;  /* published */
    uint64_t faults_handled;  /* contexts of these have failed */
    _Atomic uint32_t high_water; /* processes below it may be in use */
    _Atomic uint32_t repairs;    /* how often a process died inside the lock */
    _Atomic uint64_t unsupported; /* calls of symbols without behaviour, all processes, all libraries */
    uint64_t unused[2];
    struct sim_fault fault[SIM_FAULTS];
    _Atomic uint64_t ended; /* published */
    struct sim_ended ended_context[SIM_ENDED];
    uint8_t rest[4096 - 248 - 32 * SIM_FAULTS - 32 * SIM_ENDED];
};

struct sim_machine {
    struct sim_header header;
    struct sim_card card[SIM_CARDS];
    struct sim_process process[SIM_PROCESSES];
    struct engine engine;
};

_Static_assert(sizeof(struct sim_card) == 512, "layout");
_Static_assert(sizeof(struct sim_fault) == 32, "layout");
_Static_assert(sizeof(struct sim_ended) == 32, "layout");
_Static_assert(sizeof(struct sim_process) == 64 + 2 * SIM_CARDS + 64 * SIM_CARDS, "layout");
_Static_assert(sizeof(struct sim_header) == 4096, "layout");
_Static_assert(sizeof(struct engine_sample) == 16, "layout");
_Static_assert(sizeof(struct engine_item) == 64, "layout");
_Static_assert(sizeof(struct engine_stream) == 64, "layout");
_Static_assert(sizeof(struct engine_event) == 16, "layout");
_Static_assert(sizeof(struct engine_card) == 192 + 16 * ENGINE_SAMPLES, "layout");
_Static_assert(offsetof(struct engine_context, sample) == 192, "layout");
_Static_assert(sizeof(struct engine_context) == 192 + 16 * ENGINE_SAMPLES + 64 * ENGINE_STREAMS + 64 * ENGINE_ITEMS
                                                   + 16 * ENGINE_EVENTS, "layout");

/* --- one process's view. Fill by sim_open; one per process and library, no two threads in sim_open/attach at once --- */

struct sim {
    struct sim_machine *machine;
    struct sim_process *self; /* NULL until sim_attach, and again after sim_forget */
    uint32_t count;           /* cards that this process sees */
    uint16_t visible[SIM_CARDS]; /* their indexes in the machine, in its order */
    _Atomic uint64_t reaped_ns;  /* when this process last looked for dead ones */
    char path[256];
    char limits_path[272]; /* beside the file that `path` leads to */
};

/* 0, or -ENOENT (no machine here), -EPROTO (not a machine file, damaged, or of another layout), -errno of the system. With
   `path` NULL it is found as above. */
int sim_open(struct sim *sim, const char *path);
/* Unmaps; the process's slot is given back first. */
void sim_close(struct sim *sim);
/* Fill zeroed memory of sizeof(struct sim_machine) with a machine. Cards' 0 fields get plausible values. */
void sim_format(struct sim_machine *machine, const struct sim_card *cards, uint32_t count, uint32_t clock, uint32_t mode);
/* A new file there, complete when it appears under its name. -errno. */
int sim_create(const char *path, const struct sim_card *cards, uint32_t count, uint32_t clock, uint32_t mode);

/* Take a slot for this process; idempotent. -ENOSPC: too many processes. `flags` SIM_OBSERVER or 0. */
int sim_attach(struct sim *sim, uint32_t flags);
/* Give it back with its contexts and memory. */
void sim_detach(struct sim *sim);
/* In a child of fork: the slot is the parent's. The mapping stays. Async-signal-safe. */
void sim_forget(struct sim *sim);
/* Give back the slots of processes that are gone; how many. */
int sim_reap(struct sim *sim);

uint64_t sim_now(const struct sim *sim);
/* The machine's lock, for a few engine_ calls; the engine is as of now when it returns. Never held over a wait or a callback. */
struct engine *sim_lock(struct sim *sim);
void sim_unlock(struct sim *sim);

/* 0 or the CUresult with which calls about this card fail now. */
int sim_card_error(const struct sim *sim, uint32_t card);

/* The process's one engine context on a card, made and charged (SIM_CONTEXT) when it is not there. 0 and its index; -ENOMEM,
   -ENOSPC; or the card's error (CUresult, > 0). */
int sim_context(struct sim *sim, uint32_t card, uint32_t *context);
/* Takes away its work and what it was charged; other memory is the caller's business. */
void sim_context_close(struct sim *sim, uint32_t card);

/* Count `bytes` (a multiple of the granule is the caller's business) against card and process: 0, -ENOMEM when the card has not
   so many left even after the dead are reaped. Exact whichever process is killed when. */
int sim_charge(struct sim *sim, uint32_t card, uint32_t kind, uint64_t bytes);
void sim_uncharge(struct sim *sim, uint32_t card, uint32_t kind, uint64_t bytes);
/* Bytes that processes use on a card; what all together could still get. */
uint64_t sim_used(const struct sim *sim, uint32_t card);
uint64_t sim_free(const struct sim *sim, uint32_t card);
uint64_t sim_process_used(const struct sim_process *process, uint32_t card);
/* What a process has allocated of a card, wherever it lies: on the card, or on the host while it is suspended. */
uint64_t sim_process_charge(const struct sim_process *process, uint32_t card);

/* The states of another process by its pid in the caller's pid namespace, as cuCheckpointProcess* moves between them. 0;
   -ESRCH (it is not on this machine); -EPERM (not the caller's to touch); -EPROTO (it is in another state). */
int sim_suspension(struct sim *sim, int pid, uint32_t *state);
/* New calls of the process block from now on; waits for its submitted work. -ETIMEDOUT at `until_ns` (CLOCK_MONOTONIC): it runs. */
int sim_lock_process(struct sim *sim, int pid, uint64_t until_ns);
/* -EBUSY: it has work on a card. -ENOTSUP: it has managed memory or shares memory with another process. */
int sim_suspend_process(struct sim *sim, int pid);
/* All its memory is charged again, or nothing: -ENOMEM where a card has too little left. */
int sim_restore_process(struct sim *sim, int pid);
int sim_unlock_process(struct sim *sim, int pid);
/* How long its memory takes over the cards' links to the host; 0 on the virtual clock. */
uint64_t sim_move_ns(struct sim *sim, int pid);
/* Block while this process is locked or suspended. */
void sim_pass_gate(struct sim *sim);

/* What a cgroup may use of a card, and uses: all memory of its processes and of those below it, but managed memory. */
struct sim_limit {
    uint64_t soft, hard; /* 0 and SIM_UNLIMITED: no limit */
    uint64_t used;
};

/* Limit what the processes of a cgroup use of a card, also those that run already; `directory` is where the caller sees the
   cgroup in a mounted hierarchy, of version 1 or 2. Limits lie in a file of their own beside the machine's, which only the
   machine's owner can write. -EACCES; -ENOENT (no such cgroup); -ENOTSUP (the root of a hierarchy); -errno. */
int sim_limit_set(struct sim *sim, uint32_t card, const char *directory, uint64_t soft, uint64_t hard);
int sim_limit_get(struct sim *sim, uint32_t card, const char *directory, struct sim_limit *limit);
/* What this process could still get of a card and, in `total`, the size of the card that it is shown, by its limits. */
uint64_t sim_left(struct sim *sim, uint32_t card, uint64_t *total);

/* Submit, waiting as a driver does while the queue is full. 0, -EINVAL, or the context's error (CUresult, > 0). */
int sim_submit(struct sim *sim, uint32_t context, uint32_t stream, const struct engine_work *work,
               struct engine_ticket *ticket);
/* 0 and whether it is done, or the error of the own context. Never blocks. */
int sim_query(struct sim *sim, uint32_t context, const struct engine_ticket *ticket, int *done);
/* Block until done: 0, or the error of the own context. */
int sim_wait(struct sim *sim, uint32_t context, const struct engine_ticket *ticket);
/* Everything that was submitted to the stream / the context before the call. */
int sim_wait_stream(struct sim *sim, uint32_t context, uint32_t stream);
int sim_wait_context(struct sim *sim, uint32_t context);
/* For the thread that runs host callbacks: block until one of the process's is due (1: run it, then sim_release), or *stop is
   not 0 (0; looked at after each sim_wake). */
int sim_wait_host(struct sim *sim, const _Atomic int *stop, uint64_t *cookie, struct engine_ticket *ticket);
void sim_release(struct sim *sim, const struct engine_ticket *ticket);
/* All waits of the machine look again. */
void sim_wake(struct sim *sim);
/* Until then (CLOCK_MONOTONIC), or until `wake` of the header is not `word` any more. */
void sim_sleep(struct sim *sim, uint32_t word, uint64_t until_ns);
uint64_t sim_monotonic_ns(void);

/* Something befalls a card; -errno. What it does to contexts is done by the next one who takes the lock. */
int sim_inject(struct sim *sim, const struct sim_fault *fault);
/* The CUresult that work fails with after this XID, 0 if programs go on (NVIDIA's XID catalogue). */
uint32_t sim_xid_error(uint32_t xid);
/* A function without behaviour was called. */
void sim_count_unsupported(struct sim *sim);

#endif
