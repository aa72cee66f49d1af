/* Compute sharing on virtual time: limiter.c and arbitrate.c as they ship, on the simulated card's engine.c, in one
   discrete-event program. What is modelled here is what lies between them: host threads that launch, the completion thread, messages
   and wake-ups with their delays. Reads a scenario from stdin, prints what the card really did as one line of JSON.

     card slice_us=2000 switch_us=0
     delay launch_ns=4000 event_ns=1000 completion_us=30 message_us=30 wake_us=40 death_us=1000
     tenant NAME milli=300 sharing=fixed|burst|best-effort|offline weight=1 priority=0 processes=1 offset=0 start_ms=0 work=k20us*50,s
     at MS kill NAME | stop NAME MS | arbiter off|on | milli NAME N | begin NAME | end NAME | lie NAME N (see `enum lie`)
     run MS

   Work, repeated for ever: kDURATION kernel, gDURATION graph, hDURATION host does something else, s waits for the stream, tN goes on
   in stream N; v one kernel whose every launch has another length under one key (options `lengths` and `draw` of the tenant); p waits
   for the stream as a program does that looks at its own flag in memory: the fence does not see it. *N repeats. Durations take us or
   ms; each launch varies by `jitter` permille (tenant option, default 100). */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decision/arbitrate.h"
#include "engine/engine.h"
#include "limiter/gpu_clock.h"
#include "limiter/limiter.h"
#include "limiter/timeline.h"

enum { TENANTS = 16, PROCESSES = 32, STREAMS = 4, OPS = 64, FIFO = 4096, SAMPLE_MS = 10, ORDERS = 32, LENGTHS = 64, LIAR_RINGS_NS = 100000, ASKED_MS = 400, LEARNT_MS = 500 };

enum op_kind { OP_KERNEL, OP_GRAPH, OP_HOST, OP_SYNC, OP_STREAM, OP_VARIED, OP_POLL };

/* Which of a tenant's lengths a launch of `v` takes: in turn; any; anywhere between the two; the one that was not predicted. */
enum draw { DRAW_CYCLE, DRAW_ANY, DRAW_BETWEEN, DRAW_CONTRARY };

struct op {
    enum op_kind kind;
    uint64_t ns; /* or the stream's number */
    uint32_t times;
};

enum lie { HONEST, LIE_ANYTHING, LIE_STANDS_STILL, LIE_GROWS };

struct tenant {
    char name[24];
    struct fence_device_limit limit;
    struct fence_grant grant;
    struct fence_usage_device usage;
    struct arb_member member;
    struct op op[OPS];
    uint32_t ops, processes, jitter, lengths;
    uint64_t length[LENGTHS];
    enum draw draw;
    struct fence_timeline timeline;
    uint64_t start_ns, gone_ns; /* gone_ns: used by contexts that are destroyed */
    uint64_t longest_wait_ns;   /* of one launch, LEARNT_MS after its start or later */
    bool joined, paused;
    bool own_grants; /* its processes believe in a page of their own, which allows everything, and tell the truth */
    enum lie lies; /* what the arbiter reads of it is nonsense, and it rings all the time */
};

struct batch {
    struct limiter_batch it;
    bool timed;
    int start, end;
    struct engine_ticket done;
    uint32_t stream;
    bool settling;
};

enum state { ABSENT, RUNNING, BLOCKED, SYNCING, DEAD };

struct process {
    struct tenant *tenant;
    struct limiter_card card;
    struct fence_slot_device slot;
    struct limiter_stream stream[STREAMS];
    int engine_stream[STREAMS], start_event[STREAMS];
    struct gpu_clock clock;
    int64_t clock_off; /* of the context's GPU time */
    struct batch fifo[FIFO];
    uint32_t head, tail; /* of the fifo, ever growing */
    int spare[FIFO], spares;
    int context;
    enum state state;
    uint32_t at, repeated, current, drawn;
    uint64_t next_length; /* of the launch to come; 0: not drawn */
    uint64_t random_state; /* its own: what a launch draws does not depend on when it comes, nor on who else draws */
    uint64_t blocked_ns, idle_since, stopped_until, serial, waits_since;
    bool step_pending, rang;
};

enum event_kind { EV_STEP, EV_COMPLETION, EV_TELL, EV_TAIL, EV_ARRIVE, EV_ARBITER, EV_SAMPLE, EV_ORDER, EV_BEGIN };

struct event {
    uint64_t at, order;
    enum event_kind kind;
    struct process *process;
    uint64_t serial;
};

struct order {
    uint64_t at;
    char verb[12], name[24];
    double number;
};

