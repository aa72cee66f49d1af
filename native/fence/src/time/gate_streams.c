/* The table of the program's streams, found by handle without a lock. */
#include "gate.h"

#include "process/cards.h"
#include "process/real.h"
#include "process/state.h"

#define PROBES 16u

_Atomic(struct gate *) gate_made;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static pthread_key_t thread_key;
static bool has_thread_key;

static void thread_ended(void *thread);

static void make(void)
{
    atomic_store_explicit(&gate_made, fence_process_memory(sizeof(struct gate)), memory_order_release);
    has_thread_key = !pthread_key_create(&thread_key, thread_ended);
}

struct gate *gate_make(void)
{
    pthread_once(&once, make);
    return atomic_load_explicit(&gate_made, memory_order_acquire);
}

/* A usage file that an older agent made has none: then what this process's own streams do at the same time counts once. */
static struct fence_timeline *timeline_of(const struct limiter_card *known, int card)
{
    struct fence_timelines *shared = fence_state.region.timelines;
    if (shared)
        return &shared->device[card];
    return known->timeline ? known->timeline : fence_process_memory(sizeof *known->timeline);
}

struct limiter_card *gate_card(struct gate *g, int card)
{
    struct fence_process *process = fence_state.process;
    if (card < 0 || card >= (int)FENCE_MAX_DEVICES || !process)
        return NULL;
    struct limiter_card *known = &g->card[card];
    uint32_t slot = atomic_load_explicit(&process->slot, memory_order_relaxed) + 1;
    if (__builtin_expect(atomic_load_explicit(&g->known_slot[card], memory_order_acquire) == slot, 1))
        return known;
    pthread_mutex_lock(&g->lock);
    known->limit = &fence_state.region.limits->device[card];
    known->grant = &fence_state.region.grants->device[card];
    known->usage = &fence_state.region.usage->device[card];
    known->slot = fence_slot_device(process, (uint32_t)card);
    known->timeline = timeline_of(known, card);
    atomic_store_explicit(&g->known_slot[card], slot, memory_order_release);
    pthread_mutex_unlock(&g->lock);
    return known;
}

/* One address per thread: the per-thread default streams are as many as threads. */
static __thread char own_thread __attribute__((tls_model("initial-exec")));

static uint64_t key_of(CUstream stream, CUcontext context)
{
    if (stream == CU_STREAM_PER_THREAD)
        return ((uint64_t)(uintptr_t)context ^ (uint64_t)(uintptr_t)&own_thread << 1) | 1;
    return stream == CU_STREAM_LEGACY ? (uint64_t)(uintptr_t)context | 1 : (uint64_t)(uintptr_t)stream;
}

static uint32_t place_of(uint64_t key, uint32_t probe)
{
    return (uint32_t)(key * 0x9e3779b97f4a7c15ull >> 40) + probe;
}

/* Entries of a thread's default streams are given back when it ends. */
static void take_for_thread(struct gate_stream *s)
{
    s->thread = &own_thread;
    if (has_thread_key)
        pthread_setspecific(thread_key, &own_thread);
}

static struct gate_stream *look_up(struct gate *g, uint64_t key)
{
    for (uint32_t probe = 0; probe < PROBES; probe++) {
        struct gate_stream *s = &g->stream[place_of(key, probe) % GATE_STREAMS];
        if (atomic_load_explicit(&s->key, memory_order_acquire) == key)
            return s;
    }
    return NULL;
}

static void mark(struct gate *g, const struct gate_stream *s, bool is_taken)
{
    uint64_t at = (uint64_t)(s - g->stream), bit = 1ull << at % 64;
    if (is_taken)
        atomic_fetch_or(&g->taken[at / 64], bit);
    else
        atomic_fetch_and(&g->taken[at / 64], ~bit);
}

