#include "graphs.h"

#include <pthread.h>
#include <stdlib.h>

#include "account.h"
#include "cards.h"
#include "charge.h"
#include "guard.h"
#include "real.h"
#include "state.h"

#define DEEPEST 16 /* graphs in graphs; the driver's own rule is one */

/* Bytes of memory nodes by card. */
struct needs {
    uint64_t card[FENCE_MAX_DEVICES];
    bool any;
};

struct graphs {
    pthread_mutex_t lock;
    struct {
        uint64_t live, charged;
    } card[FENCE_MAX_DEVICES];
};

static _Atomic(struct graphs *) own_graphs;

static struct graphs *lock_graphs(void)
{
    struct graphs *found = atomic_load(&own_graphs);
    if (!found) {
        struct graphs *made = fence_process_memory(sizeof *made);
        if (!made)
            return NULL;
        found = atomic_compare_exchange_strong(&own_graphs, &found, made) ? made : found;
    }
    pthread_mutex_lock(&found->lock);
    return found;
}

static uint64_t reserved_by_driver(int card)
{
    cuuint64_t bytes = 0;
    CUdevice device = card_device(card);
    bool told = device >= 0 && fence_real.cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
                                                                       &bytes) == CUDA_SUCCESS;
    return told ? bytes : 0;
}

/* With the lock. */
static void settle(struct graphs *graphs, int card)
{
    uint64_t reserved = reserved_by_driver(card), live = graphs->card[card].live, old = graphs->card[card].charged;
    uint64_t wanted = reserved > live ? reserved : live;
    if (wanted > old)
        account_charge(card, wanted - old);
    else if (wanted < old)
        account_release(card, old - wanted);
    graphs->card[card].charged = wanted;
}

void graphs_settle(int card)
{
    struct graphs *graphs = atomic_load(&own_graphs) ? lock_graphs() : NULL;
    if (!graphs)
        return;
    settle(graphs, card);
    pthread_mutex_unlock(&graphs->lock);
}

bool graphs_give_back(int card)
{
    struct graphs *graphs = atomic_load(&own_graphs) ? lock_graphs() : NULL;
    if (!graphs)
        return false;
    uint64_t before = graphs->card[card].charged;
    CUdevice device = card_device(card);
    if (device >= 0)
        fence_real.cuDeviceGraphMemTrim(device);
    settle(graphs, card);
    bool gave = graphs->card[card].charged < before;
    pthread_mutex_unlock(&graphs->lock);
    return gave;
}

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
        if (needs->card[card] && !account_reserve(card, needs->card[card])) {
            cancel_first(needs, card);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    return CUDA_SUCCESS;
}

/* Charges or discharges what an executable graph needs; the reservations are undone, since settling charges. */
static void change_live(const struct needs *needs, bool more)
{
    struct graphs *graphs = lock_graphs();
    for (int card = 0; graphs && card < (int)FENCE_MAX_DEVICES; card++) {
        if (!needs->card[card])
            continue;
        graphs->card[card].live += more ? needs->card[card] : -needs->card[card];
        settle(graphs, card);
    }
    if (graphs)
        pthread_mutex_unlock(&graphs->lock);
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
        graphs_settle(card);
    return fence_leave(result);
}