static struct engine *engine;
static struct tenant tenants[TENANTS];
static struct process *processes[PROCESSES];
static uint32_t tenant_count, process_count, order_count;
static struct order orders[ORDERS];
static struct arb_card arbiter;
static bool arbiter_off, is_asked; /* is_asked: for its accounts, by the agent; for tenants that never ring */
static uint64_t now, end_ns, arbiter_serial, events_made, random_state = 88172645463325252ull;
static uint64_t slice_us = 2000, switch_us, launch_ns = 4000, event_ns = 1000, completion_us = 30, message_us = 30, wake_us = 40, death_us = 1000,
                query_ns = 300;
static uint64_t messages, arbitrations, records, queries, launches;

static void fail(const char *what, const char *text)
{
    fprintf(stderr, "fence_compute_sim: %s: %s\n", what, text);
    exit(2);
}

/* --- the queue of events: a binary heap, equal times in order of arrival --- */

static struct event *heap;
static size_t heap_count, heap_room;

static bool sooner(const struct event *a, const struct event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void swap(size_t a, size_t b)
{
    struct event kept = heap[a];
    heap[a] = heap[b];
    heap[b] = kept;
}

static void schedule(uint64_t at, enum event_kind kind, struct process *process, uint64_t serial)
{
    if (heap_count == heap_room) {
        heap_room = heap_room ? heap_room * 2 : 1024;
        heap = realloc(heap, heap_room * sizeof *heap);
        if (!heap)
            fail("memory", "none");
    }
    size_t i = heap_count++;
    heap[i] = (struct event){at > now ? at : now, ++events_made, kind, process, serial};
    for (; i && sooner(&heap[i], &heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(i, (i - 1) / 2);
}

static struct event pop(void)
{
    struct event top = heap[0];
    heap[0] = heap[--heap_count];
    for (size_t i = 0;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2; child++)
            if (child < heap_count && sooner(&heap[child], &heap[least]))
                least = child;
        if (least == i)
            return top;
        swap(i, least);
        i = least;
    }
}

static void step_at(struct process *p, uint64_t at)
{
    p->serial++;
    schedule(at, EV_STEP, p, p->serial);
}

/* --- the arbiter's surroundings --- */

static void arbitrate_soon(uint64_t at)
{
    schedule(at, EV_ARBITER, NULL, ++arbiter_serial);
}

static void ring(struct process *p)
{
    messages++;
    schedule(now + message_us * 1000, EV_ARRIVE, p, 0);
}

static uint64_t next_of(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t chance(void)
{
    return next_of(&random_state);
}

/* Any words at all; work in flight that never ends and more that waits; a claim that grows. */
static void make_up(struct tenant *t)
{
    struct arb_seen *seen = &t->member.seen;
    if (t->lies == LIE_ANYTHING) {
        *seen = (struct arb_seen){chance() >> chance() % 64, chance() >> chance() % 64, (uint32_t)(chance() % 5)};
    } else {
        seen->charged_ns += t->lies == LIE_GROWS ? chance() % 10000000 : 0;
        seen->inflight_ns = 1000000;
        seen->waiters = 1;
    }
    t->member.deaf = false;
}

static void look(struct tenant *t)
{
    if (t->lies) {
        make_up(t);
        return;
    }
    struct arb_seen seen = {.charged_ns = t->usage.charged_ns};
    for (uint32_t i = 0; i < process_count; i++) {
        const struct process *p = processes[i];
        if (p->tenant != t || p->state == DEAD || p->state == ABSENT)
            continue;
        seen.inflight_ns += p->slot.inflight_ns;
        seen.waiters += p->slot.waiters;
    }
    t->member.seen = seen;
}

static void unblock(struct process *p, uint64_t delay)
{
    if (p->state == BLOCKED && !p->step_pending) {
        p->step_pending = true;
        step_at(p, now + delay);
    }
}

static void publish(struct tenant *t)
{
    struct arb_word *word = &t->member.word;
    t->grant.granted_ns = word->granted_ns;
    t->grant.lease_until_ns = word->lease_until_ns;
    t->grant.window_ns = word->window_ns;
    t->grant.holder = (uint32_t)word->holding;
    t->grant.beat_ns = now;
    if (!word->wake)
        return;
    word->wake = false;
    for (uint32_t i = 0; i < process_count; i++)
        if (processes[i]->tenant == t) {
            processes[i]->rang = false;
            unblock(processes[i], wake_us * 1000);
        }
}

static struct arb_limits limits_of(const struct tenant *t)
{
    return (struct arb_limits){t->limit.gpu_milli, t->limit.sharing, t->limit.weight, t->limit.priority};
}

static void arbitrate(void)
{
    if (arbiter_off)
        return;
    arbitrations++;
    for (uint32_t i = 0; i < tenant_count; i++)
        look(&tenants[i]);
    uint64_t next = arb_run(&arbiter, now);
    for (uint32_t i = 0; i < tenant_count; i++) {
        publish(&tenants[i]);
        if (tenants[i].lies && next > now + LIAR_RINGS_NS)
            next = now + LIAR_RINGS_NS;
    }
    arbiter_serial++;
    if (next != ARB_NEVER)
        arbitrate_soon(next);
}

/* As the program does: a new arbiter takes the regions as it finds them. */
static void arbiter_starts(void)
{
    arbiter_off = false;
    arbiter = (struct arb_card){0};
    for (uint32_t i = 0; i < tenant_count; i++) {
        look(&tenants[i]);
        arb_join(&arbiter, &tenants[i].member, limits_of(&tenants[i]), tenants[i].member.seen, now);
    }
    for (uint32_t i = 0; i < process_count; i++)
        limiter_rejoin(&processes[i]->card);
    arbitrate();
}

/* --- a process: batches, their events, what is finished --- */

static int event_of(struct process *p)
{
    if (p->spares)
        return p->spare[--p->spares];
    int event = engine_event_create(engine, (uint32_t)p->context);
    if (event < 0)
        fail("engine_event_create", "no event left");
    return event;
}

static struct engine_ticket record(struct process *p, uint32_t stream, int event)
{
    struct engine_work work = {.kind = ENGINE_RECORD, .event = (uint32_t)event};
    struct engine_ticket ticket = {0};
    records++;
    if (engine_submit(engine, (uint32_t)p->context, (uint32_t)p->engine_stream[stream], &work, now, &ticket))
        fail("engine_submit", "a record was refused");
    return ticket;
}

static void close_batch(struct process *p, uint32_t stream, enum limiter_close how)
{
    if (how == LIMITER_KEEP)
        return;
    struct batch *b = &p->fifo[p->tail++ % FIFO];
    if (p->tail - p->head > FIFO)
        fail("fifo", "full");
    *b = (struct batch){.it = limiter_take(&p->stream[stream], now), .timed = how == LIMITER_CLOSE_TIMED, .stream = stream};
    b->start = p->start_event[stream];
    b->end = event_of(p);
    if (b->timed)
        b->done = record(p, stream, b->end);
    else
        schedule(now + completion_us * 1000, EV_COMPLETION, p, p->tail - 1);
}

/* As cuStreamQuery answers. */
static bool is_busy(const struct process *p, uint32_t stream)
{
    const struct engine_stream *queue = &engine->context[p->context].stream[p->engine_stream[stream]];
    queries++;
    return queue->submitted != queue->completed;
}

static void flush(struct process *p, uint32_t stream)
{
    if (!limiter_opens(&p->stream[stream]))
        close_batch(p, stream, limiter_flush(&p->stream[stream], is_busy(p, stream), now));
}

static void flush_all(struct process *p)
{
    for (uint32_t s = 0; s < STREAMS; s++)
        flush(p, s);
}

/* It is asked for again and again until now. */
static uint64_t seen_at(uint64_t happened)
{
    static uint64_t state = 88172645463325253ull;
    uint64_t at = happened + next_of(&state) % (completion_us * 1000 + 1);
    return at < now ? at : now;
}

/* As the context counts it: from its own beginning, at its own pace. */
static int64_t gpu_time(const struct process *p, int event)
{
    int64_t ns = (int64_t)engine_event_ns(engine, (uint32_t)p->context, (uint32_t)event);
#ifdef EXACT
    return ns;
#endif
    return ns + ns / 50000 + p->clock_off;
}

static void note_others(struct process *p)
{
    for (uint32_t i = 0; i < process_count; i++)
        if (processes[i] != p && processes[i]->tenant == p->tenant && processes[i]->slot.inflight_ns)
            p->card.contended_ns = now;
}

static void settle(struct process *p, struct batch *b)
{
    uint64_t used;
    if (b->timed) {
        int64_t from = gpu_time(p, b->start), to = gpu_time(p, b->end);
        gpu_clock_recorded(&p->clock, from, b->it.opened_ns);
        gpu_clock_seen(&p->clock, to, seen_at(engine_event_ns(engine, (uint32_t)p->context, (uint32_t)b->end)));
        bool is_contended = limiter_is_contended(&p->card, now);
#ifdef EXACT
        p->clock = (struct gpu_clock){.is_set = true};
#endif
        uint64_t began = gpu_clock_host(&p->clock, from, is_contended), ended = gpu_clock_host(&p->clock, to, is_contended);
        used = timeline_use(p->card.timeline, &b->it, began, ended, now);
        limiter_note_measurement(&p->card.predictions, &b->it, (uint64_t)(to - from), used);
    } else {
        uint64_t ended = b->it.opened_ns + b->it.used_ns + b->it.idle_ns;
        used = timeline_use(p->card.timeline, &b->it, b->it.opened_ns, ended, now);
    }
    p->spare[p->spares++] = b->start;
    p->spare[p->spares++] = b->end;
    limiter_settle(&p->card, &b->it, used);
    note_others(p);
}

static bool is_over(const struct batch *b)
{
    return !b->timed || engine_done(engine, &b->done);
}

static void tell_when_idle(struct process *p)
{
    uint64_t at = limiter_notify_at(&p->card, p->idle_since);
    if (at && p->state != DEAD)
        schedule(at, EV_TELL, p, p->idle_since);
}

static void settle_finished(struct process *p)
{
    bool any = false;
    for (; p->head != p->tail && is_over(&p->fifo[p->head % FIFO]); p->head++, any = true)
        settle(p, &p->fifo[p->head % FIFO]);
    if (!any)
        return;
    unblock(p, wake_us * 1000);
    if (p->slot.inflight_ns == 0) {
        p->idle_since = now;
        tell_when_idle(p);
    }
}

/* The engine went on: who has a batch that is done, or waits for a stream that is? */
static void notice(struct process *p)
{
    if (p->state == DEAD || p->state == ABSENT)
        return;
    if (p->head != p->tail) {
        struct batch *b = &p->fifo[p->head % FIFO];
        if (!b->settling && is_over(b)) {
            b->settling = true;
            schedule(now + completion_us * 1000, EV_COMPLETION, p, p->head);
        }
    }
    if (p->state == SYNCING && engine_idle(engine, (uint32_t)p->context)) {
        p->state = RUNNING;
        step_at(p, now + wake_us * 1000);
    }
}

/* --- a process: its host thread --- */

static uint64_t varied(struct process *p, uint64_t ns)
{
    uint64_t drawn = next_of(&p->random_state);
    int64_t spread = (int64_t)(ns * p->tenant->jitter / 1000);
    return spread ? (uint64_t)((int64_t)ns - spread + (int64_t)(drawn % (uint64_t)(2 * spread + 1))) : ns;
}

static uint64_t draw(struct process *p, uint64_t predicted)
{
    const struct tenant *t = p->tenant;
    switch (t->draw) {
    case DRAW_ANY:
        return t->length[next_of(&p->random_state) % t->lengths];
    case DRAW_BETWEEN:
        return t->length[0] + next_of(&p->random_state) % (t->length[1] - t->length[0] + 1);
    case DRAW_CONTRARY:
        return predicted < (t->length[0] + t->length[1]) / 2 ? t->length[1] : t->length[0];
    case DRAW_CYCLE:
        break;
    }
    return t->length[p->drawn++ % t->lengths];
}

static void next_op(struct process *p)
{
    p->next_length = 0;
    if (++p->repeated < p->tenant->op[p->at].times)
        return;
    p->repeated = 0;
    p->at = (p->at + 1) % p->tenant->ops;
}

static void block(struct process *p, enum limiter_verdict verdict)
{
    flush_all(p);
    if (p->state != BLOCKED) {
        p->rang = false;
        p->state = BLOCKED;
        p->blocked_ns = now;
        p->slot.waiters = 1;
    }
    if (p->slot.inflight_ns == 0)
        tell_when_idle(p);
    if (atomic_load(&p->card.alone_since_ns)) {
        step_at(p, limiter_static_next(&p->card, now));
        return;
    }
    uint64_t again = now + 20000000;
    if (verdict == LIMITER_WAIT_GRANT && !p->rang) {
        uint64_t at = limiter_ring_at(&p->card, now);
        p->rang = at == 0;
        again = at ? at : again;
        if (p->rang)
            ring(p);
    }
    step_at(p, again);
}

/* Tries the launch again after a wait; whether the arbiter is there is asked only here. */
static void come_back(struct process *p)
{
    if (!atomic_load(&p->card.alone_since_ns) && limiter_arbiter_lost(&p->card, p->blocked_ns, now))
        limiter_go_alone(&p->card, now);
}

static void submit(struct process *p, const struct op *op, const struct limiter_cost *cost)
{
    struct limiter_stream *stream = &p->stream[p->current];
    uint64_t before = records, asked = queries;
    if (limiter_needs_query(stream, cost, now))
        limiter_note_query(stream, is_busy(p, p->current), now);
    close_batch(p, p->current, limiter_before(stream, cost, now));
    if (limiter_opens(stream)) {
        p->start_event[p->current] = event_of(p);
        record(p, p->current, p->start_event[p->current]);
    }
    struct engine_work work = {.kind = op->kind == OP_GRAPH ? ENGINE_GRAPH : ENGINE_KERNEL,
                               .duration_ns = op->kind == OP_VARIED ? p->next_length : varied(p, op->ns),
                               .launches = 1};
    if (engine_submit(engine, (uint32_t)p->context, (uint32_t)p->engine_stream[p->current], &work, now, NULL))
        fail("engine_submit", "a kernel was refused");
    launches++;
    close_batch(p, p->current, limiter_after(stream, cost, now));
    if (!limiter_opens(stream))
        schedule(limiter_stale_at(stream) + completion_us * 1000, EV_TAIL, p, p->current);
    next_op(p);
    step_at(p, now + launch_ns + (records - before) * event_ns + (queries - asked) * query_ns);
}

static void note_wait(struct process *p, uint64_t waited)
{
    bool learnt = now >= 1000000000 + p->tenant->start_ns + LEARNT_MS * 1000000ull; /* the clock began at 1 s */
    p->slot.wait_ns += waited;
    if (learnt && waited > p->tenant->longest_wait_ns)
        p->tenant->longest_wait_ns = waited;
}

static void launch(struct process *p, const struct op *op)
{
    const struct engine_stream *queue = &engine->context[p->context].stream[p->engine_stream[p->current]];
    if (queue->queued + 8u > ENGINE_QUEUE || engine->context[p->context].queued + 16 > ENGINE_ITEMS) {
        step_at(p, now + 50000); /* the driver would block here */
        return;
    }
    uint64_t what = op->kind == OP_VARIED ? OPS + 1 : p->at + 1; /* one kernel wherever it stands in the work */
    struct limiter_cost cost;
    limiter_predict(&p->card.predictions, limiter_key(what, 1), &cost);
    if (op->kind == OP_VARIED && !p->next_length)
        p->next_length = draw(p, cost.predicted_ns);
    if (p->state == BLOCKED)
        come_back(p);
    enum limiter_verdict verdict = limiter_pass(&p->stream[p->current], &cost, now);
    if (verdict != LIMITER_GO) {
        block(p, verdict);
        return;
    }
    if (p->state == BLOCKED) {
        note_wait(p, now - p->blocked_ns);
        p->slot.waiters = 0;
        p->state = RUNNING;
    }
    submit(p, op, &cost);
}

static void after_wait(struct process *p)
{
    for (uint32_t s = 0; p->waits_since && s < STREAMS; s++) {
        uint64_t off = limiter_note_wait(&p->stream[s], p->waits_since, now);
        if (off)
            limiter_doubt(&p->card.predictions, p->stream[s].open.key, off);
    }
    if (p->waits_since)
        limiter_note_all_idle(&p->card, now);
    p->waits_since = 0;
}

static void step(struct process *p)
{
    const struct op *op = &p->tenant->op[p->at];
    p->step_pending = false;
    if (p->state == RUNNING)
        after_wait(p);
    if (p->state == DEAD || p->state == SYNCING)
        return;
    if (p->tenant->paused) { /* its thread waits for something else now */
        p->state = RUNNING;
        p->slot.waiters = 0;
        return;
    }
    if (now < p->stopped_until) {
        step_at(p, p->stopped_until);
        return;
    }
    switch (op->kind) {
    case OP_KERNEL:
    case OP_GRAPH:
    case OP_VARIED:
        launch(p, op);
        return;
    case OP_HOST:
        next_op(p);
        step_at(p, now + varied(p, op->ns));
        return;
    case OP_STREAM:
        p->current = (uint32_t)op->ns % STREAMS;
        next_op(p);
        step_at(p, now);
        return;
    case OP_SYNC:
        p->waits_since = now;
        for (uint32_t s = 0; s < STREAMS; s++)
            if (limiter_flushes_before_wait(&p->stream[s], now))
                flush(p, s);
        /* fall through */
    case OP_POLL:
        next_op(p);
        p->state = SYNCING;
        notice(p);
        return;
    }
}

/* --- the run --- */

static struct fence_grant everything = {.granted_ns = UINT64_MAX / 2, .window_ns = 1000000000, .lease_until_ns = UINT64_MAX / 2,
                                        .holder = FENCE_HOLDING, .beat_ns = UINT64_MAX / 2};

static void begin(struct process *p)
{
    p->context = engine_context_create(engine, 0, (uint64_t)(uintptr_t)p, now);
    if (p->context < 0)
        fail("engine_context_create", "refused");
    for (uint32_t s = 0; s < STREAMS; s++)
        p->engine_stream[s] = engine_stream_create(engine, (uint32_t)p->context, ENGINE_NON_BLOCKING, 0);
    p->card.limit = &p->tenant->limit;
    p->card.grant = p->tenant->own_grants ? &everything : &p->tenant->grant;
    p->card.usage = &p->tenant->usage;
    p->card.slot = &p->slot;
    p->card.timeline = &p->tenant->timeline;
    p->clock_off = (int64_t)(p->random_state % 1000000000000) - 500000000000;
    for (uint32_t s = 0; s < STREAMS; s++)
        p->stream[s].card = &p->card;
    p->state = RUNNING;
    step_at(p, now);
}

static void kill_process(struct process *p)
{
    if (p->state == DEAD || p->state == ABSENT)
        return;
    engine_advance(engine, now);
    p->tenant->gone_ns += engine->context[p->context].gpu_ns;
    engine_context_destroy(engine, (uint32_t)p->context, now);
    p->state = DEAD;
    schedule(now + death_us * 1000, EV_ARRIVE, p, 0);
}

static void obey(const struct order *order)
{
    if (!strcmp(order->verb, "arbiter")) {
        if (!strcmp(order->name, "on"))
            arbiter_starts();
        else
            arbiter_off = true;
        return;
    }
    for (uint32_t i = 0; i < tenant_count; i++)
        if (!strcmp(tenants[i].name, order->name) && !strcmp(order->verb, "lie")) {
            tenants[i].lies = (enum lie)order->number;
            arbitrate();
        } else if (!strcmp(tenants[i].name, order->name) && !strcmp(order->verb, "milli")) {
            tenants[i].limit.gpu_milli = (uint32_t)order->number;
            arb_resize(&tenants[i].member, limits_of(&tenants[i]));
        }
    for (uint32_t i = 0; i < process_count; i++) {
        struct process *p = processes[i];
        if (strcmp(p->tenant->name, order->name))
            continue;
        if (!strcmp(order->verb, "kill"))
            kill_process(p);
        else if (!strcmp(order->verb, "stop"))
            p->stopped_until = now + (uint64_t)(order->number * 1e6);
        else if (!strcmp(order->verb, "end"))
            p->tenant->paused = true;
        else if (!strcmp(order->verb, "begin") && p->tenant->paused) {
            p->tenant->paused = false;
            step_at(p, now);
        }
    }
}

static uint64_t used_by(const struct tenant *t)
{
    uint64_t used = t->gone_ns;
    for (uint32_t i = 0; i < process_count; i++)
        if (processes[i]->tenant == t && processes[i]->state != DEAD && processes[i]->state != ABSENT)
            used += engine->context[processes[i]->context].gpu_ns;
    return used;
}

static uint64_t *samples;
/* What the arbiter's account of a tenant says. */
struct said {
    int64_t owns_ns; /* negative: owes */
    uint64_t paid_ns, flight_ns, alone_ns, ungranted_ns;
};

static struct said *accounts;
static uint32_t sample_count;

static void sample(void)
{
    for (uint32_t i = 0; i < tenant_count; i++)
    {
        const struct arb_member *m = &tenants[i].member;
        samples[sample_count * tenant_count + i] = used_by(&tenants[i]);
        accounts[sample_count * tenant_count + i] =
            (struct said){arb_owns(&arbiter, m), m->paid_ns, arb_flight(&arbiter, m), m->alone_ns, m->ungranted.total_ns};
    }
    sample_count++;
    if (is_asked && sample_count % (ASKED_MS / SAMPLE_MS) == 0)
        arbitrate();
    schedule(now + SAMPLE_MS * 1000000ull, EV_SAMPLE, NULL, 0);
}

/* A paused host thread leaves its last batch open; the completion thread closes it when it is due. */
static void tail(struct process *p, uint32_t stream)
{
    struct limiter_stream *s = &p->stream[stream];
    if (p->state == DEAD || limiter_opens(s))
        return;
    if (now >= limiter_stale_at(s))
        flush(p, stream);
    else
        schedule(limiter_stale_at(s) + completion_us * 1000, EV_TAIL, p, stream); /* a wait moved it */
}

static void handle(const struct event *e)
{
    struct process *p = e->process;
    bool alive = p && p->state != DEAD;
    if (alive && now < p->stopped_until && (e->kind == EV_COMPLETION || e->kind == EV_TELL || e->kind == EV_TAIL)) {
        schedule(p->stopped_until, e->kind, p, e->serial);
        return;
    }
    switch (e->kind) {
    case EV_STEP:
        if (e->serial == p->serial)
            step(p);
        return;
    case EV_COMPLETION:
        if (alive)
            settle_finished(p);
        return;
    case EV_TELL:
        if (alive && p->idle_since == e->serial && limiter_notify_at(&p->card, p->idle_since))
            ring(p);
        return;
    case EV_TAIL:
        tail(p, (uint32_t)e->serial);
        return;
    case EV_ARRIVE:
        if (!alive)
            p->slot = (struct fence_slot_device){0};
        p->tenant->member.deaf = false;
        arbitrate();
        return;
    case EV_ARBITER:
        if (e->serial == arbiter_serial)
            arbitrate();
        return;
    case EV_SAMPLE:
        sample();
        return;
    case EV_ORDER:
        obey(&orders[e->serial]);
        return;
    case EV_BEGIN:
        begin(p);
        return;
    }
}

static void run(void)
{
    while (now < end_ns) {
        uint64_t at = engine_next_event(engine);
        bool mine = heap_count && heap[0].at <= at;
        if (!mine && at == ENGINE_NEVER)
            break;
        now = mine ? heap[0].at : at;
        engine_advance(engine, now);
        if (mine) {
            struct event e = pop();
            handle(&e);
        }
        for (uint32_t i = 0; i < process_count; i++)
            notice(processes[i]);
    }
}

/* --- scenario in, figures out --- */

static double option(const char *line, const char *name, double otherwise)
{
    char wanted[32];
    snprintf(wanted, sizeof wanted, " %s=", name);
    const char *found = strstr(line, wanted);
    return found ? strtod(found + strlen(wanted), NULL) : otherwise;
}

static uint64_t read_duration(const char *text, char **rest)
{
    double number = strtod(text, rest);
    double unit = !strncmp(*rest, "us", 2) ? 1e3 : !strncmp(*rest, "ms", 2) ? 1e6 : 1;
    *rest += unit > 1 ? 2 : 0;
    return (uint64_t)(number * unit);
}

static void read_work(struct tenant *t, const char *line)
{
    const char *text = strstr(line, " work=");
    if (!text)
        fail("no work", line);
    for (text += 6; *text && *text != ' ' && *text != '\n'; text += *text == ',') {
        static const char kinds[] = "kghstvp";
        const char *kind = strchr(kinds, *text);
        if (!kind || !*kind || t->ops == OPS)
            fail("work", text);
        struct op *op = &t->op[t->ops++];
        char *rest;
        op->kind = (enum op_kind)(kind - kinds);
        op->ns = read_duration(text + 1, &rest);
        op->times = *rest == '*' ? (uint32_t)strtoul(rest + 1, &rest, 10) : 1;
        text = rest;
    }
}

static void read_lengths(struct tenant *t, const char *line)
{
    const char *text = strstr(line, " lengths="), *how = strstr(line, " draw=");
    char *rest;
    for (text = text ? text + 9 : ""; *text && *text != ' ' && *text != '\n' && t->lengths < LENGTHS; text = rest + (*rest == '/'))
        t->length[t->lengths++] = read_duration(text, &rest);
    how = how ? how + 6 : "cycle";
    t->draw = !strncmp(how, "any", 3)        ? DRAW_ANY
              : !strncmp(how, "between", 7)  ? DRAW_BETWEEN
              : !strncmp(how, "contrary", 8) ? DRAW_CONTRARY
                                             : DRAW_CYCLE;
}

static void read_tenant(const char *line)
{
    struct tenant *t = &tenants[tenant_count];
    char sharing[16] = "fixed";
    const char *found = strstr(line, " sharing=");
    if (tenant_count++ == TENANTS || sscanf(line, "tenant %23s", t->name) != 1)
        fail("tenant", line);
    if (found)
        sscanf(found, " sharing=%15s", sharing);
    t->limit.sharing = !strcmp(sharing, "fixed")     ? FENCE_FIXED
                       : !strcmp(sharing, "burst")   ? FENCE_BURST
                       : !strcmp(sharing, "offline") ? FENCE_OFFLINE
                                                     : FENCE_BEST_EFFORT;
    t->limit.gpu_milli = (uint32_t)option(line, "milli", 0);
    t->limit.weight = (uint32_t)option(line, "weight", 1);
    t->limit.priority = (int32_t)option(line, "priority", 0);
    t->limit.duty_offset_milli = (uint32_t)option(line, "offset", 0);
    t->processes = (uint32_t)option(line, "processes", 1);
    t->own_grants = option(line, "own_grants", 0) != 0;
    is_asked = is_asked || t->own_grants;
    t->jitter = (uint32_t)option(line, "jitter", 100);
    t->start_ns = (uint64_t)(option(line, "start_ms", 0) * 1e6);
    read_lengths(t, line);
    read_work(t, line);
    for (uint32_t i = 0; i < t->processes; i++) {
        if (process_count == PROCESSES || !(processes[process_count] = calloc(1, sizeof **processes)))
            fail("processes", line);
        processes[process_count]->tenant = t;
        processes[process_count]->random_state = random_state + (process_count + 1) * 0x9e3779b97f4a7c15ull;
        process_count++;
    }
}

static void read_order(const char *line)
{
    struct order *o = &orders[order_count];
    double ms;
    if (order_count++ == ORDERS || sscanf(line, "at %lf %11s %23s %lf", &ms, o->verb, o->name, &o->number) < 3)
        fail("order", line);
    o->at = (uint64_t)(ms * 1e6);
}

static void read_line(const char *line)
{
    if (!strncmp(line, "tenant ", 7))
        read_tenant(line);
    else if (!strncmp(line, "at ", 3))
        read_order(line);
    else if (!strncmp(line, "run ", 4))
        end_ns = (uint64_t)(strtod(line + 4, NULL) * 1e6);
    else if (!strncmp(line, "card", 4)) {
        slice_us = (uint64_t)option(line, "slice_us", (double)slice_us);
        switch_us = (uint64_t)option(line, "switch_us", (double)switch_us);
    } else if (!strncmp(line, "delay", 5)) {
        launch_ns = (uint64_t)option(line, "launch_ns", (double)launch_ns);
        event_ns = (uint64_t)option(line, "event_ns", (double)event_ns);
        completion_us = (uint64_t)option(line, "completion_us", (double)completion_us);
        message_us = (uint64_t)option(line, "message_us", (double)message_us);
        wake_us = (uint64_t)option(line, "wake_us", (double)wake_us);
        death_us = (uint64_t)option(line, "death_us", (double)death_us);
    } else if (*line != '\n' && *line != '#')
        fail("line", line);
}

static void print_tenant(uint32_t i)
{
    uint64_t counted = 0, waited = 0;
    for (uint32_t k = 0; k < process_count; k++)
        if (processes[k]->tenant == &tenants[i]) {
            counted += processes[k]->slot.gpu_ns;
            waited += processes[k]->slot.wait_ns;
        }
    printf("%s\"%s\": {\"counted_ns\": %" PRIu64 ", \"waited_ns\": %" PRIu64 ", \"longest_wait_ns\": %" PRIu64
           ", \"borrowed_ns\": %" PRIu64 ", \"denied_ns\": %" PRIu64 ", \"used_ns\": [",
           i ? ", " : "", tenants[i].name, counted, waited, tenants[i].longest_wait_ns, tenants[i].member.borrowed_ns,
           tenants[i].member.denied_ns);
    for (uint32_t k = 0; k < sample_count; k++)
        printf("%s%" PRIu64, k ? "," : "", samples[k * tenant_count + i]);
    printf("], \"said\": [");
    for (uint32_t k = 0; k < sample_count; k++) {
        const struct said *s = &accounts[k * tenant_count + i];
        printf("%s[%" PRId64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", k ? "," : "", s->owns_ns, s->paid_ns, s->flight_ns,
               s->alone_ns, s->ungranted_ns);
    }
    printf("]}");
}

static void set_up(void)
{
    struct engine_config config = {.cards = 1, .slice_ns = slice_us * 1000, .switch_ns = switch_us * 1000};
    now = 1000000000; /* a clock that has run a while: 0 means never in the pages */
    end_ns += now;
    engine = calloc(1, sizeof *engine);
    samples = calloc(end_ns / (SAMPLE_MS * 1000000ull) + 2, sizeof *samples * (tenant_count ? tenant_count : 1));
    accounts = calloc(end_ns / (SAMPLE_MS * 1000000ull) + 2, sizeof *accounts * (tenant_count ? tenant_count : 1));
    if (!engine || !samples || !accounts)
        fail("memory", "none");
    engine_init(engine, &config, now);
    arbiter_starts();
    for (uint32_t i = 0; i < process_count; i++)
        schedule(now + processes[i]->tenant->start_ns, EV_BEGIN, processes[i], 0);
    for (uint32_t i = 0; i < order_count; i++)
        schedule(now + orders[i].at, EV_ORDER, NULL, i);
    sample();
}

int main(void)
{
    char line[4096];
    while (fgets(line, sizeof line, stdin))
        read_line(line);
    set_up();
    run();
    printf("{\"sample_ms\": %d, \"messages\": %" PRIu64 ", \"arbitrations\": %" PRIu64 ", \"records\": %" PRIu64
           ", \"launches\": %" PRIu64 ", \"queries\": %" PRIu64 ", \"tenants\": {",
           SAMPLE_MS, messages, arbitrations, records, launches, queries);
    for (uint32_t i = 0; i < tenant_count; i++)
        print_tenant(i);
    printf("}}\n");
    return 0;
}
