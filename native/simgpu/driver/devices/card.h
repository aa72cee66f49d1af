/* What the driver asks of the machine that all processes share: the cards, their memory, their health. The only header
   through which the other files know the model. */
#ifndef GPUPOOL_SIMGPU_CARD_H
#define GPUPOOL_SIMGPU_CARD_H

#include "process/driver.h"

#define CARD_LIMIT 32 /* devices of one process; a bit each in a context's peers */

struct card_facts {
    char name[96];
    unsigned char uuid[16];
    uint64_t total_bytes, context_bytes, launch_ns, memory_bandwidth, link_bandwidth;
    int sm_count, threads_per_sm, major, minor, numa_node;
    int pci_domain, pci_bus, pci_device;
    int clock_khz, memory_clock_khz, bus_width_bits, l2_bytes;
};

struct sim;

CUresult card_open(void); /* under the lock: maps the machine and takes a slot of it; later calls find it done */
int card_driver_version(void); /* what the machine says, 0 where there is none; under the lock */
void card_note_sharing(void); /* memory of this process is another's too from now on */
void card_forget(void);   /* in a child of fork */
void card_close(void);    /* gives the slot back */
struct sim *card_machine(void);
void card_enter(void);    /* around calls of the model that are made without the lock */
void card_leave(void);
uint32_t card_index(int device); /* in the machine */
int card_count(void);
void card_count_unsupported(void); /* in the machine, for all to see */
const struct card_facts *card_facts(int device);
CUresult card_health(int device); /* CUDA_SUCCESS, or what calls on a lost card get */

/* Every context of this process on a card shares one context of the engine; each costs its own memory. Under the lock. */
CUresult card_context_open(int device, uint32_t *engine_context);
bool card_context_close(int device); /* whether it was the last: the engine's is gone, with its work */

/* `kind` is enum sim_memory. CUDA_ERROR_OUT_OF_MEMORY when the card has not as much left. */
CUresult card_charge(int device, uint32_t kind, uint64_t bytes);
void card_uncharge(int device, uint32_t kind, uint64_t bytes);
/* What this process could still get, and the size of the card that it is shown: less than the card's under a limit by cgroup. */
uint64_t card_free_bytes(int device, uint64_t *total);
/* The answer of one of the model's functions as a CUresult. */
CUresult card_result(int answer);

#endif
