/* The streams as one kind of node sees them, laid out so that the next claim that fits is found without looking at those
 * that do not.
 *
 * What is left of a node only shrinks, so the claims that still fit are those below two lines: one through processors, one
 * through cards. For each line at each height, and each stream, a bit set says which places of the stream are below it; the
 * places that fit are the bits that both sets have. */
#ifndef GPUPOOL_SCHEDULER_STREAM_MENU_H
#define GPUPOOL_SCHEDULER_STREAM_MENU_H

#include <stdbool.h>

#include "scheduler.h"

struct entry {
    int32_t cpu;   /* in grains, rounded up */
    int16_t count, milli, need;
};

/* Claims of several shares sit on no line of cards: whether they fit is asked for each of them. */
struct several {
    int16_t count, milli;
    uint64_t *places; /* streams * words */
};

/* A class that may run: with it comes how often it is expected. */
struct able {
    struct entry entry;
    int64_t weight;
};

struct stream_menu {
    int64_t streams, words;
    struct entry *entries;              /* streams * 64 * words */
    int32_t *cpus, *widths;             /* the heights of the two lines, ascending */
    int cpu_heights, width_heights, severals;
    uint64_t *below_cpu, *below_width;  /* [stream][height 0 .. heights][word]: places below so many heights */
    struct several *several;
    struct able *ables; /* where there are no streams */
    int ables_size;
    const int64_t *cuts; /* by size: the caller's, read while a menu lives */
    int16_t least_need, most_need, most_milli; /* by thousandths of memory; most: of the class with most to its compute */
    bool by_memory;
    int16_t least_milli; /* the smallest share: parts below it are of no use */
};

/* False: no memory; then nothing is left to free. */
int stream_menu_open(struct stream_menu *menu, const struct kernel_classes *expected, int64_t kinds, int64_t kind,
              const struct stream_rules *rules);
void stream_menu_close(struct stream_menu *menu);

#endif
