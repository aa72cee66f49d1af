#include "gpu_clock.h"

#define SECOND_NS 1000000000
#define FAR_NS INT64_C(1000000000000)
#define DOUBT_PPB 5000 /* of any rate: a bound that was wrong by microseconds is given up within seconds */

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t apart(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

static int64_t middle(int64_t a, int64_t b, int64_t c)
{
    return larger(smaller(a, b), smaller(larger(a, b), c));
}

static int64_t bounded(int64_t value, int64_t bound)
{
    return larger(-bound, smaller(value, bound));
}

/* What the bounds have moved by since they were written down. */
static int64_t moved(const struct gpu_clock *clock, uint64_t host)
{
    return bounded((int64_t)(host - clock->now.at_ns), INT64_C(1000) * SECOND_NS) * clock->rate_ppb / SECOND_NS;
}

static void begin(struct gpu_clock *clock, int64_t least, int64_t most, uint64_t host)
{
    clock->is_set = true;
    clock->now = (struct gpu_clock_bounds){host, least, most};
    clock->below_ns = clock->above_ns = FAR_NS;
}

static void remember(struct gpu_clock *clock, const struct gpu_clock_bounds *found)
{
    if (clock->first.at_ns == 0)
        clock->first = *found;
    if (clock->next.at_ns != 0 && found->at_ns - clock->next.at_ns < GPU_CLOCK_MEMORY_NS)
        return;
    if (clock->next.at_ns != 0)
        clock->first = clock->next;
    clock->next = *found;
}

static int64_t rate_between(int64_t from, int64_t to, int64_t passed)
{
    return bounded(bounded(to - from, SECOND_NS) * SECOND_NS / passed, GPU_CLOCK_DRIFT_PPB);
}

/* A bound that stays further off than the clocks can go apart was taken of an event that waited, or was looked at late. */
static bool is_near(int64_t distance, int64_t passed)
{
    return distance <= passed * GPU_CLOCK_DRIFT_PPB / SECOND_NS;
}

/* Learns the rate, and returns by how much it changed. */
static int64_t learn_rate(struct gpu_clock *clock, const struct gpu_clock_bounds *found, int64_t passed)
{
    int64_t since = (int64_t)(found->at_ns - clock->first.at_ns), before = clock->rate_ppb;
    int64_t by_least = rate_between(clock->first.least_ns, found->least_ns, since);
    int64_t by_most = rate_between(clock->first.most_ns, found->most_ns, since);
    if (!is_near(clock->below_ns, passed))
        by_least = by_most;
    if (!is_near(clock->above_ns, passed))
        by_most = by_least;
    clock->rate_ppb = middle(by_least, by_most, before);
    return clock->rate_ppb - before;
}

/* Bounds that none of the span came near are loosened: by what a wrong rate made of them, and a little in any case. */
static void loosen(struct gpu_clock_bounds *now, const struct gpu_clock *clock, int64_t passed, int64_t change)
{
    int64_t since = clock->first.at_ns ? (int64_t)(now->at_ns - clock->first.at_ns) + passed : 0;
    int64_t by = (passed * DOUBT_PPB + since * apart(change, 0)) / SECOND_NS, moved_by = passed * change / SECOND_NS;
    if (is_near(clock->below_ns, passed))
        now->least_ns -= smaller(clock->below_ns, by) + larger(0, -moved_by);
    if (is_near(clock->above_ns, passed))
        now->most_ns += smaller(clock->above_ns, by) + larger(0, moved_by);
}

static void end_span(struct gpu_clock *clock, uint64_t host)
{
    int64_t passed = (int64_t)(host - clock->now.at_ns), move = moved(clock, host), change = 0;
    struct gpu_clock_bounds now = {host, clock->now.least_ns + move, clock->now.most_ns + move};
    struct gpu_clock_bounds found = {host, now.least_ns - clock->below_ns, now.most_ns + clock->above_ns};
    bool is_below = is_near(clock->below_ns, passed), is_above = is_near(clock->above_ns, passed);
    if (clock->first.at_ns && (is_below || is_above))
        change = learn_rate(clock, &found, passed);
    loosen(&now, clock, passed, change);
    if (is_below && is_above)
        remember(clock, &found);
    begin(clock, now.least_ns, now.most_ns, host);
}

void gpu_clock_recorded(struct gpu_clock *clock, int64_t position, uint64_t host)
{
    int64_t off = (int64_t)host - position;
    if (!clock->is_set)
        begin(clock, off, off + FAR_NS, host);
    if (host >= clock->now.at_ns + GPU_CLOCK_SPAN_NS)
        end_span(clock, host);
    off -= moved(clock, host);
    clock->below_ns = larger(0, smaller(clock->below_ns, clock->now.least_ns - off));
    clock->now.least_ns = larger(clock->now.least_ns, off);
    clock->now.most_ns = larger(clock->now.most_ns, off); /* bounds that exclude each other: the newest is believed */
}

void gpu_clock_seen(struct gpu_clock *clock, int64_t position, uint64_t host)
{
    int64_t off = (int64_t)host - position;
    if (!clock->is_set)
        begin(clock, off - FAR_NS, off, host);
    off -= moved(clock, host);
    clock->above_ns = larger(0, smaller(clock->above_ns, off - clock->now.most_ns));
    clock->now.most_ns = smaller(clock->now.most_ns, off);
    clock->now.least_ns = smaller(clock->now.least_ns, off);
}

uint64_t gpu_clock_host(const struct gpu_clock *clock, int64_t position, bool is_contended)
{
    int64_t off = clock->now.least_ns;
    if (is_contended)
        off = larger(off, clock->now.most_ns - GPU_CLOCK_LATE_NS);
    int64_t about = position + off;
    int64_t at = about + moved(clock, about > 0 ? (uint64_t)about : 0);
    return at > 0 ? (uint64_t)at : 0;
}
