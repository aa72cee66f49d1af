/* What befalls a card, and what that does to the work on it. */
#include "machine_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

enum { LAUNCH_FAILED = 719, ILLEGAL_ADDRESS = 700, ECC_UNCORRECTABLE = 214, NVLINK_UNCORRECTABLE = 220, UNKNOWN = 999 };

/* NVIDIA's XID catalogue, and what cuda.h calls what the program then sees. */
uint32_t sim_xid_error(uint32_t xid)
{
    switch (xid) {
    case 13: case 43: case 45: case 69: case 109: return LAUNCH_FAILED;
    case 31: return ILLEGAL_ADDRESS;
    case 48: case 94: case 95: return ECC_UNCORRECTABLE;
    case 74: return NVLINK_UNCORRECTABLE;
    case 62: case 79: case 119: case 120: return UNKNOWN;
    default: return 0;
    }
}

int sim_card_error(const struct sim *sim, uint32_t card)
{
    return atomic_load_explicit(&sim->machine->card[card].lost, memory_order_relaxed) ? UNKNOWN : 0;
}

static void fail_contexts(struct sim *sim, const struct sim_fault *fault, uint32_t error)
{
    struct engine *engine = &sim->machine->engine;
    for (uint32_t c = 0; c < engine->high_water; c++) {
        const struct engine_context *context = &engine->context[c];
        if (!context->owner || context->card != fault->card)
            continue;
        if (!fault->pid || context->owner >> 32 == fault->pid)
            engine_context_fail(engine, c, error, sim_now(sim));
    }
}

void sim_handle_faults(struct sim *sim)
{
    struct sim_header *h = &sim->machine->header;
    uint64_t end = atomic_load_explicit(&h->faults, memory_order_acquire);
    uint64_t from = end - h->faults_handled > SIM_FAULTS ? end - SIM_FAULTS : h->faults_handled;
    for (; from != end; from++) {
        const struct sim_fault *fault = &h->fault[from % SIM_FAULTS];
        uint32_t error = fault->kind == SIM_FAULT_LOST ? UNKNOWN : fault->error;
        if (error)
            fail_contexts(sim, fault, error);
    }
    h->faults_handled = end;
    sim_wake(sim);
}

static void mark_card(struct sim_card *card, const struct sim_fault *fault)
{
    if (fault->xid)
        atomic_store(&card->last_xid, fault->xid);
    if (fault->kind == SIM_FAULT_ECC_CORRECTED)
        atomic_fetch_add(&card->ecc_corrected, fault->count ? fault->count : 1);
    if (fault->kind == SIM_FAULT_ECC_UNCORRECTED)
        atomic_fetch_add(&card->ecc_uncorrected, fault->count ? fault->count : 1);
    if (fault->kind == SIM_FAULT_LOST)
        atomic_store(&card->lost, 1);
    if (fault->kind == SIM_FAULT_HEALED) {
        atomic_store(&card->lost, 0);
        atomic_store(&card->needs_reset, 0);
    }
}

static void publish(struct sim *sim, const struct sim_fault *fault)
{
    struct sim_header *h = &sim->machine->header;
    uint64_t number = atomic_load(&h->faults);
    h->fault[number % SIM_FAULTS] = *fault;
    if (!fault->time_ns)
        h->fault[number % SIM_FAULTS].time_ns = sim_now(sim);
    mark_card(&sim->machine->card[fault->card], fault);
    atomic_store_explicit(&h->faults, number + 1, memory_order_release);
}

int sim_inject(struct sim *sim, const struct sim_fault *fault)
{
    if (fault->card >= sim->machine->header.cards)
        return -EINVAL;
    int fd = open(sim->path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX)) {
        int problem = -errno;
        if (fd >= 0)
            close(fd);
        return problem;
    }
    publish(sim, fault);
    close(fd);
    sim_lock(sim); /* does to contexts what the fault does */
    sim_unlock(sim);
    sim_wake(sim);
    return 0;
}

void sim_count_unsupported(struct sim *sim)
{
    if (sim->machine)
        atomic_fetch_add_explicit(&sim->machine->header.unsupported, 1, memory_order_relaxed);
}
