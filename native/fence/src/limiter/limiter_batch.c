/* Batches of one stream: which launches are gathered, when a batch is closed, which gaps were idle. */
#include "limiter.h"

#include <stddef.h>

#define WAKES 16 /* a moving mean gives the newest wait so little */

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
    return asks && now - stream->queried_ns >= (is_uncertain ? LIMITER_QUERY_NS : LIMITER_QUERY_CERTAIN_NS);
}

static void add_gap(struct limiter_card *card, uint64_t from, uint64_t to)
{
    uint64_t number = atomic_fetch_add_explicit(&card->gaps, 1, memory_order_relaxed);
    struct limiter_known_gap *gap = &card->gap[number % LIMITER_KNOWN_GAPS];
    atomic_store_explicit(&gap->from_ns, from, memory_order_relaxed);
    atomic_store_explicit(&gap->to_ns, to, memory_order_relaxed);
}

static void take_gap(struct limiter_batch *batch, const struct limiter_known_gap *known, uint64_t now)
{
    uint64_t from = atomic_load_explicit(&known->from_ns, memory_order_relaxed);
    uint64_t to = atomic_load_explicit(&known->to_ns, memory_order_relaxed);
    from = from > batch->opened_ns ? from : batch->opened_ns;
    to = to < now ? to : now;
    if (from >= to || (batch->gaps && from < batch->gap[batch->gaps - 1].to_ns))
        return;
    batch->idle_ns += to - from;
    batch->gap[batch->gaps++] = (struct limiter_gap){from, to};
}

static void take_gaps(const struct limiter_card *card, struct limiter_batch *batch, uint64_t now)
{
    uint64_t last = atomic_load_explicit(&card->gaps, memory_order_relaxed), at = batch->first_gap;
    at = last - at > LIMITER_KNOWN_GAPS ? last - LIMITER_KNOWN_GAPS : at;
    for (; at < last && batch->gaps < LIMITER_GAPS; at++)
        take_gap(batch, &card->gap[at % LIMITER_KNOWN_GAPS], now);
}

static bool has_many_gaps(const struct limiter_stream *stream)
{
    return atomic_load_explicit(&stream->card->gaps, memory_order_relaxed) - stream->open.first_gap >= LIMITER_GAPS;
}

/* A gap is one of the card's, not of the stream's: each is found once, and only where no other stream is expected to run. */
static void count_gap(struct limiter_stream *stream, uint64_t now)
{
    if (!is_dry(stream, now))
        return;
    uint64_t card = atomic_load_explicit(&stream->card->busy_until_ns, memory_order_relaxed);
    uint64_t since = card > stream->busy_until_ns ? card : stream->busy_until_ns;
    if (card && now > since)
        add_gap(stream->card, since, now);
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
    stream->queried_ns = now;
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
    return is_apart(cost) || old || is_uncertain || has_many_gaps(stream) ? LIMITER_CLOSE_TIMED : LIMITER_KEEP;
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
    stream->open.first_gap = atomic_load_explicit(&stream->card->gaps, memory_order_relaxed);
    stream->queried_ns = now;
}

static bool was_lately(_Atomic uint64_t const *at, uint64_t now)
{
    uint64_t last = atomic_load_explicit(at, memory_order_relaxed);
    return last && now - last < LIMITER_CONTENDED_NS;
}

bool limiter_is_contended(const struct limiter_card *card, uint64_t now)
{
    return was_lately(&card->contended_ns, now);
}

/* Beside another process, or another stream, a launch begins and ends later than expected: a gap behind it that is concluded from the
   expectation is partly work. What may be over soon has events of its own, or together with what else is as short. */
static bool is_doubtful(const struct limiter_stream *stream, uint64_t now)
{
    if (was_lately(&stream->card->beside_ns, now) && stream->open.mean_ns >= LIMITER_BESIDE_LEAST_NS)
        return stream->busy_until_ns < now + LIMITER_BESIDE_NS;
    return limiter_is_contended(stream->card, now) && stream->busy_until_ns < now + LIMITER_DOUBT_NS;
}

