/* After a process was killed inside the engine: what is primary is believed as far as it makes sense, the rest is made again.

   Primary are `owner`, `error`, the streams' `submitted` and `completed`, the items' words. An item is queued if its state
   says so and its place lies in (completed, submitted] of an open stream. */
#include "engine_internal.h"

#include <stddef.h>

static bool is_queued(const struct engine_context *c, const struct engine_item *item)
{
    if (item->state < ITEM_QUEUED || item->state > ITEM_OVER || item->stream >= ENGINE_STREAMS)
        return false;
    const struct engine_stream *s = &c->stream[item->stream];
    return item->kind >= ENGINE_KERNEL && item->kind <= ENGINE_NOTHING && item->seq > s->completed
           && item->seq <= s->submitted;
}

static void clear_lists(struct engine_context *c)
{
    for (uint32_t i = 0; i < ENGINE_STREAMS; i++) {
        struct engine_stream *s = &c->stream[i];
        s->head = s->tail = s->queued = 0;
        s->completed = s->completed > s->submitted ? s->submitted : s->completed;
        s->state = s->state > STREAM_CLOSING || i == 0 ? STREAM_OPEN : s->state;
    }
    for (uint32_t w = 0; w < ENGINE_STREAMS / 64; w++)
        c->active[w] = c->linked[w] = 0;
    c->queued = c->hosts = c->free = 0;
    c->fresh = c->fresh > ENGINE_ITEMS ? ENGINE_ITEMS : c->fresh;
    c->events_fresh = c->events_fresh > ENGINE_EVENTS ? ENGINE_EVENTS : c->events_fresh;
}

/* Into its stream's list, which is kept in order of seq. Most come in order, so that the end is looked at first. */
static void link_item(struct engine_context *c, uint32_t index)
{
    struct engine_item *item = &c->item[index];
    struct engine_stream *s = &c->stream[item->stream];
    uint16_t *at = &s->head;
    if (s->tail && c->item[s->tail - 1].seq < item->seq)
        at = &c->item[s->tail - 1].next;
    while (*at && c->item[*at - 1].seq < item->seq)
        at = &c->item[*at - 1].next;
    item->next = *at;
    *at = (uint16_t)(index + 1);
    if (!item->next)
        s->tail = (uint16_t)(index + 1);
    s->queued++;
    c->queued++;
    c->hosts += item->kind == ENGINE_HOST;
    c->order = c->order < item->order ? item->order : c->order;
}

/* The stream goes on with what is there. Where nothing is, all that was submitted counts as done. */
static void close_gaps(struct engine_stream *s, const struct engine_context *c)
{
    s->completed = s->head ? c->item[s->head - 1].seq - 1 : s->submitted;
    if (!s->head && s->state == STREAM_CLOSING)
        s->state = STREAM_FREE;
}

static void repair_context(struct engine *engine, uint32_t context)
{
    struct engine_context *c = &engine->context[context];
    clear_lists(c);
    for (uint32_t i = 0; i < c->fresh; i++) {
        struct engine_item *item = &c->item[i];
        if (!c->error && is_queued(c, item)) {
            item->state = item->state == ITEM_OVER ? ITEM_QUEUED : item->state;
            link_item(c, i);
        } else {
            item->state = ITEM_FREE;
            item->next = c->free;
            c->free = (uint16_t)(i + 1);
        }
    }
    for (uint32_t i = 0; i < ENGINE_STREAMS; i++) {
        close_gaps(&c->stream[i], c);
        if (c->stream[i].head)
            engine_refresh(engine, context, i);
    }
}

static void forget_work(struct engine *engine)
{
    for (uint32_t w = 0; w < ENGINE_CARDS / 64; w++)
        engine->active[w] = 0;
    for (uint32_t k = 0; k < engine->config.cards; k++)
        for (uint32_t w = 0; w < ENGINE_CONTEXTS / 64; w++)
            engine->card[k].waiting[w] = 0;
}

static void repair_card(const struct engine *engine, struct engine_card *card)
{
    if (card->current > ENGINE_CONTEXTS || (card->current && !engine->context[card->current - 1].owner))
        card->current = 0;
    if (card->last > ENGINE_CONTEXTS || (card->last && !engine->context[card->last - 1].owner))
        card->last = 0;
}

void engine_repair(struct engine *engine)
{
    if (engine->high_water > ENGINE_CONTEXTS)
        engine->high_water = ENGINE_CONTEXTS;
    forget_work(engine);
    for (uint32_t i = 0; i < engine->high_water; i++) { /* what lies beyond was never touched and takes no room */
        struct engine_context *c = &engine->context[i];
        if (c->owner && c->card < engine->config.cards)
            repair_context(engine, i);
        else
            c->owner = 0;
    }
    for (uint32_t k = 0; k < engine->config.cards; k++)
        repair_card(engine, &engine->card[k]);
    engine_settle(engine);
}

/* --- for tests --- */

static const char *check_stream(const struct engine_context *c, uint32_t stream, uint32_t *linked)
{
    const struct engine_stream *s = &c->stream[stream];
    uint64_t seq = s->completed;
    uint32_t count = 0, last = 0;
    for (uint32_t i = s->head; i && count <= ENGINE_ITEMS; last = i, i = c->item[i - 1].next, count++) {
        if (i > c->fresh || c->item[i - 1].stream != stream || c->item[i - 1].state == ITEM_FREE)
            return "an item is in a list it does not belong to";
        if (c->item[i - 1].seq != ++seq)
            return "a place in a stream is missing or taken twice";
    }
    *linked += count;
    if (seq != s->submitted || count != s->queued || last != s->tail)
        return "a stream's counters do not fit its list";
    return !s->head == bit(c->active, stream) ? "a stream's bit does not fit its list" : NULL;
}

static const char *check_context(const struct engine *engine, uint32_t context)
{
    const struct engine_context *c = &engine->context[context];
    uint32_t linked = 0, spare = 0;
    for (uint32_t s = 0; s < ENGINE_STREAMS; s++) {
        const char *wrong = check_stream(c, s, &linked);
        if (wrong)
            return wrong;
    }
    for (uint32_t i = c->free; i && spare <= ENGINE_ITEMS; i = c->item[i - 1].next)
        spare++;
    if (linked != c->queued || linked + spare != c->fresh)
        return "items are lost or counted twice";
    if ((linked != 0) != bit(engine->card[c->card].waiting, context))
        return "a context's bit does not fit its streams";
    return NULL;
}

const char *engine_check(const struct engine *engine)
{
    for (uint32_t i = 0; i < engine->high_water; i++) {
        const char *wrong = engine->context[i].owner ? check_context(engine, i) : NULL;
        if (wrong)
            return wrong;
    }
    for (uint32_t k = 0; k < engine->config.cards; k++)
        if (any(engine->card[k].waiting, ENGINE_CONTEXTS) != bit(engine->active, k))
            return "a card's bit does not fit its contexts";
    return NULL;
}
