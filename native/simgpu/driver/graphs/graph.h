/* Graphs: nodes that own what their parameters point to, graphs that own their nodes, executable graphs that own a clone. */
#ifndef GPUPOOL_SIMGPU_GRAPH_H
#define GPUPOOL_SIMGPU_GRAPH_H

#include "copies/transfer.h"
#include "modules/launch.h"

struct CUgraphNode_st {
    CUgraph graph;
    CUgraphNodeParams params;
    struct kernel_cost cost;            /* of a kernel */
    unsigned char *arguments;           /* of a kernel, where their sizes are known */
    void **places;
    CUstreamBatchMemOpParams *operations;
    CUgraph child;
    CUgraphNode *dependencies;
    CUgraphEdgeData *edges;
    size_t dependency_count;
    CUgraphNode original;               /* what this was cloned from; only ever compared */
    unsigned id;
    bool disabled;
    unsigned visit;                     /* of the last walk; 0: not seen */
    uint64_t finish_ns;
    CUkernelNodeAttrValue priority, window, cooperative;
    CUgraphNode copy;                   /* while the graph is cloned */
    CUgraphNode next, previous;
};

struct CUgraph_st {
    unsigned id, node_ids;
    CUgraphNode first, last;
    size_t count;
    CUgraphNode owner;                  /* the node whose child this is */
    bool has_memory_nodes, instantiated;
    struct held_object *objects;
};

struct CUgraphExec_st {
    unsigned id;
    CUgraph graph, source;              /* its own clone; only ever compared */
    cuuint64_t flags;
    CUgraphNode *order;                 /* dependencies before dependents */
    struct engine_ticket last;
    uint32_t last_stream;
};

/* graph_nodes.c, under the lock */
CUgraph graph_new(void);
void graph_free(CUgraph graph);
CUgraph graph_clone(CUgraph graph);
CUresult graph_check(CUgraph graph);
CUresult node_check(CUgraphNode node);
CUresult graph_add(CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t count,
                   CUgraphNodeParams *params, CUgraphNode *out);
CUresult node_depend(CUgraphNode node, CUgraphNode on, const CUgraphEdgeData *edge);
void node_remove(CUgraphNode node);
CUresult graph_order(CUgraph graph, CUgraphNode **order); /* CUDA_ERROR_INVALID_VALUE: it has a cycle */

/* node_params.c, under the lock */
CUresult node_set(CUgraphNode node, const CUgraphNodeParams *params);
void node_release(CUgraphNode node);

/* graph_memory.c, under the lock */
CUresult graph_memory_new(CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params);
void graph_memory_retain(CUdeviceptr pointer);
void graph_memory_release(CUdeviceptr pointer);
CUresult graph_memory_start(CUdeviceptr pointer, bool again);
CUresult graph_memory_end(CUdeviceptr pointer);

/* graph_exec.c */
CUgraphNode exec_node_of(CUgraphExec exec, CUgraphNode node);
CUresult exec_check(CUgraphExec exec);

/* user_objects.c */
struct held_object *objects_take(CUgraph graph);          /* under the lock */
void objects_put(struct held_object *objects);            /* without it: destructors are the program's */
CUresult objects_clone(CUgraph to, CUgraph from);

#endif
