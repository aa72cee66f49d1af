/* Executable graphs: made, switched node by node, destroyed. */
#include "graph.h"

#include <stdlib.h>

#define INSTANTIATE_FLAGS                                                                                          \
    (CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |                        \
     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

static unsigned exec_ids;

CUresult exec_check(CUgraphExec exec)
{
    return handle_is(exec, HANDLE_EXEC) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream handle)
{
    CUstream stream;

    LOCKED();
    TRY(exec_check(exec));
    TRY(stream_resolve(handle, &stream));
    return stream->capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph, cuuint64_t flags)
{
    LOCKED();
    REQUIRE(out && !(flags & ~(cuuint64_t)INSTANTIATE_FLAGS), CUDA_ERROR_INVALID_VALUE);
    TRY(graph_check(graph));
    REQUIRE(!graph->has_memory_nodes || !graph->instantiated, CUDA_ERROR_NOT_SUPPORTED);
    CUgraphExec exec = handle_new(sizeof *exec, HANDLE_EXEC);
    REQUIRE(exec, CUDA_ERROR_OUT_OF_MEMORY);
    exec->graph = graph_clone(graph);
    CUresult ordered = exec->graph ? graph_order(exec->graph, &exec->order) : CUDA_ERROR_OUT_OF_MEMORY;
    if (ordered != CUDA_SUCCESS) {
        if (exec->graph)
            graph_free(exec->graph);
        handle_free(exec);
        return ordered;
    }
    exec->source = graph;
    exec->flags = flags;
    exec->id = ++exec_ids;
    graph->instantiated = graph->has_memory_nodes;
    *out = exec;
    return objects_clone(exec->graph, graph);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    return instantiate(exec, graph, flags);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    REQUIRE(params, CUDA_ERROR_INVALID_VALUE);
    CUresult made = instantiate(exec, graph, params->flags);
    params->hErrNode_out = NULL;
    params->result_out = made == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return made;
}

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t size)
{
    if (error_node)
        *error_node = NULL;
    if (log && size)
        *log = 0;
    return instantiate(exec, graph, 0);
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t size)
{
    return cuGraphInstantiate_v2(exec, graph, error_node, log, size);
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    struct held_object *objects;

    READY();
    {
        LOCKED();
        TRY(exec_check(exec));
        if (handle_is(exec->source, HANDLE_GRAPH))
            exec->source->instantiated = false;
        objects = objects_take(exec->graph);
        graph_free(exec->graph);
        free(exec->order);
        handle_free(exec);
    }
    objects_put(objects);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
    LOCKED();
    REQUIRE(flags, CUDA_ERROR_INVALID_VALUE);
    TRY(exec_check(exec));
    *flags = exec->flags;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecGetId(CUgraphExec exec, unsigned int *id)
{
    LOCKED();
    REQUIRE(id, CUDA_ERROR_INVALID_VALUE);
    TRY(exec_check(exec));
    *id = exec->id;
    return CUDA_SUCCESS;
}

CUgraphNode exec_node_of(CUgraphExec exec, CUgraphNode node)
{
    CUgraphNode own = exec->graph->first;

    while (own && own->original != node)
        own = own->next;
    return own;
}

static CUresult switchable(CUgraphExec exec, CUgraphNode node, CUgraphNode *own)
{
    TRY(exec_check(exec));
    *own = exec_node_of(exec, node);
    REQUIRE(*own, CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeType type = (*own)->params.type;
    REQUIRE(type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
            type == CU_GRAPH_NODE_TYPE_MEMSET, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int enabled)
{
    CUgraphNode own;

    LOCKED();
    TRY(switchable(exec, node, &own));
    own->disabled = !enabled;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int *enabled)
{
    CUgraphNode own;

    LOCKED();
    REQUIRE(enabled, CUDA_ERROR_INVALID_VALUE);
    TRY(switchable(exec, node, &own));
    *enabled = !own->disabled;
    return CUDA_SUCCESS;
}
