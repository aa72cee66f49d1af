/* Suspending a process: its calls block, its work ends, its memory leaves the cards and comes back.

   Any process may do it to another one of its user, as with the vendor's cuda-checkpoint. The memory's pages are host memory
   in any case and stay where they are; what moves is the charge on the cards, after the time that the link takes. */
#include "machine_internal.h"

#include <errno.h>
#include <signal.h>

#define LOOK_NS 5000000ull /* so often a locked process's work is looked at, and a blocked call looks at its lock */

#define EACH_CARD(card, sim) (uint32_t card = 0; card < (sim)->machine->header.cards; card++)

static struct sim_process *find_process(struct sim *sim, int pid)
{
    struct sim_machine *m = sim->machine;
    for (uint32_t i = 0; i < atomic_load(&m->header.high_water); i++) {
        struct sim_process *p = &m->process[i];
        if ((int)(atomic_load(&p->owner) >> 32) == pid && p->pid_namespace == sim_own_namespace() && !sim_process_is_gone(p))
            return p;
    }
    return NULL;
}

/* The process, in the state `from`; under the lock. */
static int find_in_state(struct sim *sim, int pid, uint32_t from, struct sim_process **process)
{
    if (pid <= 0 || !(*process = find_process(sim, pid)))
        return -ESRCH;
    if (kill(pid, 0) && errno == EPERM)
        return -EPERM;
    return atomic_load(&(*process)->suspension) == from ? 0 : -EPROTO;
}

int sim_suspension(struct sim *sim, int pid, uint32_t *state)
{
    sim_lock(sim);
    const struct sim_process *process = pid > 0 ? find_process(sim, pid) : NULL;
    if (process)
        *state = (uint32_t)atomic_load(&process->suspension);
    sim_unlock(sim);
    return process ? 0 : -ESRCH;
}

static int change(struct sim *sim, int pid, uint32_t from, uint32_t to)
{
    struct sim_process *process;
    sim_lock(sim);
    int problem = find_in_state(sim, pid, from, &process);
    if (!problem)
        atomic_store(&process->suspension, to);
    sim_unlock(sim);
    sim_wake(sim);
    return problem;
}

static bool has_work(struct sim *sim, const struct sim_process *process)
{
    for EACH_CARD(card, sim)
        if (process->context[card] && !engine_idle(&sim->machine->engine, process->context[card] - 1u))
            return true;
    return false;
}

/* 0 when its work is done; -EAGAIN while it is not. */
static int look_for_work(struct sim *sim, int pid)
{
    struct sim_process *process;
    sim_lock(sim);
    int problem = find_in_state(sim, pid, SIM_LOCKED, &process);
    if (!problem && has_work(sim, process))
        problem = -EAGAIN;
    sim_unlock(sim);
    return problem;
}

int sim_lock_process(struct sim *sim, int pid, uint64_t until_ns)
{
    int problem = change(sim, pid, SIM_RUNNING, SIM_LOCKED);
    while (!problem && (problem = look_for_work(sim, pid)) == -EAGAIN) {
        uint64_t now = sim_monotonic_ns();
        if (now >= until_ns)
            return change(sim, pid, SIM_LOCKED, SIM_RUNNING) ? -ESRCH : -ETIMEDOUT;
        sim_sleep(sim, atomic_load(&sim->machine->header.wake), now + LOOK_NS < until_ns ? now + LOOK_NS : until_ns);
        problem = 0;
    }
    return problem;
}

static bool has_managed(const struct sim *sim, const struct sim_process *process)
{
    for EACH_CARD(card, sim)
        if (atomic_load(&process->memory[card][SIM_MANAGED]))
            return true;
    return false;
}

int sim_suspend_process(struct sim *sim, int pid)
{
    struct sim_process *process;
    sim_lock(sim);
    int problem = find_in_state(sim, pid, SIM_LOCKED, &process);
    if (!problem && has_work(sim, process))
        problem = -EBUSY;
    if (!problem && (process->flags & SIM_SHARING || has_managed(sim, process)))
        problem = -ENOTSUP;
    if (!problem)
        atomic_store_explicit(&process->suspension, SIM_SUSPENDED, memory_order_release);
    sim_unlock(sim);
    sim_wake(sim);
    return problem;
}

static bool fits(struct sim *sim, const struct sim_process *process)
{
    for EACH_CARD(card, sim)
        if (sim_process_charge(process, card) > sim_free(sim, card))
            return false;
    return true;
}

int sim_restore_process(struct sim *sim, int pid)
{
    int problem;
    do {
        struct sim_process *process;
        sim_lock(sim);
        problem = find_in_state(sim, pid, SIM_SUSPENDED, &process);
        if (!problem && !fits(sim, process))
            problem = -ENOMEM;
        if (!problem)
            atomic_store_explicit(&process->suspension, SIM_LOCKED, memory_order_release);
        sim_unlock(sim);
    } while (problem == -ENOMEM && sim_reap(sim) > 0);
    return problem;
}

int sim_unlock_process(struct sim *sim, int pid)
{
    return change(sim, pid, SIM_LOCKED, SIM_RUNNING);
}

/* The cards move at the same time, each over its own link. */
uint64_t sim_move_ns(struct sim *sim, int pid)
{
    uint64_t longest = 0;
    if (sim->machine->header.clock == SIM_CLOCK_VIRTUAL)
        return 0;
    sim_lock(sim);
    const struct sim_process *process = find_process(sim, pid);
    for EACH_CARD(card, sim) {
        uint64_t bandwidth = sim->machine->card[card].link_bandwidth, bytes = process ? sim_process_charge(process, card) : 0;
        uint64_t ns = bandwidth ? (uint64_t)((unsigned __int128)bytes * 1000000000u / bandwidth) : 0;
        longest = ns > longest ? ns : longest;
    }
    sim_unlock(sim);
    return longest;
}

void sim_pass_gate(struct sim *sim)
{
    while (sim->self) {
        uint32_t word = atomic_load(&sim->machine->header.wake);
        if (!atomic_load(&sim->self->suspension))
            return;
        sim_sleep(sim, word, sim_monotonic_ns() + LOOK_NS * 10);
    }
}
