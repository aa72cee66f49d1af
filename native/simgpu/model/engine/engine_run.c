/* Lets time pass: which contexts run, at what rate, until when. */
#include "engine_internal.h"

#include <stddef.h>

typedef unsigned __int128 wide;

/* Whether the legacy default stream and the blocking ones let this head go: they take turns by order of submission. */
static bool ordered(const struct engine_context *c, uint32_t stream, const struct engine_item *head)
{
    if (c->stream[stream].flags & ENGINE_NON_BLOCKING)
        return true;
    if (stream != 0) {
        const struct engine_item *legacy = head_seen(c, 0);
        return !legacy || legacy->order > head->order;
    }
    for EACH_STREAM(s, c->active) {
        if (s == 0 || c->stream[s].flags & ENGINE_NON_BLOCKING)
            continue;
        if (head_seen(c, (uint32_t)s)->order < head->order)
            return false;
    }
    return true;
}

static bool awaited_is_done(const struct engine *engine, const struct engine_item *item)
{
    struct engine_ticket after = {item->wait_context, item->wait_generation, item->wait_stream, 0, item->cookie};
    return engine_done(engine, &after);
}

/* Whether the head, which takes no time, would pass now. */
static bool passes(const struct engine *engine, const struct engine_item *item)
{
    if (item->kind == ENGINE_WAIT)
        return awaited_is_done(engine, item);
    return item->kind != ENGINE_HOST;
}

/* Whether the context has something for which it needs the compute part. */
static bool wants_turn(const struct engine *engine, const struct engine_context *c)
{
    for EACH_STREAM(s, c->active) {
        const struct engine_item *head = head_seen(c, (uint32_t)s);
        if (bit(c->linked, (uint32_t)s) || !ordered(c, (uint32_t)s, head))
            continue;
        if (uses_compute(head->kind) || passes(engine, head))
            return true;
        if (head->kind == ENGINE_HOST && head->state == ITEM_QUEUED)
            return true;
    }
    return false;
}

static bool has_turn(const struct engine *engine, const struct engine_card *card, uint32_t context)
{
    if (engine->config.mode == ENGINE_TOGETHER)
        return true;
    return card->current == context + 1 && engine->now_ns >= card->ready_ns;
}

/* The next context after the current one, going round, that wants the compute part; the current one comes last. -1: none. */
static int next_in_turn(const struct engine *engine, const struct engine_card *card)
{
    uint32_t start = card->current ? card->current : card->last;
    for (int c = next_bit(card->waiting, ENGINE_CONTEXTS, start); c >= 0;
         c = next_bit(card->waiting, ENGINE_CONTEXTS, (uint32_t)c + 1))
        if (wants_turn(engine, &engine->context[c]))
            return c;
    for EACH_WAITING(c, card) {
        if ((uint32_t)c >= start)
            break;
        if (wants_turn(engine, &engine->context[c]))
            return c;
    }
    return -1;
}

static void hand_over(const struct engine *engine, struct engine_card *card, uint32_t context)
{
    bool change = card->last && card->last != context + 1;
    card->ready_ns = engine->now_ns + (change ? engine->config.switch_ns : 0);
    card->slice_end_ns = card->ready_ns + engine->config.slice_ns;
    card->switches += change;
    card->last = card->current = context + 1;
}

static void renew_slice(const struct engine *engine, struct engine_card *card)
{
    uint64_t slices = (engine->now_ns - card->slice_end_ns) / engine->config.slice_ns + 1;
    card->slice_end_ns += slices * engine->config.slice_ns;
}

static void choose(const struct engine *engine, struct engine_card *card)
{
    bool stays = card->current && bit(card->waiting, card->current - 1)
                 && wants_turn(engine, &engine->context[card->current - 1]);
    if (stays && engine->now_ns < card->slice_end_ns)
        return;
    int next = next_in_turn(engine, card);
    if (next < 0)
        card->current = 0;
    else if (stays && (uint32_t)next + 1 == card->current)
        renew_slice(engine, card);
    else
        hand_over(engine, card, (uint32_t)next);
}

/* A host item whose turn has come needs none any more: the card may be another's. */
static bool came_due(struct engine_item *head)
{
    if (head->kind != ENGINE_HOST || head->state != ITEM_QUEUED)
        return false;
    head->state = ITEM_DUE;
    return true;
}

/* Let what takes no time at the head of a stream happen; whether anything did. */
static bool settle_stream(struct engine *engine, uint32_t context, uint32_t stream, bool turn)
{
    struct engine_context *c = &engine->context[context];
    bool changed = false;
    for (struct engine_item *head; (head = head_of(c, stream)) && !takes_time(head->kind); changed = true) {
        if ((!turn && !bit(c->linked, stream)) || !ordered(c, stream, head))
            break;
        if (!passes(engine, head))
            return came_due(head) || changed;
        engine_complete(engine, context, stream);
    }
    return changed;
}

