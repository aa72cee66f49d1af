/* Declarations for the engine's own files. */
#ifndef GPUPOOL_SIM_ENGINE_INTERNAL_H
#define GPUPOOL_SIM_ENGINE_INTERNAL_H

#include "engine.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define UNIT 1024u  /* of engine_item.left per nanosecond */
#define LEVELS 6u   /* of stream priority, CUDA's 0 to -5 */
#define LEVEL_NONE LEVELS

/* DUE: a host item whose turn has come. TOLD: and its process knows. OVER: ran to its end in the step being taken. */
enum { ITEM_FREE = 0, ITEM_QUEUED = 1, ITEM_DUE = 2, ITEM_TOLD = 3, ITEM_OVER = 4 };
enum { STREAM_FREE = 0, STREAM_OPEN = 1, STREAM_CLOSING = 2 };

/* Between two stores of which the first must be seen if the second is: a killed process leaves all that came before in
   program order, so only the compiler has to be held. A test build kills itself here. */
#ifdef ENGINE_STEP_HOOK
void ENGINE_STEP_HOOK(void);
#define STEP() do { atomic_signal_fence(memory_order_seq_cst); ENGINE_STEP_HOOK(); } while (0)
#else
#define STEP() atomic_signal_fence(memory_order_seq_cst)
#endif

/* How the compute part and the links are divided at one moment. */
struct share {
    uint64_t width[LEVELS]; /* asked for, per priority */
    uint64_t given[LEVELS]; /* at most as much */
    uint64_t in, out;       /* copies on each link */
};

static inline bool uses_compute(uint32_t kind) { return kind >= ENGINE_KERNEL && kind <= ENGINE_COPY_DEVICE; }
static inline bool uses_link(uint32_t kind) { return kind == ENGINE_COPY_IN || kind == ENGINE_COPY_OUT; }
static inline bool takes_time(uint32_t kind) { return uses_compute(kind) || uses_link(kind); }

static inline bool bit(const uint64_t *words, uint32_t i) { return words[i / 64] >> (i % 64) & 1; }
static inline void set_bit(uint64_t *words, uint32_t i) { words[i / 64] |= 1ull << (i % 64); }
static inline void clear_bit(uint64_t *words, uint32_t i) { words[i / 64] &= ~(1ull << (i % 64)); }

/* The first bit set at or after `from`, or -1. */
static inline int next_bit(const uint64_t *words, uint32_t bits, uint32_t from)
{
    for (uint32_t w = from / 64; from < bits; from = ++w * 64) {
        uint64_t rest = words[w] >> (from % 64);
        if (rest)
            return (int)(from + (uint32_t)__builtin_ctzll(rest));
    }
    return -1;
}

#define EACH_BIT(i, words, bits) (int i = next_bit(words, bits, 0); i >= 0; i = next_bit(words, bits, (uint32_t)i + 1))
#define EACH_STREAM(s, words) EACH_BIT(s, words, ENGINE_STREAMS)
#define EACH_WAITING(c, card) EACH_BIT(c, (card)->waiting, ENGINE_CONTEXTS)
#define EACH_ACTIVE_CARD(k, engine) EACH_BIT(k, (engine)->active, ENGINE_CARDS)

static inline bool any(const uint64_t *words, uint32_t bits) { return next_bit(words, bits, 0) >= 0; }

static inline struct engine_item *head_of(struct engine_context *c, uint32_t stream)
{
    uint32_t i = c->stream[stream].head;
    return i ? &c->item[i - 1] : NULL;
}

static inline const struct engine_item *head_seen(const struct engine_context *c, uint32_t stream)
{
    uint32_t i = c->stream[stream].head;
    return i ? &c->item[i - 1] : NULL;
}

/* engine_queue.c: the queues, and which contexts and streams have work. */
struct engine_context *engine_context_of(struct engine *engine, uint32_t context);
const struct engine_context *engine_context_seen(const struct engine *engine, uint32_t context);
int engine_take_item(struct engine_context *c);
void engine_push(struct engine *engine, uint32_t context, uint32_t stream, uint32_t item);
void engine_complete(struct engine *engine, uint32_t context, uint32_t stream);
void engine_drop_all(struct engine *engine, uint32_t context);
void engine_refresh(struct engine *engine, uint32_t context, uint32_t stream);

/* engine_run.c */
void engine_settle(struct engine *engine);

#endif
