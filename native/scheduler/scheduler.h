/* The two costly placement policies, compiled: FGD and Stream Fill (docs/decisions/0006-compiled-kernel.md).
 *
 * The library decides nothing by itself and knows no job, no tenant and no clock: it reads the scheduler's columns where
 * they lie and answers with integers. All arithmetic is on integers, so that the answers are those of the same policies in
 * NumPy, bit for bit. Nothing is shared between two handles; one handle is used by one thread at a time.
 *
 * Units: milli-devices, milli-cores. Values and prices of Stream Fill are in milli-devices times a scale of its own. */
#ifndef GPUPOOL_SCHEDULER_H
#define GPUPOOL_SCHEDULER_H

#include <stdint.h>

#define KERNEL_ABI 8 /* grows with every change of what follows */
#define KERNEL_MAX_CARDS 64 /* on one node */
#define KERNEL_WHOLE 1000   /* milli-devices of a card that is free */
#define KERNEL_MAX_STREAMS 16000
#define KERNEL_NOT_FEASIBLE INT64_MIN /* among scores */
#define KERNEL_NO_CARD (-(INT64_C(1) << 62)) /* in a grid: no open card is there */

/* The scheduler's columns. They are read at every call and stay the caller's. */
struct kernel_pool {
    int64_t nodes, width, kinds;
    const int64_t *grid; /* nodes * width: what is free of each card, by index; below 0 where more is promised */
    const int64_t *rows; /* nodes * width: the card's row in columns that have one entry per card, where there is a card */
    const int64_t *cpu;  /* per node: milli-cores free */
    const int64_t *kind; /* per node: nodes of one kind are allowed to the same classes */
    const int64_t *size, *memory; /* by row: bytes free, and bytes in all; NULL where memory plays no part */
};

/* The classes that are expected: `count` cards of `milli` each and `cpu` for all, which nodes of kind `x` may take where
 * allowed[class * kinds + x] is 1. A class without cards has a count of 0. `need` is what a seat takes of a card's memory on
 * nodes of each kind, in thousandths; NULL where memory plays no part. */
struct kernel_classes {
    int64_t size;
    const int64_t *count, *milli, *cpu;
    const uint8_t *allowed;
    const int64_t *need; /* class * kinds + kind */
};

/* What is rated: a shape, and which cards it may take (0 in `why`, one byte per card). */
struct kernel_shape {
    int64_t count, milli, cpu;
    const int8_t *why;
    const int64_t *need; /* per kind of node, as for classes */
};

#pragma GCC visibility push(default)

int kernel_abi(void);

/* One shape against every card: the columns it is judged by, its demands, the code of each reason, and the answers. */
struct kernel_fit {
    int64_t width, need_stride; /* of `need`: 0 where one number is for all */
    const int64_t *rows, *cards; /* nodes * width, and how many cards each node has */
    const int64_t *milli, *size, *memory, *need; /* per card */
    const int64_t *cpu, *host;                   /* per node */
    const int8_t *fixed;                         /* per card: the reason that no change of what is free takes away */
    int64_t count, held, asked_cpu, asked_host;
    int8_t whole, not_whole, compute, no_memory, no_cpu, no_host;
    int8_t *why;      /* per card */
    int64_t *fitting; /* per node */
    uint8_t *roomy;
    int64_t *looked; /* per node: the last call that looked at it; fits may share it */
};

/* The working copy's columns, which `amounts_add` alone writes: what is free per card and per node, and the grid of what is
 * free of cards that are open, each card at its `slot`. */
struct kernel_amounts {
    int64_t *milli, *size;       /* per card */
    int64_t *cpu, *host;         /* per node */
    int64_t *grid;
    const int64_t *slot;         /* per card */
    const uint8_t *open;
};

/* Adds `sign` times so much to each of these cards, and to the node. */
void amounts_add(const struct kernel_amounts *amounts, int64_t sign, int64_t node, const int64_t *rows, int64_t n,
                 int64_t milli, const int64_t *sizes, int64_t cpu, int64_t host);

/* Judges all cards of these nodes anew, of each node once; returns how many there are. `call` is another number each time. */
int64_t fit_look(const struct kernel_fit *fit, const int64_t *nodes, int64_t n, int64_t call);

/* Many shapes against the same columns. `group` says which line of `open` (groups * cards_in_all) a shape has: the cards of the
 * kind that it asks for which are open to it. `need` is bytes of a seat, below 0 where it is `part` thousandths of the card's. */
struct kernel_rooms {
    int64_t width, cards_in_all;
    const int64_t *rows, *cards;
    const int64_t *milli, *size, *memory, *cpu, *host;
    const int64_t *count, *held, *asked_cpu, *asked_host, *need, *part, *group; /* per shape */
    int64_t *found;       /* per shape: nodes with room */
    const uint8_t *whole; /* per shape */
    const uint8_t *open;
};

