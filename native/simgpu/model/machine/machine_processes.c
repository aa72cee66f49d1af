/* Processes on the machine: their slots, contexts and memory, and what becomes of them when they are gone.

   What a card has left is the sum over the slots in use and nothing else, so no kill can leave a total wrong. */
#include "machine_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>

static bool counts(const struct sim_process *p)
{
    return atomic_load_explicit(&p->owner, memory_order_acquire) != 0;
}

#define EACH_PROCESS(p, machine) \
    (struct sim_process *p = (machine)->process, *p##_end = p + atomic_load(&(machine)->header.high_water); p < p##_end; p++)

/* --- slots --- */

static struct sim_process *claim_slot(struct sim *sim)
{
    struct sim_machine *m = sim->machine;
    for (uint32_t i = 0; i < SIM_PROCESSES; i++) {
        struct sim_process *p = &m->process[i];
        if (counts(p))
            continue;
        if (i >= atomic_load(&m->header.high_water))
            atomic_store(&m->header.high_water, i + 1);
        p->pid_namespace = sim_own_namespace();
        atomic_store_explicit(&p->owner, sim_own_process(), memory_order_release);
        return p;
    }
    return NULL;
}

/* The kernel gives each program it starts 16 random bytes; getauxval(3). */
static uint64_t own_image(void)
{
    uint64_t image = 0;
    const void *random = (const void *)getauxval(AT_RANDOM);
    if (random)
        memcpy(&image, random, sizeof image);
    return image;
}

/* The slot that this process has already: through another copy of this library, or before it executed another program,
   whose memory and contexts are then gone. */
static struct sim_process *own_slot(struct sim *sim)
{
    uint64_t mine = sim_own_process();
    for EACH_PROCESS(p, sim->machine) {
        if (atomic_load(&p->owner) != mine || p->pid_namespace != sim_own_namespace())
            continue;
        if (p->image == own_image())
            return p;
        sim_clear_process(sim, p);
    }
    return NULL;
}

int sim_attach(struct sim *sim, uint32_t flags)
{
    if (sim->self)
        return 0;
    for (int reaped = 0; !sim->self; reaped = 1) {
        sim_lock(sim);
        sim->self = own_slot(sim);
        if (!sim->self && (sim->self = claim_slot(sim))) {
            sim->self->since_ns = sim_now(sim);
            sim->self->image = own_image();
            sim->self->flags = flags;
        }
        sim_unlock(sim);
        if (!sim->self && (reaped || !sim_reap(sim)))
            return -ENOSPC;
    }
    return 0;
}

/* What its contexts are marked with: the pid above, the slot below, since pids of two namespaces may be the same. */
static uint64_t mark_of(const struct sim *sim, const struct sim_process *process)
{
    uint64_t slot = (uint64_t)(process - sim->machine->process);
    return (atomic_load(&process->owner) & ~0xffffffffull) | (slot + 1);
}

static void destroy_context(struct sim *sim, const struct sim_process *process, uint32_t context)
{
    struct sim_header *h = &sim->machine->header;
    struct engine *engine = &sim->machine->engine;
    if (context >= ENGINE_CONTEXTS)
        return;
    uint32_t card = engine->context[context].card;
    engine_context_destroy(engine, context, sim_now(sim));
    uint64_t gpu_ns = engine->context[context].gpu_ns, number = atomic_load(&h->ended);
    if (!gpu_ns)
        return; /* what used nothing must not push out what did */
    h->ended_context[number % SIM_ENDED] = (struct sim_ended){atomic_load(&process->owner), process->pid_namespace, gpu_ns, card, 0};
    atomic_store_explicit(&h->ended, number + 1, memory_order_release);
}

/* Zeroed before it is given up: the next owner must find it empty. */
void sim_clear_process(struct sim *sim, struct sim_process *process)
{
    struct engine *engine = &sim->machine->engine;
    uint64_t owner = mark_of(sim, process);
    for (uint32_t c = 0; c < engine->high_water; c++)
        if (engine->context[c].owner == owner)
            destroy_context(sim, process, c);
    memset((char *)process + sizeof process->owner, 0, sizeof *process - sizeof process->owner);
    atomic_store_explicit(&process->owner, 0, memory_order_release);
}

void sim_detach(struct sim *sim)
{
    if (!sim->self)
        return;
    sim_lock(sim);
    if (atomic_load(&sim->self->owner) == sim_own_process())
        sim_clear_process(sim, sim->self);
    sim->self = NULL;
    sim_unlock(sim);
    sim_wake(sim);
}

void sim_forget(struct sim *sim)
{
    sim->self = NULL;
}

static bool reap_one(struct sim *sim, struct sim_process *p)
{
    uint64_t owner = atomic_load(&p->owner);
    if (!sim_process_is_gone(p))
        return false;
    sim_lock(sim);
    bool same = atomic_load(&p->owner) == owner;
    if (same)
        sim_clear_process(sim, p);
    sim_unlock(sim);
    return same;
}

/* Looking into /proc is slow, so it is done without the lock. */
int sim_reap(struct sim *sim)
{
    int reaped = 0;
    for EACH_PROCESS(p, sim->machine)
        reaped += reap_one(sim, p);
    if (reaped)
        sim_wake(sim);
    return reaped;
}

/* --- memory --- */

uint64_t sim_process_charge(const struct sim_process *process, uint32_t card)
{
    uint64_t sum = 0;
    if (!counts(process))
        return 0;
    for (uint32_t kind = 0; kind < SIM_KINDS; kind++)
        sum += atomic_load_explicit(&process->memory[card][kind], memory_order_relaxed);
    return sum;
}

uint64_t sim_process_used(const struct sim_process *process, uint32_t card)
{
    bool suspended = atomic_load_explicit(&process->suspension, memory_order_acquire) == SIM_SUSPENDED;
    return suspended ? 0 : sim_process_charge(process, card);
}

uint64_t sim_used(const struct sim *sim, uint32_t card)
{
    uint64_t sum = 0;
    for EACH_PROCESS(p, sim->machine)
        sum += sim_process_used(p, card);
    return sum;
}

uint64_t sim_free(const struct sim *sim, uint32_t card)
{
    const struct sim_card *c = &sim->machine->card[card];
    uint64_t used = sim_used(sim, card), all = c->memory_bytes - c->reserved_bytes;
    return used < all ? all - used : 0;
}

/* A process belongs to the limits that it met first, for its life: it cannot leave them by moving to another cgroup. */
static bool charge_locked(struct sim *sim, uint32_t card, uint32_t kind, uint64_t bytes, const struct sim_own_limits *limits)
{
    if (bytes > sim_free(sim, card))
        return false;
    memcpy(sim->self->limits, limits->name, sizeof sim->self->limits);
    if (kind != SIM_MANAGED && bytes > sim_left_of_limits(sim, card, limits))
        return false;
    atomic_fetch_add(&sim->self->memory[card][kind], bytes);
    return true;
}

int sim_charge(struct sim *sim, uint32_t card, uint32_t kind, uint64_t bytes)
{
    if (!sim->self || card >= sim->machine->header.cards || kind >= SIM_KINDS)
        return -EINVAL;
    bool charged, again;
    do {
        struct sim_own_limits limits;
        int problem = sim_find_limits(sim, card, &limits);
        if (problem)
            return problem;
        sim_lock(sim);
        charged = charge_locked(sim, card, kind, bytes, &limits);
        sim_unlock(sim);
        again = !charged && sim_reap(sim) > 0;
    } while (again);
    return charged ? 0 : -ENOMEM;
}

void sim_uncharge(struct sim *sim, uint32_t card, uint32_t kind, uint64_t bytes)
{
    if (!sim->self || card >= sim->machine->header.cards || kind >= SIM_KINDS)
        return;
    _Atomic uint64_t *used = &sim->self->memory[card][kind];
    uint64_t seen = atomic_load(used);
    while (!atomic_compare_exchange_weak(used, &seen, seen > bytes ? seen - bytes : 0)) {
    }
}

/* --- contexts --- */

static int make_context(struct sim *sim, uint32_t card, const struct sim_own_limits *limits, uint32_t *context)
{
    struct engine *engine = &sim->machine->engine;
    if (!charge_locked(sim, card, SIM_CONTEXT, sim->machine->card[card].context_bytes, limits))
        return -ENOMEM;
    int made = engine_context_create(engine, card, mark_of(sim, sim->self), sim_now(sim));
    if (made < 0) {
        atomic_store(&sim->self->memory[card][SIM_CONTEXT], 0);
        return made;
    }
    sim->self->context[card] = (uint16_t)(made + 1);
    *context = (uint32_t)made;
    return 0;
}

static int find_or_make(struct sim *sim, uint32_t card, const struct sim_own_limits *limits, uint32_t *context)
{
    if (sim->self->context[card]) {
        *context = sim->self->context[card] - 1u;
        return 0;
    }
    int error = sim_card_error(sim, card);
    if (error)
        return error;
    return sim->machine->card[card].needs_reset ? 46 /* CUDA_ERROR_DEVICE_UNAVAILABLE */ : make_context(sim, card, limits, context);
}

int sim_context(struct sim *sim, uint32_t card, uint32_t *context)
{
    int problem;
    if (card >= sim->machine->header.cards)
        return -EINVAL;
    if ((problem = sim_attach(sim, 0)))
        return problem;
    do {
        struct sim_own_limits limits;
        if ((problem = sim_find_limits(sim, card, &limits)))
            return problem;
        sim_lock(sim);
        problem = find_or_make(sim, card, &limits, context);
        sim_unlock(sim);
    } while ((problem == -ENOMEM || problem == -ENOSPC) && sim_reap(sim) > 0);
    return problem;
}

void sim_context_close(struct sim *sim, uint32_t card)
{
    if (!sim->self || card >= sim->machine->header.cards)
        return;
    sim_lock(sim);
    if (sim->self->context[card])
        destroy_context(sim, sim->self, sim->self->context[card] - 1u);
    sim->self->context[card] = 0;
    atomic_store(&sim->self->memory[card][SIM_CONTEXT], 0);
    sim_unlock(sim);
    sim_wake(sim);
}
