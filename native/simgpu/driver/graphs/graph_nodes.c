/* Graphs as a structure: nodes, their dependencies, copies of them, and what can be asked about these. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "devices/card.h"

static unsigned graph_ids;

CUgraph graph_new(void)
{
    CUgraph graph = handle_new(sizeof *graph, HANDLE_GRAPH);

    if (graph)
        graph->id = ++graph_ids;
    return graph;
}

CUresult graph_check(CUgraph graph)
{
    return handle_is(graph, HANDLE_GRAPH) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult node_check(CUgraphNode node)
{
    return handle_is(node, HANDLE_NODE) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult node_depend(CUgraphNode node, CUgraphNode on, const CUgraphEdgeData *edge)
{
    size_t count = node->dependency_count;

    CUgraphNode *more = realloc(node->dependencies, (count + 1) * sizeof *more);
    REQUIRE(more, CUDA_ERROR_OUT_OF_MEMORY);
    node->dependencies = more;
    CUgraphEdgeData *edges = realloc(node->edges, (count + 1) * sizeof *edges);
    REQUIRE(edges, CUDA_ERROR_OUT_OF_MEMORY);
    node->edges = edges;
    more[count] = on;
    edges[count] = edge ? *edge : (CUgraphEdgeData){0};
    node->dependency_count = count + 1;
    return CUDA_SUCCESS;
}

static void drop_dependency(CUgraphNode node, CUgraphNode on)
{
    for (size_t at = 0; at < node->dependency_count; ++at) {
        if (node->dependencies[at] != on)
            continue;
        --node->dependency_count;
        memmove(&node->dependencies[at], &node->dependencies[at + 1], (node->dependency_count - at) * sizeof(CUgraphNode));
        memmove(&node->edges[at], &node->edges[at + 1], (node->dependency_count - at) * sizeof *node->edges);
        --at;
    }
}

static CUgraphNode node_new(CUgraph graph)
{
    CUgraphNode node = handle_new(sizeof *node, HANDLE_NODE);

    if (!node)
        return NULL;
    node->graph = graph;
    node->id = graph->node_ids++;
    node->previous = graph->last;
    if (graph->last)
        graph->last->next = node;
    else
        graph->first = node;
    graph->last = node;
    ++graph->count;
    return node;
}

static void node_free(CUgraphNode node)
{
    node_release(node);
    free(node->dependencies);
    free(node->edges);
    handle_free(node);
}

void node_remove(CUgraphNode node)
{
    CUgraph graph = node->graph;

    for (CUgraphNode other = graph->first; other; other = other->next)
        drop_dependency(other, node);
    if (node->previous)
        node->previous->next = node->next;
    else
        graph->first = node->next;
    if (node->next)
        node->next->previous = node->previous;
    else
        graph->last = node->previous;
    --graph->count;
    node_free(node);
}

void graph_free(CUgraph graph)
{
    while (graph->first) {
        CUgraphNode node = graph->first;
        graph->first = node->next;
        node_free(node);
    }
    handle_free(graph);
}

/* `params` is written to where a node gives something back: the address of an allocation. */
CUresult graph_add(CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t count,
                   CUgraphNodeParams *params, CUgraphNode *out)
{
    for (size_t at = 0; at < count; ++at) {
        TRY(node_check(dependencies[at]));
        REQUIRE(dependencies[at]->graph == graph, CUDA_ERROR_INVALID_VALUE);
    }
    CUgraphNode node = node_new(graph);
    REQUIRE(node, CUDA_ERROR_OUT_OF_MEMORY);
    node->params.type = params->type;
    CUresult added = params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? graph_memory_new(&params->alloc) : CUDA_SUCCESS;
    if (added == CUDA_SUCCESS)
        added = node_set(node, params);
    for (size_t at = 0; at < count && added == CUDA_SUCCESS; ++at)
        added = node_depend(node, dependencies[at], edges ? &edges[at] : NULL);
    if (added != CUDA_SUCCESS) {
        node_remove(node);
        return added;
    }
    if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || params->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        graph->has_memory_nodes = true;
    *out = node;
    return CUDA_SUCCESS;
}

static CUgraphNode counterpart(CUgraph clone, CUgraphNode original)
{
    CUgraphNode node = clone->first;

    while (node && node->original != original)
        node = node->next;
    return node;
}

static CUresult copy_node(CUgraph clone, CUgraphNode node)
{
    CUgraphNode copy = node_new(clone);

    REQUIRE(copy, CUDA_ERROR_OUT_OF_MEMORY);
    node->copy = copy;
    copy->original = node;
    copy->params.type = node->params.type;
    copy->disabled = node->disabled;
    copy->priority = node->priority;
    copy->window = node->window;
    copy->cooperative = node->cooperative;
    TRY(node_set(copy, &node->params));
    copy->cost = node->cost;
    return CUDA_SUCCESS;
}

