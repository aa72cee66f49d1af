/* The launch of an executable graph.

   It is one piece of work for the engine that takes as long as the graph's longest path; where host functions, events or
   waits lie in it, it is cut there. */
#include "copies/transfer_submit.h"
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "devices/card.h"
#include "memory/memory.h"
#include "streams/jobs.h"

/* What a launch does, in order, once the lock is given back. */
enum step_kind { STEP_TIME, STEP_TRANSFER, STEP_FILL, STEP_HOST, STEP_RECORD, STEP_WAIT, STEP_VALUES, STEP_FAULT };

struct step {
    enum step_kind kind;
    union {
        struct {
            uint64_t ns;
            uint32_t launches;
        } time;
        struct transfer transfer;
        struct fill fill;
        CUDA_HOST_NODE_PARAMS_v2 host;
        CUevent event;
        struct {
            CUstreamBatchMemOpParams *operations;
            unsigned count;
        } values;
    };
};

struct plan {
    struct step *steps;
    size_t count, room;
    uint64_t end_ns, flushed_ns;
    uint32_t launches;
    int device;
    bool again;
};

static CUresult add_step(struct plan *plan, const struct step *step)
{
    if (plan->count == plan->room) {
        size_t room = plan->room ? plan->room * 2 : 16;
        struct step *more = realloc(plan->steps, room * sizeof *more);
        REQUIRE(more, CUDA_ERROR_OUT_OF_MEMORY);
        plan->steps = more;
        plan->room = room;
    }
    plan->steps[plan->count++] = *step;
    return CUDA_SUCCESS;
}

static CUresult flush_time(struct plan *plan)
{
    struct step step = {.kind = STEP_TIME};

    if (plan->end_ns == plan->flushed_ns && !plan->launches)
        return CUDA_SUCCESS;
    step.time.ns = plan->end_ns - plan->flushed_ns;
    step.time.launches = plan->launches;
    plan->flushed_ns = plan->end_ns;
    plan->launches = 0;
    return add_step(plan, &step);
}

static CUresult plan_graph(struct plan *plan, CUgraphNode *order, uint64_t start_ns, uint64_t *end_ns);

static CUresult plan_child(struct plan *plan, CUgraph child, uint64_t start_ns, uint64_t *end_ns)
{
    CUgraphNode *order;

    TRY(graph_order(child, &order));
    CUresult planned = plan_graph(plan, order, start_ns, end_ns);
    free(order);
    return planned;
}

static CUresult plan_kernel(struct plan *plan, CUgraphNode node, uint64_t *ns)
{
    struct step fault = {.kind = STEP_FAULT};

    *ns = node->cost.ns;
    ++plan->launches;
    return node->cost.faults ? add_step(plan, &fault) : CUDA_SUCCESS;
}

static CUresult plan_values(struct plan *plan, CUgraphNode node)
{
    struct step step = {.kind = STEP_VALUES};
    size_t bytes = node->params.memOp.count * sizeof *step.values.operations;

    TRY(flush_time(plan));
    step.values.count = node->params.memOp.count;
    step.values.operations = malloc(bytes);
    REQUIRE(step.values.operations, CUDA_ERROR_OUT_OF_MEMORY);
    memcpy(step.values.operations, node->operations, bytes);
    return add_step(plan, &step);
}

static CUresult plan_node(struct plan *plan, CUgraphNode node, uint64_t *ns)
{
    struct step step = {.kind = STEP_TIME};
    CUgraphNodeParams *params = &node->params;

    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return plan_kernel(plan, node, ns);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        step.kind = STEP_TRANSFER;
        TRY(transfer_from(&params->memcpy.copyParams, &step.transfer));
        *ns = transfer_ns(plan->device, &step.transfer);
        return step.transfer.width ? add_step(plan, &step) : CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        step.kind = STEP_FILL;
        step.fill = (struct fill){
            (char *)params->memset.dst, params->memset.pitch, params->memset.width, params->memset.height,
            params->memset.value, params->memset.elementSize,
        };
        TRY(fill_check(&step.fill));
        *ns = fill_ns(plan->device, &step.fill);
        return add_step(plan, &step);
    case CU_GRAPH_NODE_TYPE_HOST:
        step.kind = STEP_HOST;
        step.host = params->host;
        break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        step.kind = STEP_RECORD;
        step.event = params->eventRecord.event;
        break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        step.kind = STEP_WAIT;
        step.event = params->eventWait.event;
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return graph_memory_start(params->alloc.dptr, plan->again);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return graph_memory_end(params->free.dptr);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return plan_values(plan, node);
    default:
        return CUDA_SUCCESS;
    }
    TRY(flush_time(plan));
    return add_step(plan, &step);
}

