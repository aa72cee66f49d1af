#include "account.h"

#include <sched.h>
#include <time.h>

#include "process/ledger.h"
#include "process/state.h"

#define SMALL_BELOW ((uint64_t)1 << 20)
#define SMALL_UNIT 512u

/* Between tries of a race: at first only another's turn, later longer naps, about a second in all. */
#define TRIES 160
#define TRIES_WITHOUT_NAP 8
#define NAP_STEP_NS 100000
#define NAP_MOST_NS 10000000

static struct fence_usage *usage(void)
{
    return fence_state.region.usage;
}

static const struct fence_device_limit *limit_of(int card)
{
    return &fence_state.region.limits->device[card];
}

static struct fence_slot *fence_own_slot(void)
{
    return &usage()->slot[fence_slot(fence_state.process)];
}

uint64_t account_limit(int card)
{
    return __atomic_load_n(&limit_of(card)->memory_bytes, __ATOMIC_RELAXED);
}

/* What allocations may add up to: code, heaps and stacks that only the card knows of are in the share too. */
static uint64_t room(int card)
{
    uint64_t limit = account_limit(card), overhead = atomic_load_explicit(&limit_of(card)->overhead_bytes, memory_order_relaxed);
    return limit > overhead ? limit - overhead : 0;
}

uint64_t account_size(int card, uint64_t bytes)
{
    return ledger_round(bytes, bytes < SMALL_BELOW ? SMALL_UNIT : limit_of(card)->granule_bytes);
}

static uint32_t clear_dead(struct fence_process *process)
{
    return ledger_clear_dead(usage(), process->self.owner, is_dead_process, &process->self);
}

static void nap(int try)
{
    long wanted = (long)(try - TRIES_WITHOUT_NAP) * NAP_STEP_NS;
    struct timespec time = {0, wanted < NAP_MOST_NS ? wanted : NAP_MOST_NS};
    if (wanted <= 0)
        sched_yield();
    else
        nanosleep(&time, NULL);
}

static enum ledger_answer ask(struct fence_process *process, int card, uint64_t bytes, enum ledger_answer before)
{
    uint32_t slot = fence_slot(process);
    if (before == LEDGER_WAITING)
        return ledger_decide(usage(), slot, (uint32_t)card, bytes, room(card));
    return ledger_reserve(usage(), slot, (uint32_t)card, bytes, room(card));
}

/* Tries until it is decided: of racing reservations the first waits until the others withdraw or get their memory. */
static bool is_granted(struct fence_process *process, int card, uint64_t bytes)
{
    enum ledger_answer answer = LEDGER_RACING;
    for (int try = 0; try < TRIES && (answer == LEDGER_RACING || answer == LEDGER_WAITING); try++) {
        if (try)
            nap(try);
        if (try == TRIES_WITHOUT_NAP)
            clear_dead(process); /* one of those may be dead */
        answer = ask(process, card, bytes, answer);
    }
    if (answer == LEDGER_WAITING)
        ledger_cancel(usage(), fence_slot(process), (uint32_t)card, bytes);
    return answer == LEDGER_GRANTED;
}

bool account_try(int card, uint64_t bytes)
{
    struct fence_process *process = fence_ready();
    return process && is_granted(process, card, bytes);
}

uint32_t account_clear_dead(void)
{
    return clear_dead(fence_state.process);
}

void account_count_refusal(int card)
{
    atomic_fetch_add(&fence_slot_device(fence_state.process, (uint32_t)card)->refusals, 1);
}

void account_commit(int card, uint64_t bytes)
{
    struct fence_process *process = fence_state.process;
    atomic_fetch_add(&process->held[card], bytes);
    ledger_commit(usage(), atomic_load(&process->slot), (uint32_t)card, bytes);
}

void account_cancel(int card, uint64_t bytes)
{
    ledger_cancel(usage(), atomic_load(&fence_state.process->slot), (uint32_t)card, bytes);
}

void account_charge(int card, uint64_t bytes)
{
    struct fence_process *process = fence_state.process;
    uint32_t slot = fence_slot(process);
    atomic_fetch_add(&process->held[card], bytes);
    ledger_charge(usage(), slot, (uint32_t)card, bytes);
}

void account_release(int card, uint64_t bytes)
{
    struct fence_process *process = fence_state.process;
    uint32_t slot = fence_slot(process);
    ledger_lower(&process->held[card], bytes);
    ledger_release(usage(), slot, (uint32_t)card, bytes);
}

void account_open_imports(int change)
{
    atomic_fetch_add(&fence_own_slot()->imports, (uint64_t)(int64_t)change);
}

void account_unmapped_imports(int change)
{
    atomic_fetch_add(&fence_own_slot()->unmapped_imports, (uint64_t)(int64_t)change);
}

void account_orphan(int card, uint64_t bytes)
{
    ledger_orphan(usage(), fence_slot(fence_state.process), (uint32_t)card, bytes);
}

void account_import(int card, uint64_t bytes)
{
    atomic_fetch_add(&fence_slot_device(fence_state.process, (uint32_t)card)->imported_bytes, bytes);
}

void account_unimport(int card, uint64_t bytes)
{
    ledger_lower(&fence_slot_device(fence_state.process, (uint32_t)card)->imported_bytes, bytes);
}

void account_contexts(int card, int change)
{
    atomic_fetch_add(&fence_slot_device(fence_state.process, (uint32_t)card)->contexts, (uint32_t)change);
}

uint64_t account_used(int card)
{
    clear_dead(fence_state.process);
    return ledger_used(usage(), (uint32_t)card) + (account_limit(card) - room(card));
}
