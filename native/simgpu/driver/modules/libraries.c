/* Libraries: code loaded for all contexts, and its kernels. */
#include "module.h"

#include <stdlib.h>

static CUlibrary all_libraries;

static CUresult load(CUlibrary *out, const void *data, const char *path)
{
    LOCKED();
    REQUIRE(out && (data || path), CUDA_ERROR_INVALID_VALUE);
    CUlibrary library = handle_new(sizeof *library, HANDLE_LIBRARY);
    REQUIRE(library, CUDA_ERROR_OUT_OF_MEMORY);
    CUresult read = path ? image_read_file(path, &library->image) : image_read(data, &library->image);
    if (read != CUDA_SUCCESS) {
        image_free(&library->image);
        handle_free(library);
        return read;
    }
    library->next = all_libraries;
    all_libraries = library;
    *out = library;
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options, void **values,
                           unsigned int count, CUlibraryOption *library_options, void **library_values,
                           unsigned int library_count)
{
    REQUIRE(!count || (options && values), CUDA_ERROR_INVALID_VALUE);
    REQUIRE(!library_count || library_options, CUDA_ERROR_INVALID_VALUE);
    (void)library_values;
    TRY(load(library, code, NULL));
    jit_options_answer(count, options, values);
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *options, void **values,
                               unsigned int count, CUlibraryOption *library_options, void **library_values,
                               unsigned int library_count)
{
    REQUIRE(!count || (options && values), CUDA_ERROR_INVALID_VALUE);
    REQUIRE(!library_count || library_options, CUDA_ERROR_INVALID_VALUE);
    (void)library_values;
    return load(library, NULL, path);
}

static void unlink_library(CUlibrary library)
{
    CUlibrary *link = &all_libraries;

    while (*link && *link != library)
        link = &(*link)->next;
    if (*link)
        *link = library->next;
}

CUresult cuLibraryUnload(CUlibrary library)
{
    CUmodule module;

    LOCKED();
    REQUIRE(handle_is(library, HANDLE_LIBRARY), CUDA_ERROR_INVALID_HANDLE);
    for (CUcontext context = all_contexts; context; context = context->next)
        if (module_of_library(library, context, &module) == CUDA_SUCCESS)
            module_unload(module);
    while (library->kernels) {
        CUkernel kernel = library->kernels;
        library->kernels = kernel->next;
        handle_free(kernel);
    }
    unlink_library(library);
    image_free(&library->image);
    handle_free(library);
    return CUDA_SUCCESS;
}

static CUresult kernel_of(CUlibrary library, const char *name, CUkernel *out)
{
    struct entry *entry = image_entry(&library->image, name);

    REQUIRE(entry, CUDA_ERROR_NOT_FOUND);
    for (CUkernel kernel = library->kernels; kernel; kernel = kernel->next) {
        if (kernel->entry == entry) {
            *out = kernel;
            return CUDA_SUCCESS;
        }
    }
    CUkernel kernel = handle_new(sizeof *kernel, HANDLE_KERNEL);
    REQUIRE(kernel, CUDA_ERROR_OUT_OF_MEMORY);
    kernel->library = library;
    kernel->entry = entry;
    kernel->attributes.carveout = -1;
    kernel->next = library->kernels;
    library->kernels = kernel;
    *out = kernel;
    return CUDA_SUCCESS;
}

#define LIBRARY(out)                                                                                               \
    LOCKED();                                                                                                      \
    REQUIRE(out, CUDA_ERROR_INVALID_VALUE);                                                                        \
    REQUIRE(handle_is(library, HANDLE_LIBRARY), CUDA_ERROR_INVALID_HANDLE)

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    LIBRARY(kernel && name);
    return kernel_of(library, name, kernel);
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
    LIBRARY(count);
    *count = 0;
    for (struct entry *entry = library->image.entries; entry; entry = entry->next)
        ++*count;
    return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int count, CUlibrary library)
{
    unsigned at = 0;

    LIBRARY(kernels && count);
    for (struct entry *entry = library->image.entries; entry && at < count; entry = entry->next)
        TRY(kernel_of(library, entry->name, &kernels[at++]));
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    LIBRARY(module);
    CURRENT(context);
    return module_of_library(library, context, module);
}

static CUresult global_of(CUlibrary library, const char *name, CUdeviceptr *pointer, size_t *size, bool managed)
{
    CUmodule module;

    CURRENT(context);
    TRY(module_of_library(library, context, &module));
    return module_global(module, name, (void **)pointer, size, managed);
}

CUresult cuLibraryGetGlobal(CUdeviceptr *pointer, size_t *size, CUlibrary library, const char *name)
{
    LIBRARY(name && (pointer || size));
    return global_of(library, name, pointer, size, false);
}

CUresult cuLibraryGetManaged(CUdeviceptr *pointer, size_t *size, CUlibrary library, const char *name)
{
    LIBRARY(name && (pointer || size));
    return global_of(library, name, pointer, size, true);
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    CUmodule module;

    LOCKED();
    REQUIRE(function, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(handle_is(kernel, HANDLE_KERNEL), CUDA_ERROR_INVALID_HANDLE);
    CURRENT(context);
    TRY(module_of_library(kernel->library, context, &module));
    TRY(module_function(module, kernel->entry->name, function));
    (*function)->kernel = kernel;
    (*function)->attributes = kernel->attributes;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
    LOCKED();
    REQUIRE(library, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(handle_is(kernel, HANDLE_KERNEL), CUDA_ERROR_INVALID_HANDLE);
    *library = kernel->library;
    return CUDA_SUCCESS;
}