static bool is_full(const struct limiter_stream *stream, uint64_t now)
{
    const struct limiter_batch *batch = &stream->open;
    return batch->single || is_doubtful(stream, now) || batch->mean_ns >= LIMITER_BATCH_NS || batch->launches >= LIMITER_BATCH_LAUNCHES;
}

/* Streams run side by side, and what one takes while another runs was measured so: the card is busy until the last is done. */
static void add_to_card(const struct limiter_stream *stream, uint64_t now)
{
    struct limiter_card *card = stream->card;
    if (atomic_load_explicit(&card->busy_until_ns, memory_order_relaxed) <= now) {
        atomic_store_explicit(&card->busy_with, stream, memory_order_relaxed);
    } else if (atomic_load_explicit(&card->busy_with, memory_order_relaxed) != stream) {
        atomic_store_explicit(&card->busy_with, NULL, memory_order_relaxed);
        atomic_store_explicit(&card->beside_ns, now, memory_order_relaxed);
    }
    raise_busy_until(card, stream->busy_until_ns);
}

enum limiter_close limiter_after(struct limiter_stream *stream, const struct limiter_cost *cost, uint64_t now)
{
    struct limiter_batch *batch = &stream->open;
    if (limiter_opens(stream))
        open_batch(stream, cost, now);
    else
        count_gap(stream, now);
    stream->busy_until_ns = (is_dry(stream, now) ? now : stream->busy_until_ns) + cost->mean_ns;
    add_to_card(stream, now);
    stream->launched_ns = now;
    batch->due_ns = stream->busy_until_ns;
    batch->predicted_ns += cost->predicted_ns;
    batch->mean_ns += cost->mean_ns;
    batch->uncertain |= cost->uncertain;
    batch->launches++;
    return is_full(stream, now) ? LIMITER_CLOSE_TIMED : LIMITER_KEEP;
}

bool limiter_flushes_before_wait(const struct limiter_stream *stream, uint64_t now)
{
    return stream->open.launches && (stream->open.uncertain || stream->busy_until_ns > now + LIMITER_DOUBT_NS);
}

/* What was expected to be done at `expected` was done `off` later. */
static void move_end(struct limiter_stream *stream, uint64_t expected, int64_t off)
{
    struct limiter_card *card = stream->card;
    int64_t mean = (int64_t)stream->open.mean_ns + off;
    stream->busy_until_ns = (uint64_t)((int64_t)expected + off);
    stream->open.mean_ns = mean > 0 ? (uint64_t)mean : 0;
    if (atomic_load_explicit(&card->busy_with, memory_order_relaxed) == stream)
        atomic_store_explicit(&card->busy_until_ns, stream->busy_until_ns, memory_order_relaxed);
    else
        raise_busy_until(card, stream->busy_until_ns);
}

/* What waking takes, learnt from waits that ended about when they should; what is far off tells of the work instead. */
static int64_t learn_wake(struct limiter_stream *stream, int64_t late)
{
    int64_t wake = (int64_t)stream->wake_ns, longest = (int64_t)LIMITER_WAKE_NS;
    if (late > -longest && late < 2 * longest)
        wake += (late - wake) / WAKES;
    wake = wake < 0 ? 0 : wake < longest ? wake : longest;
    stream->wake_ns = (uint64_t)wake;
    return wake;
}

/* It is idle now and was waited for without a break, so it was done as long ago as waking takes: sooner than expected as often as
   later, where the expectation is right. */
uint64_t limiter_note_wait(struct limiter_stream *stream, uint64_t since, uint64_t now)
{
    uint64_t expected = stream->busy_until_ns;
    if (!stream->open.launches)
        return 0;
    stream->queried_ns = now;
    if (expected <= since) {
        note_idle(stream, now);
        if (now <= since + LIMITER_WAKE_NS)
            return 0;
        expected = since;
    }
    int64_t late = (int64_t)(now - expected);
    move_end(stream, expected, late - learn_wake(stream, late));
    return late > (int64_t)LIMITER_WAKE_NS ? (uint64_t)late - LIMITER_WAKE_NS / 2 : 0;
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
    take_gaps(stream->card, &taken, now);
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
