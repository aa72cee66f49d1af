#include "limiter.h"

#include <stddef.h>

static void raise_busy_until(struct limiter_card *card, uint64_t until)
{
    if (until > atomic_load_explicit(&card->busy_until_ns, memory_order_relaxed))
        atomic_store_explicit(&card->busy_until_ns, until, memory_order_relaxed);
}

static bool is_dry(const struct limiter_stream *stream, uint64_t now)
{
    return now >= stream->busy_until_ns;
}

static bool is_apart(const struct limiter_cost *cost)
{
    return !cost->known || cost->mean_ns >= LIMITER_LONG_NS;
}

bool limiter_opens(const struct limiter_stream *stream)
{
    return stream->open.launches == 0;
}

static bool is_paid(struct limiter_stream *stream, const struct limiter_cost *cost, uint64_t now)
{
    const struct limiter_card *card = stream->card;
    if (stream->open.ahead_ns < cost->predicted_ns || atomic_load_explicit(&card->alone_since_ns, memory_order_relaxed))
        return false;
    return limiter_is_free(card) || now < atomic_load_explicit(&card->grant->lease_until_ns, memory_order_acquire);
}

/* Only where a batch is open: it gives back what was not used when it is closed. */
static bool may_pay_ahead(const struct limiter_stream *stream, const struct limiter_cost *cost)
{
    return stream->open.launches && cost->known && !cost->uncertain && cost->predicted_ns < LIMITER_AHEAD_NS;
}

enum limiter_verdict limiter_pass(struct limiter_stream *stream, const struct limiter_cost *cost, uint64_t now)
{
    if (is_paid(stream, cost, now)) {
        stream->open.ahead_ns -= cost->predicted_ns;
        return LIMITER_GO;
    }
    if (may_pay_ahead(stream, cost)) {
        struct limiter_cost several = *cost;
        several.predicted_ns += LIMITER_AHEAD_NS;
        if (limiter_admit(stream->card, &several, now) == LIMITER_GO) {
            stream->open.ahead_ns += LIMITER_AHEAD_NS;
            return LIMITER_GO;
        }
    }
    return limiter_admit(stream->card, cost, now);
}

bool limiter_needs_query(const struct limiter_stream *stream, const struct limiter_cost *cost, uint64_t now)
{
    bool is_uncertain = cost->uncertain || stream->open.uncertain;
    bool asks = stream->open.launches || !is_dry(stream, now);
    return asks && now - stream->asked_ns >= (is_uncertain ? LIMITER_QUERY_NS : LIMITER_QUERY_CERTAIN_NS);
}

/* A gap is one of the card's, not of the stream's: each is counted once, and only where no other stream is expected to run. */
static void count_gap(struct limiter_stream *stream, uint64_t now)
{
    if (!is_dry(stream, now))
        return;
    uint64_t card = atomic_load_explicit(&stream->card->busy_until_ns, memory_order_relaxed);
    uint64_t since = card > stream->busy_until_ns ? card : stream->busy_until_ns;
    if (stream->open.launches && now > since)
        stream->open.idle_ns += now - since;
    stream->busy_until_ns = now;
    raise_busy_until(stream->card, now);
}

static void note_idle(struct limiter_stream *stream, uint64_t now)
{
    struct limiter_card *card = stream->card;
    if (now < stream->busy_until_ns)
        stream->busy_until_ns = now;
    if (atomic_load_explicit(&card->busy_with, memory_order_relaxed) == stream)
        limiter_note_all_idle(card, now);
}

void limiter_note_all_idle(struct limiter_card *card, uint64_t now)
{
    if (now < atomic_load_explicit(&card->busy_until_ns, memory_order_relaxed))
        atomic_store_explicit(&card->busy_until_ns, now, memory_order_relaxed);
}

void limiter_note_query(struct limiter_stream *stream, bool busy, uint64_t now)
{
    stream->asked_ns = now;
    if (!busy && is_dry(stream, now)) {
        count_gap(stream, now);
    } else if (!busy) {
        note_idle(stream, now);
    } else if (is_dry(stream, now)) {
        stream->busy_until_ns = now + 1;
        raise_busy_until(stream->card, now + 1);
    }
}

enum limiter_close limiter_flush(struct limiter_stream *stream, bool busy, uint64_t now)
{
    if (limiter_opens(stream))
        return LIMITER_KEEP;
    limiter_note_query(stream, busy, now);
    return busy ? LIMITER_CLOSE_TIMED : LIMITER_CLOSE_IDLE;
}

enum limiter_close limiter_before(const struct limiter_stream *stream, const struct limiter_cost *cost, uint64_t now)
{
    if (limiter_opens(stream))
        return LIMITER_KEEP;
    bool old = now - stream->open.opened_ns >= LIMITER_BATCH_WALL_NS;
    bool is_uncertain = is_dry(stream, now) && (cost->uncertain || stream->open.uncertain);
    return is_apart(cost) || old || is_uncertain ? LIMITER_CLOSE_TIMED : LIMITER_KEEP;
}

