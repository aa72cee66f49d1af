/* The clock, submitting and waiting.

   A waiter sleeps until the moment before which its work cannot be done, and looks again: what others submit meanwhile can
   only make that later. What could make it earlier (a neighbour dies, the host lets go) changes `wake`.

   On the virtual clock time stands still while anybody computes on the host. A process that waits writes down the value
   of `wake` it waits under; when all have, the last one moves time to the next thing that happens and changes `wake`, which
   makes them all look again. A process that sleeps in something else (a pipe, its children) is noticed by its threads' states. */
#include "machine_internal.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>

#define LONGEST_SLEEP_NS 50000000ull /* faults injected by a program without futexes (Python) are seen by then */
#define SPIN_NS 70000ull             /* nearer than a sleep can hit */
#define COARSE_NS 100000ull          /* once spinning has not helped */
#define SPINS 4
#define REAP_NS 20000000ull
#define LOOK_AROUND_NS 2000000ull

uint64_t sim_now(const struct sim *sim)
{
    const struct sim_header *h = &sim->machine->header;
    return h->clock == SIM_CLOCK_VIRTUAL ? atomic_load(&h->virtual_ns) : sim_monotonic_ns();
}

void sim_wake(struct sim *sim)
{
    struct sim_header *h = &sim->machine->header;
    atomic_fetch_add(&h->wake, 1);
    if (atomic_load(&h->waiters))
        sim_futex_wake(&h->wake, INT_MAX);
}

void sim_sleep(struct sim *sim, uint32_t word, uint64_t until_ns)
{
    struct sim_header *h = &sim->machine->header;
    atomic_fetch_add(&h->waiters, 1);
    sim_futex_wait(&h->wake, word, until_ns);
    atomic_fetch_sub(&h->waiters, 1);
}

/* --- the real clock --- */

/* Near enough to the moment that a sleep would miss it, as the real driver does by default. */
static void spin_until(const struct sim *sim, uint32_t word, uint64_t moment)
{
    while (sim_monotonic_ns() < moment && atomic_load(&sim->machine->header.wake) == word)
        sched_yield();
}

/* A bound that moves away again and again (others run first) is not worth spinning for. */
static void sleep_real(struct sim *sim, uint32_t word, uint64_t bound, int tries)
{
    uint64_t now = sim_monotonic_ns(), longest = now + LONGEST_SLEEP_NS;
    bool patient = tries >= SPINS;
    if (patient && bound < now + COARSE_NS)
        bound = now + COARSE_NS;
    if (bound > now + SPIN_NS)
        sim_sleep(sim, word, bound - (patient ? 0 : SPIN_NS) < longest ? bound - (patient ? 0 : SPIN_NS) : longest);
    if (!patient)
        spin_until(sim, word, bound < longest ? bound : longest);
}

/* --- the virtual clock --- */

static bool is_waiting(const struct sim_process *p, uint32_t word, bool look)
{
    uint64_t owner = atomic_load(&p->owner);
    if (!owner || p->flags & SIM_OBSERVER || atomic_load(&p->waiting) == word)
        return true;
    return look && sim_is_asleep((pid_t)(owner >> 32));
}

static bool all_wait(const struct sim *sim, uint32_t word, bool look)
{
    const struct sim_machine *m = sim->machine;
    uint32_t end = atomic_load(&m->header.high_water);
    for (uint32_t i = 0; i < end; i++)
        if (!is_waiting(&m->process[i], word, look))
            return false;
    return true;
}

/* Under the lock, nothing having changed since `word`: time goes to the next thing that happens. Whether it moved. */
static bool move_time(struct sim *sim)
{
    uint64_t next = engine_next_event(&sim->machine->engine);
    if (next == ENGINE_NEVER)
        return false;
    atomic_store(&sim->machine->header.virtual_ns, next);
    engine_advance(&sim->machine->engine, next);
    return true;
}

/* Whether time moved, or had moved already. `look`: also at processes that wait for something else. */
static bool try_to_move(struct sim *sim, uint32_t word, bool look)
{
    if (look && !all_wait(sim, word, true))
        return false;
    sim_lock(sim);
    bool moved = atomic_load(&sim->machine->header.wake) != word;
    if (!moved && (look || all_wait(sim, word, false)))
        moved = move_time(sim);
    sim_unlock(sim);
    if (moved)
        sim_wake(sim);
    return moved;
}

static void wait_virtual(struct sim *sim, uint32_t word, int tries)
{
    if (sim->self)
        atomic_store(&sim->self->waiting, word);
    if (try_to_move(sim, word, false))
        return;
    sim_sleep(sim, word, sim_monotonic_ns() + LOOK_AROUND_NS);
    if (tries > 0 && atomic_load(&sim->machine->header.wake) == word)
        try_to_move(sim, word, true);
}

/* A thread that waits longer clears killed processes now and then: their work would keep the card until then. */
static void reap_now_and_then(struct sim *sim)
{
    uint64_t now = sim_monotonic_ns(), last = atomic_load(&sim->reaped_ns);
    if (now - last < REAP_NS || !atomic_compare_exchange_strong(&sim->reaped_ns, &last, now))
        return;
    sim_reap(sim);
}

static void wait_on(struct sim *sim, uint32_t word, uint64_t bound, int tries)
{
    if (tries > 0)
        reap_now_and_then(sim);
    if (sim->machine->header.clock == SIM_CLOCK_VIRTUAL)
        wait_virtual(sim, word, tries);
    else
        sleep_real(sim, word, bound, tries);
}