static CUresult copy_all(CUgraph clone, CUgraph graph)
{
    for (CUgraphNode node = graph->first; node; node = node->next)
        TRY(copy_node(clone, node));
    for (CUgraphNode node = graph->first; node; node = node->next)
        for (size_t at = 0; at < node->dependency_count; ++at)
            TRY(node_depend(node->copy, node->dependencies[at]->copy, &node->edges[at]));
    return CUDA_SUCCESS;
}

CUgraph graph_clone(CUgraph graph)
{
    CUgraph clone = graph_new();

    if (!clone)
        return NULL;
    clone->has_memory_nodes = graph->has_memory_nodes;
    if (copy_all(clone, graph) == CUDA_SUCCESS)
        return clone;
    graph_free(clone);
    return NULL;
}

/* Depth first; a node that is met while it is being visited lies on a cycle. */
static bool visit(CUgraphNode node, CUgraphNode *order, size_t *placed)
{
    if (node->visit)
        return node->visit == 2;
    node->visit = 1;
    for (size_t at = 0; at < node->dependency_count; ++at)
        if (!visit(node->dependencies[at], order, placed))
            return false;
    node->visit = 2;
    order[(*placed)++] = node;
    return true;
}

CUresult graph_order(CUgraph graph, CUgraphNode **out)
{
    size_t placed = 0;
    CUgraphNode *order = malloc((graph->count + 1) * sizeof *order);

    REQUIRE(order, CUDA_ERROR_OUT_OF_MEMORY);
    for (CUgraphNode node = graph->first; node; node = node->next)
        node->visit = 0;
    for (CUgraphNode node = graph->first; node; node = node->next) {
        if (!visit(node, order, &placed)) {
            free(order);
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    order[placed] = NULL;
    *out = order;
    return CUDA_SUCCESS;
}

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
    LOCKED();
    REQUIRE(graph && !flags, CUDA_ERROR_INVALID_VALUE);
    *graph = graph_new();
    return *graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    struct held_object *objects;

    READY();
    {
        LOCKED();
        TRY(graph_check(graph));
        REQUIRE(!graph->owner, CUDA_ERROR_INVALID_VALUE);
        objects = objects_take(graph);
        graph_free(graph);
    }
    objects_put(objects);
    return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph *clone, CUgraph graph)
{
    LOCKED();
    REQUIRE(clone, CUDA_ERROR_INVALID_VALUE);
    TRY(graph_check(graph));
    REQUIRE(!graph->has_memory_nodes, CUDA_ERROR_NOT_SUPPORTED);
    *clone = graph_clone(graph);
    REQUIRE(*clone, CUDA_ERROR_OUT_OF_MEMORY);
    return objects_clone(*clone, graph);
}

CUresult cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph clone)
{
    LOCKED();
    REQUIRE(out, CUDA_ERROR_INVALID_VALUE);
    TRY(node_check(original));
    TRY(graph_check(clone));
    *out = counterpart(clone, original);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphDestroyNode(CUgraphNode node)
{
    LOCKED();
    TRY(node_check(node));
    REQUIRE(node->params.type != CU_GRAPH_NODE_TYPE_MEM_ALLOC && node->params.type != CU_GRAPH_NODE_TYPE_MEM_FREE,
            CUDA_ERROR_NOT_SUPPORTED);
    node_remove(node);
    return CUDA_SUCCESS;
}

static CUresult check_pairs(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    TRY(graph_check(graph));
    REQUIRE(!count || (from && to), CUDA_ERROR_INVALID_VALUE);
    for (size_t at = 0; at < count; ++at) {
        TRY(node_check(from[at]));
        TRY(node_check(to[at]));
        REQUIRE(from[at]->graph == graph && to[at]->graph == graph && from[at] != to[at], CUDA_ERROR_INVALID_VALUE);
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *edges, size_t count)
{
    LOCKED();
    TRY(check_pairs(graph, from, to, count));
    for (size_t at = 0; at < count; ++at)
        TRY(node_depend(to[at], from[at], edges ? &edges[at] : NULL));
    return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    return cuGraphAddDependencies_v2(graph, from, to, NULL, count);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                      const CUgraphEdgeData *edges, size_t count)
{
    LOCKED();
    (void)edges;
    TRY(check_pairs(graph, from, to, count));
    for (size_t at = 0; at < count; ++at)
        drop_dependency(to[at], from[at]);
    return CUDA_SUCCESS;
}

CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    return cuGraphRemoveDependencies_v2(graph, from, to, NULL, count);
}