static CUresult plan_graph(struct plan *plan, CUgraphNode *order, uint64_t start_ns, uint64_t *end_ns)
{
    *end_ns = start_ns;
    for (; *order; ++order) {
        CUgraphNode node = *order;
        uint64_t begin_ns = start_ns, ns = 0;
        for (size_t at = 0; at < node->dependency_count; ++at)
            if (node->dependencies[at]->finish_ns > begin_ns)
                begin_ns = node->dependencies[at]->finish_ns;
        node->finish_ns = begin_ns;
        if (!node->disabled && node->params.type == CU_GRAPH_NODE_TYPE_GRAPH)
            TRY(plan_child(plan, node->child, begin_ns, &node->finish_ns));
        else if (!node->disabled)
            TRY(plan_node(plan, node, &ns));
        node->finish_ns += ns;
        if (node->finish_ns > *end_ns)
            *end_ns = node->finish_ns;
        if (*end_ns > plan->end_ns)
            plan->end_ns = *end_ns;
    }
    return CUDA_SUCCESS;
}

static void plan_free(struct plan *plan)
{
    for (size_t at = 0; at < plan->count; ++at)
        if (plan->steps[at].kind == STEP_VALUES)
            free(plan->steps[at].values.operations);
    free(plan->steps);
}

static CUresult run_step(const struct step *step, const struct target *target, CUstream stream)
{
    struct job job = {.target = *target};
    struct engine_work work = {.kind = ENGINE_GRAPH, .event = ENGINE_NO_EVENT};

    switch (step->kind) {
    case STEP_TIME:
        work.duration_ns = step->time.ns;
        work.launches = step->time.launches;
        return submit(target, &work, NULL);
    case STEP_TRANSFER:
        job.kind = JOB_TRANSFER;
        job.transfer = step->transfer;
        return data_move(&job);
    case STEP_FILL:
        job.kind = JOB_FILL;
        job.fill = step->fill;
        return data_move(&job);
    case STEP_HOST:
        job.kind = JOB_FUNCTION;
        job.call.function = step->host.fn;
        job.call.data = step->host.userData;
        return job_submit(&job, NULL);
    case STEP_RECORD:
        return event_record(step->event, target);
    case STEP_WAIT:
        return event_wait(step->event, target);
    case STEP_VALUES:
        return cuStreamBatchMemOp_v2(stream, step->values.count, step->values.operations, 0);
    case STEP_FAULT:
        job.kind = JOB_FAULT;
        return job_submit(&job, NULL);
    }
    return CUDA_ERROR_UNKNOWN;
}

/* Launches of one executable graph come one after the other, whatever their streams. */
static CUresult run_plan(struct plan *plan, const struct target *target, CUstream stream,
                         const struct engine_ticket *before, struct engine_ticket *after)
{
    struct engine_work wait = {.kind = ENGINE_WAIT, .event = ENGINE_NO_EVENT, .after = *before};

    if (before->seq)
        TRY(submit(target, &wait, NULL));
    for (size_t at = 0; at < plan->count; ++at)
        TRY(run_step(&plan->steps[at], target, stream));
    return submit_for(target, ENGINE_NOTHING, 0, after);
}

static CUresult prepare(CUgraphExec exec, CUstream handle, struct plan *plan, struct target *target,
                        struct engine_ticket *before, bool *captured)
{
    CUstream stream;
    uint64_t end_ns;

    LOCKED();
    TRY(exec_check(exec));
    TRY(stream_resolve(handle, &stream));
    TRY(capture_refuses_legacy(stream));
    *target = stream_target(stream);
    *captured = capture_is_active(stream);
    if (*captured) {
        CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = {.graph = exec->graph}};
        return capture_node(stream, &node);
    }
    TRY(card_health(target->device));
    plan->device = target->device;
    plan->again = exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    TRY(plan_graph(plan, exec->order, 0, &end_ns));
    *before = exec->last_stream == target->stream ? (struct engine_ticket){0} : exec->last;
    return flush_time(plan);
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    struct plan plan = {0};
    struct target target;
    struct engine_ticket before, after;
    bool captured = false;

    CUresult launched = prepare(exec, stream, &plan, &target, &before, &captured);
    if (launched == CUDA_SUCCESS && !captured)
        launched = run_plan(&plan, &target, stream, &before, &after);
    plan_free(&plan);
    if (launched != CUDA_SUCCESS || captured)
        return launched;
    LOCKED();
    if (handle_is(exec, HANDLE_EXEC)) {
        exec->last = after;
        exec->last_stream = target.stream;
    }
    return CUDA_SUCCESS;
}
