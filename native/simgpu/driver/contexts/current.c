/* The stack of current contexts that each thread has. */
#include "context.h"

#include <stdlib.h>

#define STACK_STEP 8

/* Freed with the thread by the destructor of the key; the variable itself is what calls read. */
static __thread struct stack {
    CUcontext *entries;
    unsigned depth, room;
} stack;
static pthread_key_t stack_key;
static pthread_once_t stack_once = PTHREAD_ONCE_INIT;

static void make_key(void)
{
    pthread_key_create(&stack_key, free);
}

CUcontext context_top(void)
{
    return stack.depth ? stack.entries[stack.depth - 1] : NULL;
}

CUresult context_usable(CUcontext context)
{
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!context->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return (CUresult)context->sticky;
}

CUresult context_current(CUcontext *context)
{
    *context = context_top();
    return context_usable(*context);
}

CUresult context_or_current(CUcontext *context)
{
    if (!*context)
        return context_current(context);
    if (!handle_is(*context, HANDLE_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    return context_usable(*context);
}

CUresult context_push(CUcontext context)
{
    if (stack.depth == stack.room) {
        CUcontext *more = realloc(stack.entries, (stack.room + STACK_STEP) * sizeof(CUcontext));
        if (!more)
            return CUDA_ERROR_OUT_OF_MEMORY;
        stack.entries = more;
        stack.room += STACK_STEP;
        pthread_once(&stack_once, make_key);
        pthread_setspecific(stack_key, more);
    }
    stack.entries[stack.depth++] = context;
    return CUDA_SUCCESS;
}

CUresult context_pop(CUcontext *context)
{
    if (!stack.depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    *context = stack.entries[--stack.depth];
    return CUDA_SUCCESS;
}

void context_replace_top(CUcontext context)
{
    stack.entries[stack.depth - 1] = context;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    LOCKED();
    REQUIRE(handle_is(context, HANDLE_CONTEXT), CUDA_ERROR_INVALID_CONTEXT);
    REQUIRE(context->alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return context_push(context);
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    return cuCtxPushCurrent_v2(context);
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    CUcontext popped;

    READY();
    TRY(context_pop(&popped));
    if (context)
        *context = popped;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
    return cuCtxPopCurrent_v2(context);
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    CUcontext popped;

    LOCKED();
    if (!context) {
        if (context_top())
            return context_pop(&popped);
        return CUDA_SUCCESS;
    }
    REQUIRE(handle_is(context, HANDLE_CONTEXT), CUDA_ERROR_INVALID_CONTEXT);
    REQUIRE(context->alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    if (!context_top())
        return context_push(context);
    context_replace_top(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    READY();
    REQUIRE(context, CUDA_ERROR_INVALID_VALUE);
    *context = context_top();
    return CUDA_SUCCESS;
}
