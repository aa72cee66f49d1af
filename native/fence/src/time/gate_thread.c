/* The thread that sees work finished: it closes batches that get no more launches, settles those that are over, and tells the
   arbiter of idle cards. One for each process, started with the first batch. */
#include <linux/futex.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "gate.h"
#include "process/real.h"
#include "process/reentry.h"
#include "process/state.h"

#define STACK_BYTES (256u << 10)

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Only the thread of a nameless stream can ask for more than the mean of what it launched, so it is left the time for that. */
static uint64_t stale_at(const struct gate_stream *s)
{
    bool is_nameless = s->stream == CU_STREAM_PER_THREAD;
    return is_nameless ? s->batches.busy_until_ns + LIMITER_STALE_NS : limiter_stale_at(&s->batches);
}

/* When the open batch of a stream would be stale; closes it if it is. Never waits for a stream that is being launched into. */
static uint64_t close_if_stale(struct gate *g, struct gate_stream *s, uint64_t now)
{
    uint64_t due = COMPLETION_NEVER;
    if (!stream_lock_try(&s->lock))
        return now + LIMITER_STALE_NS;
    if (!limiter_opens(&s->batches))
        due = stale_at(s);
    if (due <= now) {
        gate_flush_stale(g, s, now); /* while a capture is active it is not: the end of the capture rings */
        due = COMPLETION_NEVER;
    }
    stream_lock_leave(&s->lock);
    return due;
}

/* Open batches that get no more launches are settled as predicted. */
static uint64_t close_stale(struct gate *g, uint64_t now)
{
    uint64_t next = COMPLETION_NEVER;
    for (uint32_t word = 0; word < GATE_STREAMS / 64; word++)
        for (uint64_t left = atomic_load(&g->taken[word]); left; left &= left - 1)
            next = sooner(next, close_if_stale(g, &g->stream[word * 64 + (uint32_t)__builtin_ctzll(left)], now));
    return next;
}

static void tell_arbiter(uint32_t idle)
{
    for (uint32_t d = 0; d < FENCE_MAX_DEVICES; d++)
        if (idle & 1u << d)
            fence_ring(FENCE_BELL_DRAINED, d);
}

static uint64_t look(struct gate *g, uint32_t *idle)
{
    uint64_t now = fence_now_ns(), next = close_stale(g, now);
    return sooner(next, completion_look(&g->completion, g->card, now, idle));
}

static void sleep_until(struct completion *h, uint32_t seen, uint64_t at, uint64_t now)
{
    uint64_t ns = at > now ? at - now : 0;
    struct timespec wait = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    atomic_store(&h->sleeping, 1);
    syscall(SYS_futex, &h->bell, FUTEX_WAIT_PRIVATE, seen, at == COMPLETION_NEVER ? NULL : &wait, NULL, 0);
    atomic_store(&h->sleeping, 0);
}

static void *work(void *context)
{
    struct gate *g = context;
    struct completion *h = &g->completion;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* else a capture in global mode forbids us to ask for events */
    fence_inside = 1;
    fence_real.cuThreadExchangeStreamCaptureMode(&mode);
    prctl(PR_SET_NAME, "gpupool-harvest");
    prctl(PR_SET_TIMERSLACK, 1000ul);
    while (!h->ended) {
        uint32_t seen = atomic_load(&h->bell), idle = 0;
        uint64_t next = look(g, &idle);
        tell_arbiter(idle);
        sleep_until(h, seen, next, fence_now_ns());
    }
    return NULL;
}

static void start(struct gate *g)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    if (atomic_exchange(&g->completion.started, true))
        return;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, &attributes, work, g))
        atomic_store(&g->completion.started, false); /* tried again with the next batch */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

void gate_push(struct gate *g, const struct submitted_batch *batch)
{
    completion_push(&g->completion, g->card, batch);
    start(g);
    completion_ring(&g->completion);
}
