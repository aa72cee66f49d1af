/* Reading and changing the parameters of a node, for the calls of each type of node. */
#ifndef GPUPOOL_SIMGPU_GRAPH_PARAMS_H
#define GPUPOOL_SIMGPU_GRAPH_PARAMS_H

#include "graph.h"

/* Takes the lock. `exec` NULL: the node itself, else its copy in the executable graph. */
CUresult graph_change_params(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *params);

/* Takes the lock. CUDA_ERROR_INVALID_VALUE: the node is of another type. */
CUresult graph_read_params(CUgraphNode node, CUgraphNodeType type, CUgraphNodeParams *params);

/* Declares `params` of the function's `node`, or returns the error. */
#define READ_PARAMS(kind, out)                                                                                     \
    CUgraphNodeParams params;                                                                                      \
    REQUIRE(out, CUDA_ERROR_INVALID_VALUE);                                                                        \
    TRY(graph_read_params(node, CU_GRAPH_NODE_TYPE_##kind, &params))

#endif