/* --- waiting --- */

static int error_of(const struct engine *engine, uint32_t context)
{
    return context < ENGINE_CONTEXTS ? (int)engine->context[context].error : 0;
}

int sim_wait(struct sim *sim, uint32_t context, const struct engine_ticket *ticket)
{
    for (int tries = 0;; tries++) {
        struct engine *engine = sim_lock(sim);
        int error = error_of(engine, context), done = engine_done(engine, ticket);
        uint64_t bound = done ? 0 : engine_bound(engine, ticket);
        uint32_t word = atomic_load(&sim->machine->header.wake);
        sim_unlock(sim);
        if (error || done)
            return error;
        wait_on(sim, word, bound, tries);
    }
}

/* On the virtual clock asking again and again is a way of waiting. */
int sim_query(struct sim *sim, uint32_t context, const struct engine_ticket *ticket, int *done)
{
    struct engine *engine = sim_lock(sim);
    int error = error_of(engine, context);
    uint32_t word = atomic_load(&sim->machine->header.wake);
    *done = engine_done(engine, ticket);
    sim_unlock(sim);
    if (!error && !*done && sim->machine->header.clock == SIM_CLOCK_VIRTUAL && sim->self) {
        atomic_store(&sim->self->waiting, word);
        try_to_move(sim, word, false);
    }
    return error;
}

int sim_wait_stream(struct sim *sim, uint32_t context, uint32_t stream)
{
    struct engine *engine = sim_lock(sim);
    struct engine_ticket last = engine_last(engine, context, stream);
    sim_unlock(sim);
    return sim_wait(sim, context, &last);
}

int sim_wait_context(struct sim *sim, uint32_t context)
{
    struct engine_ticket last[ENGINE_STREAMS];
    int error = 0;
    struct engine *engine = sim_lock(sim);
    for (uint32_t s = 0; s < ENGINE_STREAMS; s++)
        last[s] = engine_last(engine, context, s);
    error = error_of(engine, context);
    sim_unlock(sim);
    for (uint32_t s = 0; s < ENGINE_STREAMS && !error; s++)
        if (!s || last[s].seq)
            error = sim_wait(sim, context, &last[s]);
    return error;
}

/* --- submitting --- */

/* The stream's queue is full, or those of the others have used up what there is: until something is done. */
static int wait_for_room(struct sim *sim, uint32_t context, uint32_t stream, int tries)
{
    struct engine *engine = sim_lock(sim);
    struct engine_ticket oldest = engine_oldest(engine, context, stream);
    uint64_t bound = oldest.seq ? 0 : engine_next_event(engine);
    uint32_t word = atomic_load(&sim->machine->header.wake);
    int error = error_of(engine, context);
    sim_unlock(sim);
    if (error)
        return error;
    if (oldest.seq)
        return sim_wait(sim, context, &oldest);
    wait_on(sim, word, bound, tries);
    return 0;
}

int sim_submit(struct sim *sim, uint32_t context, uint32_t stream, const struct engine_work *work,
               struct engine_ticket *ticket)
{
    for (int tries = 0;; tries++) {
        struct engine *engine = sim_lock(sim);
        if (sim->self && atomic_load(&sim->self->suspension)) {
            sim_unlock(sim);
            sim_pass_gate(sim);
            continue;
        }
        int answer = engine_submit(engine, context, stream, work, engine->now_ns, ticket);
        sim_unlock(sim);
        if (!answer && work->kind == ENGINE_HOST)
            sim_wake(sim);
        if (answer != -EAGAIN)
            return answer;
        if ((answer = wait_for_room(sim, context, stream, tries)))
            return answer;
    }
}

/* --- the host's part --- */

static int find_host(struct sim *sim, struct engine *engine, uint64_t *cookie, struct engine_ticket *ticket, uint64_t *bound)
{
    *bound = ENGINE_NEVER;
    for (uint32_t k = 0; sim->self && k < sim->machine->header.cards; k++) {
        uint32_t context = sim->self->context[k];
        if (!context)
            continue;
        if (engine_host_ready(engine, context - 1, cookie, ticket))
            return 1;
        uint64_t at = engine_host_bound(engine, context - 1);
        *bound = at < *bound ? at : *bound;
    }
    return 0;
}

/* Only the real clock: this thread idles most of the time, which says nothing of its process. */
int sim_wait_host(struct sim *sim, const _Atomic int *stop, uint64_t *cookie, struct engine_ticket *ticket)
{
    for (int tries = 0; !atomic_load(stop); tries++) {
        uint64_t bound;
        struct engine *engine = sim_lock(sim);
        uint32_t word = atomic_load(&sim->machine->header.wake);
        int found = find_host(sim, engine, cookie, ticket, &bound);
        sim_unlock(sim);
        if (found)
            return 1;
        if (sim->machine->header.clock == SIM_CLOCK_VIRTUAL)
            bound = ENGINE_NEVER;
        if (!atomic_load(stop))
            sleep_real(sim, word, bound, tries);
    }
    return 0;
}

void sim_release(struct sim *sim, const struct engine_ticket *ticket)
{
    struct engine *engine = sim_lock(sim);
    engine_release(engine, ticket, engine->now_ns);
    sim_unlock(sim);
    sim_wake(sim);
}