/* Drawn, not counted: a program may repeat itself with the same period. */
static bool is_sample(struct limiter_stream *stream)
{
    uint32_t drawn = ++stream->batches * 0x9e3779b1u;
    drawn = (drawn ^ drawn >> 15) * 0x85ebca77u;
    return (drawn ^ drawn >> 13) % LIMITER_SAMPLE_EVERY == 0;
}

static void open_batch(struct limiter_stream *stream, const struct limiter_cost *cost, uint64_t now)
{
    bool is_uncertain = cost->uncertain && is_dry(stream, now);
    stream->open =
        (struct limiter_batch){.key = cost->key, .opened_ns = now, .single = is_sample(stream) || is_apart(cost) || is_uncertain || stream->alone};
    stream->asked_ns = now;
}

static bool is_full(const struct limiter_batch *batch)
{
    return batch->single || batch->mean_ns >= LIMITER_BATCH_NS || batch->launches >= LIMITER_BATCH_LAUNCHES;
}

static void add_to_card(const struct limiter_stream *stream, uint64_t mean_ns, uint64_t now)
{
    struct limiter_card *card = stream->card;
    uint64_t until = atomic_load_explicit(&card->busy_until_ns, memory_order_relaxed);
    bool was_idle = until <= now;
    if (was_idle)
        atomic_store_explicit(&card->busy_with, stream, memory_order_relaxed);
    else if (atomic_load_explicit(&card->busy_with, memory_order_relaxed) != stream)
        atomic_store_explicit(&card->busy_with, NULL, memory_order_relaxed);
    atomic_store_explicit(&card->busy_until_ns, (was_idle ? now : until) + mean_ns, memory_order_relaxed);
}

enum limiter_close limiter_after(struct limiter_stream *stream, const struct limiter_cost *cost, uint64_t now)
{
    struct limiter_batch *batch = &stream->open;
    if (limiter_opens(stream))
        open_batch(stream, cost, now);
    else
        count_gap(stream, now);
    stream->busy_until_ns = (is_dry(stream, now) ? now : stream->busy_until_ns) + cost->mean_ns;
    add_to_card(stream, cost->mean_ns, now);
    stream->launched_ns = now;
    batch->due_ns = stream->busy_until_ns;
    batch->predicted_ns += cost->predicted_ns;
    batch->mean_ns += cost->mean_ns;
    batch->uncertain |= cost->uncertain;
    batch->launches++;
    return is_full(batch) ? LIMITER_CLOSE_TIMED : LIMITER_KEEP;
}

bool limiter_flushes_before_wait(const struct limiter_stream *stream, uint64_t now)
{
    return stream->open.launches && (stream->open.uncertain || stream->busy_until_ns > now + LIMITER_DOUBT_NS);
}

/* It is idle now and was waited for without a break: later than expected is that much longer, less what waking takes. */
uint64_t limiter_note_wait(struct limiter_stream *stream, uint64_t since, uint64_t now)
{
    uint64_t expected = stream->busy_until_ns > since ? stream->busy_until_ns : since;
    if (!stream->open.launches)
        return 0;
    stream->asked_ns = now;
    note_idle(stream, now);
    if (now <= expected + LIMITER_WAKE_NS)
        return 0;
    uint64_t off = now - expected - LIMITER_WAKE_NS / 2;
    stream->busy_until_ns = expected + off;
    raise_busy_until(stream->card, expected + off);
    stream->open.mean_ns += off;
    return off;
}

uint64_t limiter_stale_at(const struct limiter_stream *stream)
{
    uint64_t due = stream->busy_until_ns + LIMITER_STALE_NS, doubted = stream->launched_ns + LIMITER_STALE_DOUBT_NS;
    return stream->open.uncertain && doubted < due ? doubted : due;
}

struct limiter_batch limiter_take(struct limiter_stream *stream, uint64_t now)
{
    count_gap(stream, now);
    struct limiter_batch taken = stream->open;
    uint64_t span = now - taken.opened_ns;
    uint64_t most = span > taken.idle_ns ? span - taken.idle_ns : 0;
    taken.used_ns = taken.mean_ns < most ? taken.mean_ns : most;
    if (taken.ahead_ns)
        limiter_withdraw(stream->card, taken.ahead_ns);
    taken.ahead_ns = 0;
    stream->open = (struct limiter_batch){0};
    return taken;
}

/* The mean of a batch of several would confirm its own gaps: it only tells that the prediction is not to be relied upon. */
void limiter_note_measurement(struct limiter_predictions *predictions, const struct limiter_batch *batch, uint64_t alone_ns,
                              uint64_t used_ns)
{
    if (batch->single)
        limiter_learn(predictions, batch->key, alone_ns);
    else if (used_ns > 2 * batch->mean_ns + LIMITER_DOUBT_NS)
        limiter_doubt(predictions, batch->key, used_ns - batch->mean_ns);
}
