/* What can be asked of and set for a function or kernel. */
#include "module.h"

#include "devices/card.h"

#define MAX_THREADS 1024
#define REGISTERS 32
#define STATIC_SHARED_LIMIT 49152
#define OPTIN_SHARED_LIMIT 232448

CUresult callee_of(CUfunction handle, struct callee *callee)
{
    CUkernel kernel = (CUkernel)handle;

    if (handle_is(handle, HANDLE_FUNCTION)) {
        *callee = (struct callee){handle->entry, &handle->attributes, handle->module->context};
        return CUDA_SUCCESS;
    }
    REQUIRE(handle_is(kernel, HANDLE_KERNEL), CUDA_ERROR_INVALID_HANDLE);
    *callee = (struct callee){kernel->entry, &kernel->attributes, NULL};
    return CUDA_SUCCESS;
}

static CUresult get(const struct function_attributes *set, int device, CUfunction_attribute attribute, int *value)
{
    const struct card_facts *facts = card_facts(device);

    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = MAX_THREADS;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = REGISTERS;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = facts->major * 10 + facts->minor;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = set->max_dynamic_shared ? set->max_dynamic_shared : STATIC_SHARED_LIMIT;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = set->carveout;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
        *value = set->cluster_required;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        *value = set->cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *value = set->nonportable_cluster;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        *value = set->scheduling;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
        *value = 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult set(struct function_attributes *set, CUfunction_attribute attribute, int value)
{
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        REQUIRE(value >= 0 && value <= OPTIN_SHARED_LIMIT, CUDA_ERROR_INVALID_VALUE);
        set->max_dynamic_shared = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        REQUIRE(value >= -1 && value <= 100, CUDA_ERROR_INVALID_VALUE);
        set->carveout = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        set->cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        set->nonportable_cluster = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        set->scheduling = value;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    struct callee callee;

    LOCKED();
    REQUIRE(value, CUDA_ERROR_INVALID_VALUE);
    TRY(callee_of(function, &callee));
    return get(callee.attributes, callee.context ? callee.context->device : 0, attribute, value);
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    struct callee callee;

    LOCKED();
    TRY(callee_of(function, &callee));
    return set(callee.attributes, attribute, value);
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device)
{
    LOCKED();
    REQUIRE(value, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(handle_is(kernel, HANDLE_KERNEL), CUDA_ERROR_INVALID_HANDLE);
    DEVICE(device);
    return get(&kernel->attributes, device, attribute, value);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device)
{
    LOCKED();
    REQUIRE(handle_is(kernel, HANDLE_KERNEL), CUDA_ERROR_INVALID_HANDLE);
    DEVICE(device);
    return set(&kernel->attributes, attribute, value);
}

static CUresult known(CUfunction function)
{
    struct callee callee;

    LOCKED();
    return callee_of(function, &callee);
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config)
{
    REQUIRE((unsigned)config <= CU_FUNC_CACHE_PREFER_EQUAL, CUDA_ERROR_INVALID_VALUE);
    return known(function);
}

CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config)
{
    REQUIRE((unsigned)config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE, CUDA_ERROR_INVALID_VALUE);
    return known(function);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device)
{
    READY();
    DEVICE(device);
    return cuFuncSetCacheConfig((CUfunction)kernel, config);
}

CUresult cuFuncLoad(CUfunction function)
{
    return known(function);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    REQUIRE(state, CUDA_ERROR_INVALID_VALUE);
    TRY(known(function));
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction function)
{
    struct callee callee;

    LOCKED();
    REQUIRE(name, CUDA_ERROR_INVALID_VALUE);
    TRY(callee_of(function, &callee));
    *name = callee.entry->name;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
    return cuFuncGetName(name, (CUfunction)kernel);
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
    LOCKED();
    REQUIRE(module, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(handle_is(function, HANDLE_FUNCTION), CUDA_ERROR_INVALID_HANDLE);
    *module = function->module;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamCount(CUfunction function, size_t *count)
{
    struct callee callee;

    LOCKED();
    REQUIRE(count, CUDA_ERROR_INVALID_VALUE);
    TRY(callee_of(function, &callee));
    *count = callee.entry->params < 0 ? 0 : (size_t)callee.entry->params;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetParamCount(CUkernel kernel, size_t *count)
{
    return cuFuncGetParamCount((CUfunction)kernel, count);
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size)
{
    struct callee callee;

    LOCKED();
    REQUIRE(offset, CUDA_ERROR_INVALID_VALUE);
    TRY(callee_of(function, &callee));
    REQUIRE(callee.entry->params > 0 && index < (size_t)callee.entry->params, CUDA_ERROR_INVALID_VALUE);
    *offset = callee.entry->param[index].offset;
    if (size)
        *size = callee.entry->param[index].size;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
    return cuFuncGetParamInfo((CUfunction)kernel, index, offset, size);
}
