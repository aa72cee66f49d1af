/* Objects of the program that live as long as graphs need them. */
#include "graph.h"

#include <stdlib.h>

struct CUuserObject_st {
    void *data;
    CUhostFn destroy;
    unsigned references;
};

struct held_object {
    struct held_object *next;
    CUuserObject object;
    unsigned count;
};

CUresult cuUserObjectCreate(CUuserObject *out, void *data, CUhostFn destroy, unsigned int references,
                            unsigned int flags)
{
    LOCKED();
    REQUIRE(out && destroy && references && references <= INT32_MAX, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC, CUDA_ERROR_INVALID_VALUE);
    CUuserObject object = handle_new(sizeof *object, HANDLE_OBJECT);
    REQUIRE(object, CUDA_ERROR_OUT_OF_MEMORY);
    *object = (struct CUuserObject_st){data, destroy, references};
    *out = object;
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    LOCKED();
    REQUIRE(handle_is(object, HANDLE_OBJECT) && count && count <= INT32_MAX, CUDA_ERROR_INVALID_VALUE);
    object->references += count;
    return CUDA_SUCCESS;
}

/* Gives references back; true: they were the last, and the object is no handle any more. Under the lock. */
static bool drop(CUuserObject object, unsigned count)
{
    object->references -= count < object->references ? count : object->references;
    if (object->references)
        return false;
    handle_drop(object);
    return true;
}

static void destroy(CUuserObject object)
{
    object->destroy(object->data);
    free(object);
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    bool last;

    READY();
    {
        LOCKED();
        REQUIRE(handle_is(object, HANDLE_OBJECT) && count && count <= object->references, CUDA_ERROR_INVALID_VALUE);
        last = drop(object, count);
    }
    if (last)
        destroy(object);
    return CUDA_SUCCESS;
}

static CUresult hold(CUgraph graph, CUuserObject object, unsigned count)
{
    struct held_object *held = malloc(sizeof *held);

    REQUIRE(held, CUDA_ERROR_OUT_OF_MEMORY);
    *held = (struct held_object){graph->objects, object, count};
    graph->objects = held;
    return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
{
    LOCKED();
    TRY(graph_check(graph));
    REQUIRE(handle_is(object, HANDLE_OBJECT) && count, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(!(flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE), CUDA_ERROR_INVALID_VALUE);
    TRY(hold(graph, object, count));
    if (!(flags & CU_GRAPH_USER_OBJECT_MOVE))
        object->references += count;
    return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
    bool last = false;

    READY();
    {
        LOCKED();
        TRY(graph_check(graph));
        struct held_object **link = &graph->objects;
        while (*link && ((*link)->object != object || (*link)->count < count))
            link = &(*link)->next;
        REQUIRE(*link && count, CUDA_ERROR_INVALID_VALUE);
        struct held_object *held = *link;
        held->count -= count;
        if (!held->count) {
            *link = held->next;
            free(held);
        }
        last = drop(object, count);
    }
    if (last)
        destroy(object);
    return CUDA_SUCCESS;
}

struct held_object *objects_take(CUgraph graph)
{
    struct held_object *objects = graph->objects;

    graph->objects = NULL;
    return objects;
}

void objects_put(struct held_object *objects)
{
    while (objects) {
        struct held_object *held = objects;
        objects = held->next;
        driver_lock();
        bool last = drop(held->object, held->count);
        driver_unlock();
        if (last)
            destroy(held->object);
        free(held);
    }
}

CUresult objects_clone(CUgraph to, CUgraph from)
{
    for (struct held_object *held = from->objects; held; held = held->next) {
        TRY(hold(to, held->object, held->count));
        held->object->references += held->count;
    }
    return CUDA_SUCCESS;
}
