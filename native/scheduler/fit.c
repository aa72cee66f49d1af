/* Which cards can take a shape, judged again on the nodes that changed (src/gpupool/scheduling/filtering/feasibility.py holds the rules
 * and the reasons). */
#include <stdbool.h>

#include "scheduler.h"

static int8_t judge(const struct kernel_fit *fit, int64_t row)
{
    int64_t milli = fit->milli[row], size = fit->size[row];
    if (fit->fixed[row])
        return fit->fixed[row];
    if (fit->whole && (milli < KERNEL_WHOLE || size < fit->memory[row]))
        return fit->not_whole;
    if (!fit->whole && fit->held && milli < fit->held)
        return fit->compute;
    return size < fit->need[row * fit->need_stride] ? fit->no_memory : 0;
}

static void look(const struct kernel_fit *fit, int64_t node)
{
    bool processors = fit->cpu[node] >= fit->asked_cpu, main_memory = fit->host[node] >= fit->asked_host;
    int8_t lacking = !processors ? fit->no_cpu : !main_memory ? fit->no_host : 0;
    int64_t fitting = 0;
    for (int64_t at = node * fit->width; at < node * fit->width + fit->cards[node]; at++) {
        int8_t why = judge(fit, fit->rows[at]);
        why = why ? why : lacking;
        fit->why[fit->rows[at]] = why;
        fitting += !why;
    }
    fit->fitting[node] = fitting;
    fit->roomy[node] = fitting >= fit->count && !lacking;
}

int64_t fit_look(const struct kernel_fit *fit, const int64_t *nodes, int64_t n, int64_t call)
{
    int64_t looked_at = 0;
    for (int64_t at = 0; at < n; at++) {
        if (fit->looked[nodes[at]] == call)
            continue; /* what changed several times is listed several times */
        fit->looked[nodes[at]] = call;
        look(fit, nodes[at]);
        looked_at += fit->cards[nodes[at]];
    }
    return looked_at;
}