static bool settle_card(struct engine *engine, struct engine_card *card)
{
    bool changed = false;
    if (engine->config.mode == ENGINE_TIME_SLICE)
        choose(engine, card);
    for EACH_WAITING(c, card) {
        struct engine_context *context = &engine->context[c];
        bool turn = has_turn(engine, card, (uint32_t)c);
        for EACH_STREAM(s, turn ? context->active : context->linked)
            changed |= settle_stream(engine, (uint32_t)c, (uint32_t)s, turn);
    }
    return changed;
}

/* Everything that happens at the present moment. A wait may let another card's stream go on, so round again until nothing moves. */
void engine_settle(struct engine *engine)
{
    bool changed;
    do {
        changed = false;
        for EACH_ACTIVE_CARD(k, engine)
            changed |= settle_card(engine, &engine->card[k]);
    } while (changed);
}

static uint32_t level_of(const struct engine_stream *stream)
{
    int32_t level = -stream->priority;
    return level < 0 ? 0 : level >= (int32_t)LEVELS ? LEVELS - 1 : (uint32_t)level;
}

static void ask(const struct engine *engine, const struct engine_card *card, uint32_t context, struct share *share)
{
    const struct engine_context *c = &engine->context[context];
    bool turn = has_turn(engine, card, context);
    for EACH_STREAM(s, turn ? c->active : c->linked) {
        const struct engine_item *head = head_seen(c, (uint32_t)s);
        if (!takes_time(head->kind) || !ordered(c, (uint32_t)s, head))
            continue;
        if (head->kind == ENGINE_COPY_IN)
            share->in++;
        else if (head->kind == ENGINE_COPY_OUT)
            share->out++;
        else
            share->width[level_of(&c->stream[s])] += head->width;
    }
}

/* Higher priorities get their width first; within one, what is left is divided by width. */
static struct share divide(const struct engine *engine, const struct engine_card *card)
{
    struct share share = {0};
    uint64_t left = ENGINE_WHOLE;
    for EACH_WAITING(c, card)
        ask(engine, card, (uint32_t)c, &share);
    for (uint32_t level = LEVELS; level-- > 0;) {
        share.given[level] = share.width[level] < left ? share.width[level] : left;
        left -= share.given[level];
    }
    return share;
}

struct rate {
    uint64_t part, of; /* runs at part/of of its full rate; 0: does not run */
};

static struct rate rate_of(const struct engine_context *c, uint32_t stream, const struct share *share, bool turn)
{
    const struct engine_item *head = head_seen(c, stream);
    if (!takes_time(head->kind) || !(turn || bit(c->linked, stream)) || !ordered(c, stream, head))
        return (struct rate){0, 1};
    if (head->kind == ENGINE_COPY_IN)
        return (struct rate){1, share->in};
    if (head->kind == ENGINE_COPY_OUT)
        return (struct rate){1, share->out};
    uint32_t level = level_of(&c->stream[stream]);
    return (struct rate){share->given[level], share->width[level]};
}

static uint64_t later(uint64_t now, wide wait)
{
    return wait >= ENGINE_NEVER - now ? ENGINE_NEVER : now + (uint64_t)wait;
}

static uint64_t next_of_context(const struct engine *engine, const struct engine_card *card, uint32_t context,
                                const struct share *share)
{
    const struct engine_context *c = &engine->context[context];
    bool turn = has_turn(engine, card, context);
    uint64_t next = ENGINE_NEVER;
    for EACH_STREAM(s, turn ? c->active : c->linked) {
        struct rate rate = rate_of(c, (uint32_t)s, share, turn);
        if (!rate.part)
            continue;
        wide unit = (wide)rate.part * UNIT, work = (wide)head_seen(c, (uint32_t)s)->left * rate.of;
        uint64_t at = later(engine->now_ns, (work + unit - 1) / unit);
        next = at < next ? at : next;
    }
    return next;
}

/* When the compute part may change hands: the switch under way ends, or the slice, if another wants it. */
static uint64_t next_turn(const struct engine *engine, const struct engine_card *card)
{
    if (engine->config.mode != ENGINE_TIME_SLICE || !card->current)
        return ENGINE_NEVER;
    if (engine->now_ns < card->ready_ns)
        return card->ready_ns;
    int next = next_in_turn(engine, card);
    return next < 0 || (uint32_t)next + 1 == card->current ? ENGINE_NEVER : card->slice_end_ns;
}

