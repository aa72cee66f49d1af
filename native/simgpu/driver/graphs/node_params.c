/* A node's parameters: checked, and copied with everything they point to. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "devices/card.h"
#include "memory/memory.h"

#define OPERATION_LIMIT 256u

void node_release(CUgraphNode node)
{
    free(node->arguments);
    free(node->places);
    free(node->operations);
    node->arguments = NULL;
    node->places = NULL;
    node->operations = NULL;
    if (node->child)
        graph_free(node->child);
    node->child = NULL;
    if (node->params.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && node->params.alloc.dptr)
        graph_memory_release(node->params.alloc.dptr);
    if (node->params.type == CU_GRAPH_NODE_TYPE_MEM_FREE && node->params.free.dptr)
        graph_memory_release(node->params.free.dptr);
}

/* Copies arguments by the sizes that the code names; without these only the time that they led to is kept. */
static CUresult copy_arguments(CUgraphNode node, const struct entry *entry, void **arguments)
{
    size_t bytes = 0;

    if (entry->params <= 0 || !arguments)
        return CUDA_SUCCESS;
    for (int at = 0; at < entry->params; ++at)
        bytes = entry->param[at].offset + entry->param[at].size;
    node->arguments = malloc(bytes);
    node->places = malloc((size_t)entry->params * sizeof *node->places);
    REQUIRE(node->arguments && node->places, CUDA_ERROR_OUT_OF_MEMORY);
    for (int at = 0; at < entry->params; ++at) {
        node->places[at] = node->arguments + entry->param[at].offset;
        memcpy(node->places[at], arguments[at], entry->param[at].size);
    }
    return CUDA_SUCCESS;
}

static CUresult kernel_callee(const CUDA_KERNEL_NODE_PARAMS_v3 *kernel, struct callee *callee, int *device)
{
    CUcontext context = kernel->ctx ? kernel->ctx : context_top();

    TRY(callee_of(kernel->func ? kernel->func : (CUfunction)kernel->kern, callee));
    if (callee->context)
        context = callee->context;
    REQUIRE(handle_is(context, HANDLE_CONTEXT), CUDA_ERROR_INVALID_CONTEXT);
    *device = context->device;
    return CUDA_SUCCESS;
}

static CUresult set_kernel(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v3 *kernel)
{
    struct launch launch = {
        .grid = {kernel->gridDimX, kernel->gridDimY, kernel->gridDimZ},
        .block = {kernel->blockDimX, kernel->blockDimY, kernel->blockDimZ},
        .shared_bytes = kernel->sharedMemBytes, .params = kernel->kernelParams, .extra = kernel->extra,
    };
    struct callee callee;
    int device;

    TRY(kernel_callee(kernel, &callee, &device));
    bool copied_before = !kernel->kernelParams && !kernel->extra; /* a clone of a node whose arguments are not known */
    struct callee unknown = callee;
    struct entry bare = *callee.entry;
    if (copied_before) {
        bare.params = 0;
        unknown.entry = &bare;
    }
    TRY(launch_check(copied_before ? &unknown : &callee, device, &launch));
    /* Before the old arguments go: the new ones may be the same memory. */
    unsigned char *arguments = node->arguments;
    void **places = node->places;
    node->arguments = NULL;
    node->places = NULL;
    CUresult copied = copy_arguments(node, callee.entry, kernel->kernelParams);
    node->cost = kernel_cost(&callee, device, &launch);
    node->params.kernel = *kernel;
    node->params.kernel.kernelParams = node->places;
    node->params.kernel.extra = NULL;
    free(arguments);
    free(places);
    return copied;
}

static CUresult set_copy(CUgraphNode node, const CUDA_MEMCPY_NODE_PARAMS *copy)
{
    struct transfer transfer;

    TRY(transfer_from(&copy->copyParams, &transfer));
    node->params.memcpy = *copy;
    return CUDA_SUCCESS;
}

static CUresult set_fill(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS_v2 *fill)
{
    struct fill checked = {
        .to = (char *)fill->dst, .pitch = fill->pitch, .width = fill->width, .height = fill->height,
        .value = fill->value, .element = fill->elementSize,
    };

    REQUIRE(fill->elementSize == 1 || fill->elementSize == 2 || fill->elementSize == 4, CUDA_ERROR_INVALID_VALUE);
    TRY(fill_check(&checked));
    node->params.memset = *fill;
    return CUDA_SUCCESS;
}

static CUresult set_child(CUgraphNode node, const CUDA_CHILD_GRAPH_NODE_PARAMS *child)
{
    TRY(graph_check(child->graph));
    REQUIRE(!child->graph->has_memory_nodes, CUDA_ERROR_NOT_SUPPORTED);
    CUgraph clone = graph_clone(child->graph);
    REQUIRE(clone, CUDA_ERROR_OUT_OF_MEMORY);
    if (node->child)
        graph_free(node->child);
    clone->owner = node;
    node->child = clone;
    node->params.graph = *child;
    node->params.graph.graph = clone;
    return CUDA_SUCCESS;
}

static CUresult set_operations(CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 *batch)
{
    REQUIRE(batch->paramArray && batch->count && batch->count <= OPERATION_LIMIT, CUDA_ERROR_INVALID_VALUE);
    CUstreamBatchMemOpParams *copy = malloc(batch->count * sizeof *copy);
    REQUIRE(copy, CUDA_ERROR_OUT_OF_MEMORY);
    memcpy(copy, batch->paramArray, batch->count * sizeof *copy);
    free(node->operations);
    node->operations = copy;
    node->params.memOp = *batch;
    node->params.memOp.paramArray = copy;
    return CUDA_SUCCESS;
}

static CUresult set_memory(CUgraphNode node, CUdeviceptr pointer, CUdeviceptr *kept)
{
    struct block *block = block_exact((void *)pointer);

    REQUIRE(block, CUDA_ERROR_INVALID_VALUE);
    if (*kept == pointer)
        return CUDA_SUCCESS;
    REQUIRE(!*kept, CUDA_ERROR_INVALID_VALUE);
    if (block->kind == BLOCK_GRAPH)
        graph_memory_retain(pointer);
    else
        REQUIRE(node->params.type == CU_GRAPH_NODE_TYPE_MEM_FREE && block->kind == BLOCK_POOLED,
                CUDA_ERROR_INVALID_VALUE);
    *kept = pointer;
    return CUDA_SUCCESS;
}

CUresult node_set(CUgraphNode node, const CUgraphNodeParams *params)
{
    REQUIRE(params->type == node->params.type, CUDA_ERROR_INVALID_VALUE);
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return set_kernel(node, &params->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return set_copy(node, &params->memcpy);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return set_fill(node, &params->memset);
    case CU_GRAPH_NODE_TYPE_HOST:
        REQUIRE(params->host.fn, CUDA_ERROR_INVALID_VALUE);
        node->params.host = params->host;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return set_child(node, &params->graph);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        REQUIRE(handle_is(params->eventWait.event, HANDLE_EVENT), CUDA_ERROR_INVALID_VALUE);
        node->params.eventWait = params->eventWait;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        REQUIRE(handle_is(params->eventRecord.event, HANDLE_EVENT), CUDA_ERROR_INVALID_VALUE);
        node->params.eventRecord = params->eventRecord;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
        CUdeviceptr kept = node->params.alloc.dptr;
        TRY(set_memory(node, params->alloc.dptr, &kept));
        node->params.alloc = params->alloc;
        node->params.alloc.accessDescs = NULL;
        node->params.alloc.accessDescCount = 0;
        return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return set_memory(node, params->free.dptr, &node->params.free.dptr);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return set_operations(node, &params->memOp);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}
