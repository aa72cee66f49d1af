/* What can be asked of a stream, and its attributes. */
#include "stream.h"

#define STREAM_FACT(out)                                                                                           \
    CUstream stream;                                                                                               \
    LOCKED();                                                                                                      \
    REQUIRE(out, CUDA_ERROR_INVALID_VALUE);                                                                        \
    TRY(stream_resolve(handle, &stream))

CUresult cuStreamGetPriority(CUstream handle, int *priority)
{
    STREAM_FACT(priority);
    *priority = stream->priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int *flags)
{
    STREAM_FACT(flags);
    *flags = stream->flags;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *id)
{
    STREAM_FACT(id);
    *id = stream->id;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *context)
{
    STREAM_FACT(context);
    *context = stream->context;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext *context, CUgreenCtx *green)
{
    STREAM_FACT(context);
    *context = stream->context;
    if (green)
        *green = NULL;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice *device)
{
    STREAM_FACT(device);
    *device = stream->context->device;
    return CUDA_SUCCESS;
}

/* Not of a green context: there is none. */
CUresult cuStreamGetGreenCtx(CUstream handle, CUgreenCtx *green)
{
    STREAM_FACT(green);
    *green = NULL;
    return CUDA_SUCCESS;
}

static CUresult attribute_place(CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue **place)
{
    switch ((int)attribute) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        *place = &stream->window;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        *place = &stream->synchronization;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue *value)
{
    CUstreamAttrValue *place;

    STREAM_FACT(value);
    if ((int)attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
        value->priority = stream->priority;
        return CUDA_SUCCESS;
    }
    TRY(attribute_place(stream, attribute, &place));
    *value = *place;
    return CUDA_SUCCESS;
}

CUresult cuStreamSetAttribute(CUstream handle, CUstreamAttrID attribute, const CUstreamAttrValue *value)
{
    CUstreamAttrValue *place;

    STREAM_FACT(value);
    if ((int)attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
        stream->priority = value->priority;
        return CUDA_SUCCESS;
    }
    TRY(attribute_place(stream, attribute, &place));
    *place = *value;
    return CUDA_SUCCESS;
}

CUresult cuStreamCopyAttributes(CUstream to, CUstream from)
{
    CUstream target, source;

    LOCKED();
    TRY(stream_resolve(to, &target));
    TRY(stream_resolve(from, &source));
    target->window = source->window;
    target->synchronization = source->synchronization;
    return CUDA_SUCCESS;
}

CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr pointer, size_t length, unsigned int flags)
{
    (void)length;
    STREAM_FACT(pointer);
    REQUIRE(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST || flags == CU_MEM_ATTACH_SINGLE,
            CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}
