/* Nodes, edges and identities of graphs. Arrays follow one rule: without an array the number is answered; with one, as
   many as fit, the rest of it cleared. */
#include "graph.h"

struct list {
    size_t room, found;
};

static bool place(struct list *list)
{
    return list->found++ < list->room;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    LOCKED();
    REQUIRE(count, CUDA_ERROR_INVALID_VALUE);
    TRY(graph_check(graph));
    struct list list = {.room = nodes ? *count : 0};
    for (CUgraphNode node = graph->first; node; node = node->next)
        if (place(&list))
            nodes[list.found - 1] = node;
    for (size_t at = list.found; at < list.room; ++at)
        nodes[at] = NULL;
    *count = list.found;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    LOCKED();
    REQUIRE(count, CUDA_ERROR_INVALID_VALUE);
    TRY(graph_check(graph));
    struct list list = {.room = nodes ? *count : 0};
    for (CUgraphNode node = graph->first; node; node = node->next)
        if (!node->dependency_count && place(&list))
            nodes[list.found - 1] = node;
    for (size_t at = list.found; at < list.room; ++at)
        nodes[at] = NULL;
    *count = list.found;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges, size_t *count)
{
    LOCKED();
    REQUIRE(count && !from == !to, CUDA_ERROR_INVALID_VALUE);
    TRY(graph_check(graph));
    struct list list = {.room = from ? *count : 0};
    for (CUgraphNode node = graph->first; node; node = node->next) {
        for (size_t at = 0; at < node->dependency_count; ++at) {
            if (!place(&list))
                continue;
            from[list.found - 1] = node->dependencies[at];
            to[list.found - 1] = node;
            if (edges)
                edges[list.found - 1] = node->edges[at];
        }
    }
    *count = list.found;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    return cuGraphGetEdges_v2(graph, from, to, NULL, count);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *dependencies, CUgraphEdgeData *edges,
                                       size_t *count)
{
    LOCKED();
    REQUIRE(count, CUDA_ERROR_INVALID_VALUE);
    TRY(node_check(node));
    struct list list = {.room = dependencies ? *count : 0};
    for (size_t at = 0; at < node->dependency_count; ++at) {
        if (!place(&list))
            continue;
        dependencies[at] = node->dependencies[at];
        if (edges)
            edges[at] = node->edges[at];
    }
    for (size_t at = list.found; at < list.room; ++at)
        dependencies[at] = NULL;
    *count = list.found;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *dependencies, size_t *count)
{
    return cuGraphNodeGetDependencies_v2(node, dependencies, NULL, count);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *dependents, CUgraphEdgeData *edges,
                                         size_t *count)
{
    LOCKED();
    REQUIRE(count, CUDA_ERROR_INVALID_VALUE);
    TRY(node_check(node));
    struct list list = {.room = dependents ? *count : 0};
    for (CUgraphNode other = node->graph->first; other; other = other->next) {
        for (size_t at = 0; at < other->dependency_count; ++at) {
            if (other->dependencies[at] != node || !place(&list))
                continue;
            dependents[list.found - 1] = other;
            if (edges)
                edges[list.found - 1] = other->edges[at];
        }
    }
    for (size_t at = list.found; at < list.room; ++at)
        dependents[at] = NULL;
    *count = list.found;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *dependents, size_t *count)
{
    return cuGraphNodeGetDependentNodes_v2(node, dependents, NULL, count);
}

#define NODE_FACT(out)                                                                                             \
    LOCKED();                                                                                                      \
    REQUIRE(out, CUDA_ERROR_INVALID_VALUE);                                                                        \
    TRY(node_check(node))

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    NODE_FACT(type);
    *type = node->params.type;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetContainingGraph(CUgraphNode node, CUgraph *graph)
{
    NODE_FACT(graph);
    *graph = node->graph;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetLocalId(CUgraphNode node, unsigned int *id)
{
    NODE_FACT(id);
    *id = node->id;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetToolsId(CUgraphNode node, unsigned long long *id)
{
    NODE_FACT(id);
    *id = (unsigned long long)node->graph->id << 32 | node->id;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetId(CUgraph graph, unsigned int *id)
{
    LOCKED();
    REQUIRE(id, CUDA_ERROR_INVALID_VALUE);
    TRY(graph_check(graph));
    *id = graph->id;
    return CUDA_SUCCESS;
}