/* Adds `sign` for each of these nodes that has room, for so many shapes. */
void rooms_count(const struct kernel_rooms *rooms, int64_t first, int64_t shapes, const int64_t *nodes, int64_t n, int64_t sign);

/* FGD. `weight` is how often each class is expected, in whole numbers whose sum is at most 2^31; `steps` are the least
 * D times that sum that reach the scores 1 .. 99. NULL: no memory, or a grid wider than KERNEL_MAX_CARDS. */
struct fgd;
struct fgd *fgd_open(const struct kernel_pool *pool, const struct kernel_classes *expected, const int64_t *weight,
                     const int64_t *steps);
void fgd_close(struct fgd *fgd);
void fgd_rate(struct fgd *fgd, const struct kernel_shape *shape, const int64_t *nodes, int64_t n, int64_t *scores);
/* Writes the rows of all the node's cards that may be taken, best first; returns how many, at most the grid's width. */
int64_t fgd_choose(struct fgd *fgd, const struct kernel_shape *shape, int64_t node, int64_t *rows);
/* F of the node times the sum of the weights. */
int64_t fgd_fragment(struct fgd *fgd, int64_t node);

/* Stream Fill. `streams` holds `number` sequences of `length` indices into `expected`; `quantum` is the grain of milli-cores
 * in a value (free ones are rounded down to it, asked ones up). With `weight` there are no streams: a node is worth what
 * the classes could use of it, by how often each is expected. `cuts` is added for each card while processors are left for any
 * class. The scale is `number`, or the sum of the weights. */
struct stream_rules {
    int64_t number, length, quantum; /* at most KERNEL_MAX_STREAMS */
    int64_t step;       /* of a score, times the scale */
    int64_t fresh_card; /* what a share pays that opens a free card, times the scale */
    const int16_t *streams;
    const int64_t *cuts;   /* kinds * (KERNEL_WHOLE + 1): what a part of that size is worth, times the scale */
    const int64_t *weight; /* per class; NULL: streams */
};

/* Groups of hosts that are dear: `count` free cards and `cpu` per slot, allowed[group * kinds + kind]. A host that lacks n
 * cards for one more slot, and nothing else, counts near_slot[group * lacks + n] thousandths of it; 0 < n < count < lacks. */
struct stream_hosts {
    int64_t size, lacks;
    const int64_t *count, *cpu;
    const uint8_t *allowed;
    const int64_t *price; /* per slot that is lost; read at every call */
    const int64_t *near_slot;
};

struct stream;
struct stream *stream_open(const struct kernel_pool *pool, const struct kernel_classes *expected,
                           const struct stream_rules *rules, const struct stream_hosts *hosts);
void stream_close(struct stream *stream);
/* `slot` (0 .. slots - 1, as many as the caller likes below KERNEL_MAX_SLOTS) names what is remembered of the shape between
 * calls: two shapes with one slot only make each other slow. `toll` is what the shape pays on a node of each kind. */
#define KERNEL_MAX_SLOTS 1024
void stream_rate(struct stream *stream, const struct kernel_shape *shape, int64_t slot, const int64_t *toll,
                 const int64_t *nodes, int64_t n, int64_t *scores);
int64_t stream_choose(struct stream *stream, const struct kernel_shape *shape, const int64_t *toll, int64_t node,
                      int64_t *rows);
/* The scores of one shape by rank, the one with which ties are decided; `roomy` is of its fit. Ranks are in blocks, of which the
 * highest score is kept: which node is best is then found without looking at all of them. */
#define KERNEL_BLOCK 256
struct kernel_scores {
    int64_t nodes;
    int64_t *by_rank;
    const int64_t *rank; /* per node */
    const uint8_t *roomy;
    int64_t *highest; /* per block; the caller's, not to be read: KERNEL_UNKNOWN where it is to be looked up again */
};
#define KERNEL_UNKNOWN INT64_MAX
/* The lowest rank with the highest score; -1 where no node is feasible. */
int64_t scores_best(const struct kernel_scores *scores);
/* `stream_rate` of those of these nodes that are roomy, written where they belong; others are not feasible. */
void stream_mend(struct stream *stream, const struct kernel_shape *shape, int64_t slot, const int64_t *toll,
                 const struct kernel_scores *scores, const int64_t *nodes, int64_t n);
/* What the node is worth, times the scale. */
int64_t stream_value(struct stream *stream, int64_t node);
/* How many values were computed, not remembered: for tests and figures. */
int64_t stream_computed(const struct stream *stream);

#pragma GCC visibility pop

#endif
