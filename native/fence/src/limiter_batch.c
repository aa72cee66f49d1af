#include "limiter.h"

static bool dry(const struct limiter_stream *stream, uint64_t now)
{
    return now >= stream->busy_until_ns;
}

static bool apart(const struct limiter_cost *cost)
{
    return !cost->known || cost->predicted_ns >= LIMITER_LONG_NS;
}

bool limiter_opens(const struct limiter_stream *stream)
{
    return stream->open.launches == 0;
}

enum limiter_close limiter_flush(const struct limiter_stream *stream, uint64_t now)
{
    if (limiter_opens(stream))
        return LIMITER_KEEP;
    return stream->open.gap || dry(stream, now) ? LIMITER_CLOSE_PREDICTED : LIMITER_CLOSE_TIMED;
}

enum limiter_close limiter_before(const struct limiter_stream *stream, const struct limiter_cost *cost, uint64_t now)
{
    bool old = dry(stream, now) && now - stream->open.opened_ns >= LIMITER_BATCH_WALL_NS;
    return apart(cost) || old ? limiter_flush(stream, now) : LIMITER_KEEP;
}

static void open_batch(struct limiter_stream *stream, const struct limiter_cost *cost, uint64_t now)
{
    bool sample = ++stream->batches % LIMITER_SAMPLE_EVERY == 0;
    stream->open = (struct limiter_batch){.key = cost->key, .opened_ns = now, .single = sample || apart(cost)};
}

static bool full(const struct limiter_batch *batch, uint64_t now)
{
    if (batch->gap && now - batch->opened_ns >= LIMITER_BATCH_WALL_NS)
        return true;
    return batch->single || batch->predicted_ns >= LIMITER_BATCH_NS || batch->launches >= LIMITER_BATCH_LAUNCHES;
}

enum limiter_close limiter_after(struct limiter_stream *stream, const struct limiter_cost *cost, uint64_t now)
{
    struct limiter_batch *batch = &stream->open;
    if (limiter_opens(stream))
        open_batch(stream, cost, now);
    else if (dry(stream, now))
        batch->gap = true;
    stream->busy_until_ns = (dry(stream, now) ? now : stream->busy_until_ns) + cost->predicted_ns;
    batch->due_ns = stream->busy_until_ns;
    batch->predicted_ns += cost->predicted_ns;
    batch->launches++;
    if (!full(batch, now))
        return LIMITER_KEEP;
    return batch->gap ? LIMITER_CLOSE_PREDICTED : LIMITER_CLOSE_TIMED;
}

struct limiter_batch limiter_take(struct limiter_stream *stream)
{
    struct limiter_batch taken = stream->open;
    stream->open = (struct limiter_batch){0};
    return taken;
}
