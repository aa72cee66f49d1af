/* The calls that make, destroy and trim executable graphs: what their memory nodes need is charged. */
#include <stdlib.h>

#include "account.h"
#include "charge.h"
#include "graph_memory.h"
#include "process/cards.h"
#include "process/real.h"
#include "process/reentry.h"
#include "process/state.h"
#include "reserve.h"

#define DEEPEST 16 /* graphs in graphs; the driver's own rule is one */

/* Bytes of memory nodes by card. */
struct needs {
    uint64_t card[FENCE_MAX_DEVICES];
    bool any;
};

static void add_nodes(CUgraph graph, struct needs *needs, int depth);

static void add_node(CUgraphNode node, struct needs *needs, int depth)
{
    CUgraphNodeType type;
    CUDA_MEM_ALLOC_NODE_PARAMS wanted = {0};
    CUgraph child;
    if (fence_real.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS)
        return;
    if (type == CU_GRAPH_NODE_TYPE_GRAPH && fence_real.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS)
        add_nodes(child, needs, depth + 1);
    if (type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || fence_real.cuGraphMemAllocNodeGetParams(node, &wanted) != CUDA_SUCCESS)
        return;
    int card = card_of_device(wanted.poolProps.location.id);
    if (card < 0)
        return;
    needs->card[card] += account_size(card, wanted.bytesize);
    needs->any = true;
}

static void add_nodes(CUgraph graph, struct needs *needs, int depth)
{
    size_t count = 0;
    if (depth > DEEPEST || fence_real.cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS || !count)
        return;
    CUgraphNode *nodes = calloc(count, sizeof *nodes);
    if (nodes && fence_real.cuGraphGetNodes(graph, nodes, &count) == CUDA_SUCCESS)
        for (size_t i = 0; i < count; i++)
            add_node(nodes[i], needs, depth);
    free(nodes);
}

static void cancel_first(const struct needs *needs, int cards)
{
    for (int card = 0; card < cards; card++)
        if (needs->card[card])
            account_cancel(card, needs->card[card]);
}

static CUresult reserve(const struct needs *needs)
{
    for (int card = 0; needs->any && card < (int)FENCE_MAX_DEVICES; card++)
        if (needs->card[card] && !reserve_memory(card, needs->card[card])) {
            cancel_first(needs, card);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    return CUDA_SUCCESS;
}

/* The reservations are undone by the caller, since settling charges. */
static void change_live(const struct needs *needs, bool more)
{
    graph_memory_change(needs->card, more);
}

static CUresult begin(CUgraph graph, struct needs *needs)
{
    *needs = (struct needs){.any = false};
    if (!fence_ready())
        return CUDA_ERROR_SYSTEM_NOT_READY;
    if (graph)
        add_nodes(graph, needs, 0);
    return reserve(needs);
}

static CUresult end(const struct needs *needs, CUresult result, const CUgraphExec *executable)
{
    if (!needs->any)
        return result;
    struct needs *kept = result == CUDA_SUCCESS ? malloc(sizeof *kept) : NULL;
    if (result == CUDA_SUCCESS)
        change_live(needs, true);
    if (kept) {
        *kept = *needs;
        handles_add(&(struct handle){.key = (uint64_t)(uintptr_t)*executable, .kind = HANDLE_GRAPH, .object = kept});
    }
    cancel_first(needs, FENCE_MAX_DEVICES);
    return result;
}

#define MAKE(executable, graph, call)                                                                                  \
    do {                                                                                                               \
        struct needs needs;                                                                                            \
        if (!fence_enter())                                                                                            \
            return call;                                                                                               \
        CUresult result = begin(graph, &needs);                                                                        \
        return fence_leave(result == CUDA_SUCCESS ? end(&needs, call, executable) : result);                           \
    } while (0)

CUresult fence_cuGraphInstantiate(CUgraphExec *executable, CUgraph graph, CUgraphNode *wrong, char *log, size_t size)
{
    MAKE(executable, graph, fence_real.cuGraphInstantiate(executable, graph, wrong, log, size));
}

CUresult fence_cuGraphInstantiate_v2(CUgraphExec *executable, CUgraph graph, CUgraphNode *wrong, char *log, size_t size)
{
    MAKE(executable, graph, fence_real.cuGraphInstantiate_v2(executable, graph, wrong, log, size));
}

CUresult fence_cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    MAKE(executable, graph, fence_real.cuGraphInstantiateWithFlags(executable, graph, flags));
}

CUresult fence_on_cuGraphInstantiateWithParams(fence_cuGraphInstantiateWithParams_function *real, CUgraphExec *executable,
                                               CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *wanted)
{
    MAKE(executable, graph, real(executable, graph, wanted));
}

CUresult fence_cuGraphExecDestroy(CUgraphExec executable)
{
    struct handle handle;
    if (!fence_enter())
        return fence_real.cuGraphExecDestroy(executable);
    bool known = charge_take(HANDLE_GRAPH, (uint64_t)(uintptr_t)executable, &handle);
    CUresult result = fence_real.cuGraphExecDestroy(executable);
    if (known && result == CUDA_SUCCESS) {
        change_live(handle.object, false);
        free(handle.object);
    } else if (known) {
        handles_add(&handle);
    }
    return fence_leave(result);
}

CUresult fence_cuDeviceGraphMemTrim(CUdevice device)
{
    if (!fence_enter())
        return fence_real.cuDeviceGraphMemTrim(device);
    CUresult result = fence_real.cuDeviceGraphMemTrim(device);
    int card = fence_ready() ? card_of_device(device) : CARD_NONE;
    if (card >= 0)
        graph_memory_settle(card);
    return fence_leave(result);
}