static uint64_t next_of_card(const struct engine *engine, const struct engine_card *card)
{
    struct share share = divide(engine, card);
    uint64_t next = next_turn(engine, card);
    for EACH_WAITING(c, card) {
        uint64_t at = next_of_context(engine, card, (uint32_t)c, &share);
        next = at < next ? at : next;
    }
    return next;
}

uint64_t engine_next_event(const struct engine *engine)
{
    uint64_t next = ENGINE_NEVER;
    for EACH_ACTIVE_CARD(k, engine) {
        uint64_t at = next_of_card(engine, &engine->card[k]);
        next = at < next ? at : next;
    }
    return next;
}

/* Remember that something ran in [from, from + length), by samples. */
static void sample(struct engine_sample *samples, uint64_t from, uint64_t length)
{
    uint64_t end = from + length, first = from / ENGINE_SAMPLE_NS, last = end / ENGINE_SAMPLE_NS;
    if (last - first >= ENGINE_SAMPLES)
        first = last - ENGINE_SAMPLES + 1;
    for (uint64_t n = first; n <= last; n++) {
        struct engine_sample *at = &samples[n % ENGINE_SAMPLES];
        uint64_t begin = n * ENGINE_SAMPLE_NS, close = begin + ENGINE_SAMPLE_NS;
        if (at->number != n)
            *at = (struct engine_sample){n, 0};
        begin = begin > from ? begin : from;
        close = close < end ? close : end;
        at->busy_ns += close - begin;
    }
}

struct used {
    uint64_t width; /* of the card, in thousandths */
    bool computes, copies;
    bool over; /* something ran to its end */
};

static void work_on(struct engine_item *item, struct rate rate, uint64_t time)
{
    wide done = (wide)time * UNIT * rate.part / rate.of;
    item->left = done >= item->left ? 0 : item->left - (uint64_t)done;
    if (!item->left)
        item->state = ITEM_OVER;
}

static struct used run_context(struct engine *engine, const struct engine_card *card, uint32_t context,
                               const struct share *share, uint64_t time)
{
    struct engine_context *c = &engine->context[context];
    bool turn = has_turn(engine, card, context);
    struct used used = {0};
    for EACH_STREAM(s, turn ? c->active : c->linked) {
        struct rate rate = rate_of(c, (uint32_t)s, share, turn);
        struct engine_item *head = head_of(c, (uint32_t)s);
        if (!rate.part)
            continue;
        work_on(head, rate, time);
        used.over |= head->state == ITEM_OVER;
        used.copies |= uses_link(head->kind);
        used.computes |= uses_compute(head->kind);
        if (uses_compute(head->kind))
            used.width += head->width * rate.part / rate.of;
    }
    if (used.computes) {
        c->gpu_ns += time;
        c->work_ns += time * used.width / ENGINE_WHOLE;
        sample(c->sample, engine->now_ns, time);
    }
    c->copy_ns += used.copies ? time : 0;
    c->wait_ns += turn ? 0 : time;
    return used;
}

/* Lets time pass on a card while no rate changes. True: something ran to its end. */
static bool run_card(struct engine *engine, struct engine_card *card, uint64_t time)
{
    struct share share = divide(engine, card);
    struct used all = {0};
    for EACH_WAITING(c, card) {
        struct used used = run_context(engine, card, (uint32_t)c, &share, time);
        all.computes |= used.computes;
        all.copies |= used.copies;
        all.over |= used.over;
    }
    if (all.computes) {
        card->busy_ns += time;
        sample(card->sample, engine->now_ns, time);
    }
    card->copy_ns += all.copies ? time : 0;
    return all.over;
}

static void finish(struct engine *engine, const struct engine_card *card)
{
    for EACH_WAITING(c, card) {
        struct engine_context *context = &engine->context[c];
        for EACH_STREAM(s, context->active)
            if (head_of(context, (uint32_t)s)->state == ITEM_OVER)
                engine_complete(engine, (uint32_t)c, (uint32_t)s);
    }
}

static void step(struct engine *engine, uint64_t to)
{
    uint64_t over[ENGINE_CARDS / 64] = {0};
    for EACH_ACTIVE_CARD(k, engine)
        if (run_card(engine, &engine->card[k], to - engine->now_ns))
            set_bit(over, (uint32_t)k);
    STEP();
    engine->now_ns = to;
    STEP();
    for EACH_BIT(k, over, ENGINE_CARDS)
        finish(engine, &engine->card[k]);
}

void engine_advance(struct engine *engine, uint64_t now)
{
    uint64_t next;
    now = now > engine->now_ns ? now : engine->now_ns;
    for (engine_settle(engine); (next = engine_next_event(engine)) <= now; engine_settle(engine))
        step(engine, next);
    step(engine, now);
}