static struct gate_stream *take(struct gate *g, uint64_t key, CUstream stream, CUcontext context, int card)
{
    for (uint32_t probe = 0; probe < PROBES; probe++) {
        struct gate_stream *s = &g->stream[place_of(key, probe) % GATE_STREAMS];
        if (atomic_load(&s->key))
            continue;
        s->stream = stream;
        s->context = context;
        s->card = card;
        s->start = NULL;
        s->is_origin = false;
        s->batches = (struct limiter_stream){.card = &g->card[card]};
        if (stream == CU_STREAM_PER_THREAD)
            take_for_thread(s);
        atomic_store_explicit(&s->key, key, memory_order_release);
        mark(g, s, true);
        return s;
    }
    return NULL;
}

/* What all streams of a card share that found no entry. */
static struct gate_stream *overflow(struct gate *g, int card)
{
    struct gate_stream *s = &g->overflow[card];
    s->card = card;
    s->is_shared = true;
    s->batches.alone = true;
    s->batches.card = &g->card[card];
    return s;
}

static struct gate_stream *enter(struct gate *g, uint64_t key, CUstream stream, CUcontext context)
{
    int card = card_of_stream(stream);
    if (card < 0)
        return NULL;
    pthread_mutex_lock(&g->lock);
    struct gate_stream *s = look_up(g, key);
    if (!s)
        s = take(g, key, stream, context, card);
    if (!s)
        s = overflow(g, card);
    pthread_mutex_unlock(&g->lock);
    return s;
}

struct gate_stream *gate_known(struct gate *g, CUstream stream)
{
    CUcontext context = NULL;
    CUstream named = stream ? stream : CU_STREAM_LEGACY;
    bool is_default = named == CU_STREAM_LEGACY || named == CU_STREAM_PER_THREAD;
    if (is_default && (fence_real.cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context))
        return NULL;
    return look_up(g, key_of(named, context));
}

struct gate_stream *gate_find(struct gate *g, CUstream stream)
{
    CUcontext context = NULL;
    bool is_default = stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
    if (is_default && (fence_real.cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context))
        return NULL;
    uint64_t key = key_of(stream, context);
    struct gate_stream *s = look_up(g, key);
    if (__builtin_expect(s != NULL, 1))
        return s;
    if (!is_default && fence_real.cuStreamGetCtx(stream, &context) != CUDA_SUCCESS)
        return NULL;
    return enter(g, key, stream, context);
}

/* The entry is free again. `is_alive`: its stream still takes an event behind what runs there. */
static void leave(struct gate *g, struct gate_stream *s, bool is_alive)
{
    uint64_t now = fence_now_ns();
    stream_lock_take(&s->lock);
    if (is_alive)
        gate_flush(g, s, now);
    gate_close_unseen(g, s, now);
    gate_origin_ended(g, s);
    mark(g, s, false);
    atomic_store(&s->key, 0);
    stream_lock_leave(&s->lock);
}

/* Runs in the thread itself, but what the driver keeps of the thread may be gone already: it is not asked. */
static void thread_ended(void *thread)
{
    struct gate *g = gate();
    for (uint32_t i = 0; g && i < GATE_STREAMS; i++) {
        struct gate_stream *s = &g->stream[i];
        if (atomic_load(&s->key) && s->stream == CU_STREAM_PER_THREAD && s->thread == thread)
            leave(g, s, false);
    }
}

void gate_stream_ended(CUstream stream)
{
    struct gate *g = gate();
    struct gate_stream *s = g ? look_up(g, (uint64_t)(uintptr_t)stream) : NULL;
    if (s)
        leave(g, s, true);
}

void gate_context_ending(CUcontext context)
{
    struct gate *g = gate();
    for (uint32_t i = 0; g && i < GATE_STREAMS; i++)
        if (atomic_load(&g->stream[i].key) && g->stream[i].context == context)
            leave(g, &g->stream[i], false);
    if (g)
        completion_context_ending(&g->completion, g->card, context);
}

void gate_context_ended(CUcontext context, bool is_over)
{
    struct gate *g = gate();
    if (g)
        completion_context_ended(&g->completion, g->card, context, is_over);
}
