/* The machine's lock: a word that names its holder. It outlives a holder that is killed, needs no initialisation and no
   library's private layout (Python makes machine files too), and every process sees which thread holds it: a process must not be
   frozen while it does.

   A robust pthread mutex would hand over faster after a kill, but aborts the program on a damaged file and cannot be made
   without the C library. */
#include "machine_internal.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SOMEBODY_WAITS (1ull << 63)
#define LOOK_NS 1000000ull /* so often is looked whether the holder lives */
#define PATIENCE_NS 3000000000ull /* with a holder in another pid namespace */
#define SPINS 200

uint64_t sim_monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* FUTEX_WAIT_BITSET takes the moment, not the time to it; futex(2). */
void sim_futex_wait(const _Atomic uint32_t *word, uint32_t value, uint64_t until_ns)
{
    struct timespec until = {(time_t)(until_ns / 1000000000ull), (long)(until_ns % 1000000000ull)};
    int before = errno;
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value, &until, NULL, FUTEX_BITSET_MATCH_ANY);
    errno = before;
}

void sim_futex_wake(const _Atomic uint32_t *word, int count)
{
    int before = errno;
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
    errno = before;
}

/* The half with the thread's number is what is slept on; little-endian, as the file is. */
static const _Atomic uint32_t *upper_half(const _Atomic uint64_t *lock)
{
    return (const _Atomic uint32_t *)lock + 1;
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool take(_Atomic uint64_t *lock, uint64_t seen, uint64_t mine)
{
    return atomic_compare_exchange_strong_explicit(lock, &seen, mine, memory_order_acquire, memory_order_relaxed);
}

static bool take_soon(_Atomic uint64_t *lock, uint64_t mine)
{
    for (int i = 0; i < SPINS; i++) {
        if (!atomic_load_explicit(lock, memory_order_relaxed) && take(lock, 0, mine))
            return true;
        relax();
    }
    return false;
}

/* Sleep until the holder lets go or it is time to look after it. */
static void sleep_on(_Atomic uint64_t *lock, uint64_t seen)
{
    if (!(seen & SOMEBODY_WAITS) && !take(lock, seen, seen | SOMEBODY_WAITS))
        return;
    sim_futex_wait(upper_half(lock), (uint32_t)((seen | SOMEBODY_WAITS) >> 32), sim_monotonic_ns() + LOOK_NS);
}

/* The lock is held for some milliseconds at most, so a holder that cannot be looked at is given up after much more. */
static bool is_lost(uint64_t holder, uint64_t since_ns)
{
    if (sim_thread_is_foreign(holder))
        return sim_monotonic_ns() - since_ns > PATIENCE_NS;
    return sim_thread_is_gone(holder);
}

static bool acquire_slowly(_Atomic uint64_t *lock, uint64_t mine)
{
    uint64_t looked_at = 0, since_ns = 0;
    for (;;) {
        uint64_t seen = atomic_load_explicit(lock, memory_order_relaxed);
        uint64_t holder = seen & ~SOMEBODY_WAITS;
        if (!seen && take(lock, 0, mine | SOMEBODY_WAITS))
            return false;
        if (seen && holder == looked_at && is_lost(holder, since_ns) && take(lock, seen, mine | SOMEBODY_WAITS))
            return true;
        if (holder != looked_at)
            since_ns = sim_monotonic_ns();
        looked_at = holder;
        if (seen)
            sleep_on(lock, seen);
    }
}

bool sim_acquire(struct sim_header *header)
{
    uint64_t mine = sim_own_thread();
    if (take(&header->lock, 0, mine) || take_soon(&header->lock, mine))
        return false;
    return acquire_slowly(&header->lock, mine);
}

void sim_release_lock(struct sim_header *header)
{
    if (atomic_exchange_explicit(&header->lock, 0, memory_order_release) & SOMEBODY_WAITS)
        sim_futex_wake(upper_half(&header->lock), 1);
}

static void start_engine(struct sim *sim, uint64_t now)
{
    const struct sim_header *h = &sim->machine->header;
    struct engine_config config = {h->mode, h->cards, h->slice_ns, h->switch_ns};
    engine_init(&sim->machine->engine, &config, now);
}

struct engine *sim_lock(struct sim *sim)
{
    struct sim_header *header = &sim->machine->header;
    struct engine *engine = &sim->machine->engine;
    if (sim_acquire(header)) {
        atomic_fetch_add(&header->repairs, 1);
        engine_repair(engine);
    }
    if (!engine->ready)
        start_engine(sim, sim_now(sim));
    engine_advance(engine, sim_now(sim));
    if (atomic_load(&header->faults) != header->faults_handled)
        sim_handle_faults(sim);
    return engine;
}

void sim_unlock(struct sim *sim)
{
    sim_release_lock(&sim->machine->header);
}
