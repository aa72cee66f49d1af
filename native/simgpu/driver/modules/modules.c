/* Modules: code loaded into one context. */
#include "module.h"

#include <stdlib.h>
#include <string.h>

#include "memory/memory.h"

static CUmodule all_modules;

static CUmodule module_new(CUcontext context)
{
    CUmodule module = handle_new(sizeof *module, HANDLE_MODULE);

    if (!module)
        return NULL;
    module->context = context;
    module->image = &module->own;
    module->next = all_modules;
    all_modules = module;
    return module;
}

static void unlink_module(CUmodule module)
{
    CUmodule *link = &all_modules;

    while (*link && *link != module)
        link = &(*link)->next;
    if (*link)
        *link = module->next;
}

static void free_functions(CUmodule module)
{
    while (module->functions) {
        CUfunction function = module->functions;
        module->functions = function->next;
        free(function->params);
        handle_free(function);
    }
}

void module_unload(CUmodule module)
{
    free_functions(module);
    while (module->globals) {
        struct global *global = module->globals;
        struct block *block = block_exact(global->memory);
        module->globals = global->next;
        if (block)
            block_remove(block);
        free(global);
    }
    unlink_module(module);
    image_free(&module->own);
    handle_free(module);
}

void modules_close(CUcontext context)
{
    for (CUmodule module = all_modules, next; module; module = next) {
        next = module->next;
        if (module->context == context)
            module_unload(module);
    }
}

CUresult module_of_library(CUlibrary library, CUcontext context, CUmodule *out)
{
    for (CUmodule module = all_modules; module; module = module->next) {
        if (module->library == library && module->context == context) {
            *out = module;
            return CUDA_SUCCESS;
        }
    }
    CUmodule module = module_new(context);
    REQUIRE(module, CUDA_ERROR_OUT_OF_MEMORY);
    module->library = library;
    module->image = &library->image;
    *out = module;
    return CUDA_SUCCESS;
}

static CUresult load(CUmodule *out, const void *data, const char *path)
{
    struct image image = {0};

    LOCKED();
    REQUIRE(out && (data || path), CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    CUresult read = path ? image_read_file(path, &image) : image_read(data, &image);
    if (read != CUDA_SUCCESS) {
        image_free(&image);
        return read;
    }
    CUmodule module = module_new(context);
    if (!module) {
        image_free(&image);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    module->own = image;
    *out = module;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoad(CUmodule *module, const char *path)
{
    return load(module, NULL, path);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    return load(module, image, NULL);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options,
                            void **values)
{
    REQUIRE(!count || (options && values), CUDA_ERROR_INVALID_VALUE);
    TRY(load(module, image, NULL));
    jit_options_answer(count, options, values);
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    return load(module, image, NULL);
}

CUresult cuModuleUnload(CUmodule module)
{
    LOCKED();
    REQUIRE(handle_is(module, HANDLE_MODULE) && !module->library, CUDA_ERROR_INVALID_HANDLE);
    module_unload(module);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    const char *wished = getenv("CUDA_MODULE_LOADING");

    READY();
    REQUIRE(mode, CUDA_ERROR_INVALID_VALUE);
    *mode = wished && !strcmp(wished, "EAGER") ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

CUresult module_function(CUmodule module, const char *name, CUfunction *out)
{
    struct entry *entry = image_entry(module->image, name);

    REQUIRE(entry, CUDA_ERROR_NOT_FOUND);
    for (CUfunction function = module->functions; function; function = function->next) {
        if (function->entry == entry) {
            *out = function;
            return CUDA_SUCCESS;
        }
    }
    CUfunction function = handle_new(sizeof *function, HANDLE_FUNCTION);
    REQUIRE(function, CUDA_ERROR_OUT_OF_MEMORY);
    function->module = module;
    function->entry = entry;
    function->attributes.carveout = -1;
    function->next = module->functions;
    module->functions = function;
    *out = function;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    LOCKED();
    REQUIRE(function && name && *name, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(handle_is(module, HANDLE_MODULE), CUDA_ERROR_INVALID_HANDLE);
    return module_function(module, name, function);
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule module)
{
    LOCKED();
    REQUIRE(count, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(handle_is(module, HANDLE_MODULE), CUDA_ERROR_INVALID_HANDLE);
    *count = 0;
    for (struct entry *entry = module->image->entries; entry; entry = entry->next)
        ++*count;
    return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int count, CUmodule module)
{
    unsigned at = 0;

    LOCKED();
    REQUIRE(functions && count, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(handle_is(module, HANDLE_MODULE), CUDA_ERROR_INVALID_HANDLE);
    for (struct entry *entry = module->image->entries; entry && at < count; entry = entry->next)
        TRY(module_function(module, entry->name, &functions[at++]));
    return CUDA_SUCCESS;
}

CUresult module_global(CUmodule module, const char *name, void **memory, size_t *size, bool managed)
{
    struct variable *variable = image_variable(module->image, name);
    struct global *global = module->globals;

    REQUIRE(variable && (!managed || variable->managed || module->image->open), CUDA_ERROR_NOT_FOUND);
    while (global && global->variable != variable)
        global = global->next;
    if (!global) {
        struct block like = {
            .size = variable->size, .kind = managed ? BLOCK_MANAGED : BLOCK_GLOBAL, .device = module->context->device,
            .context = module->context, .charged = block_charge_size(variable->size), .preferred = CU_DEVICE_INVALID,
        };
        global = calloc(1, sizeof *global);
        CUresult made = global ? block_allocate(&global->memory, &like, 0) : CUDA_ERROR_OUT_OF_MEMORY;
        if (made != CUDA_SUCCESS) {
            free(global);
            return made;
        }
        global->variable = variable;
        global->next = module->globals;
        module->globals = global;
    }
    if (memory)
        *memory = global->memory;
    if (size)
        *size = variable->size;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *pointer, size_t *size, CUmodule module, const char *name)
{
    LOCKED();
    REQUIRE(name && *name && (pointer || size), CUDA_ERROR_INVALID_VALUE);
    REQUIRE(handle_is(module, HANDLE_MODULE), CUDA_ERROR_INVALID_HANDLE);
    return module_global(module, name, (void **)pointer, size, false);
}
