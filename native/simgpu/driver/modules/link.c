/* The linker: what was added becomes one image with the names of all. */
#include "module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CUlinkState_st {
    struct image image;
    char *output;
};

CUresult cuLinkCreate_v2(unsigned int count, CUjit_option *options, void **values, CUlinkState *out)
{
    LOCKED();
    REQUIRE(out && (!count || (options && values)), CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    *out = handle_new(sizeof **out, HANDLE_LINK);
    REQUIRE(*out, CUDA_ERROR_OUT_OF_MEMORY);
    jit_options_answer(count, options, values);
    return CUDA_SUCCESS;
}

CUresult cuLinkCreate(unsigned int count, CUjit_option *options, void **values, CUlinkState *out)
{
    return cuLinkCreate_v2(count, options, values, out);
}

static bool is_library(CUjitInputType type)
{
    return type == CU_JIT_INPUT_LIBRARY || type == CU_JIT_INPUT_OBJECT;
}

/* Host objects and archives carry device code that is not looked for. */
static CUresult read_input(CUlinkState state, CUjitInputType type, const char *data, size_t size)
{
    if (is_library(type) || type == CU_JIT_INPUT_FATBINARY) {
        state->image.open = true;
        return CUDA_SUCCESS;
    }
    char *copy = malloc(size + 1);
    REQUIRE(copy, CUDA_ERROR_OUT_OF_MEMORY);
    memcpy(copy, data, size);
    copy[size] = 0;
    CUresult read = size >= 4 ? image_read(copy, &state->image) : CUDA_ERROR_INVALID_IMAGE;
    free(copy);
    return read == CUDA_ERROR_INVALID_IMAGE && type == CU_JIT_INPUT_PTX ? CUDA_ERROR_INVALID_PTX : read;
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
                          unsigned int count, CUjit_option *options, void **values)
{
    (void)name;
    LOCKED();
    REQUIRE(handle_is(state, HANDLE_LINK), CUDA_ERROR_INVALID_HANDLE);
    REQUIRE(data && size && (!count || (options && values)), CUDA_ERROR_INVALID_VALUE);
    return read_input(state, type, data, size);
}

CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
                       unsigned int count, CUjit_option *options, void **values)
{
    return cuLinkAddData_v2(state, type, data, size, name, count, options, values);
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned int count,
                          CUjit_option *options, void **values)
{
    LOCKED();
    REQUIRE(handle_is(state, HANDLE_LINK), CUDA_ERROR_INVALID_HANDLE);
    REQUIRE(path && (!count || (options && values)), CUDA_ERROR_INVALID_VALUE);
    if (!is_library(type))
        return image_read_file(path, &state->image);
    state->image.open = true;
    return CUDA_SUCCESS;
}

CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path, unsigned int count,
                       CUjit_option *options, void **values)
{
    return cuLinkAddFile_v2(state, type, path, count, options, values);
}

static void write_params(FILE *text, const struct entry *entry)
{
    for (int at = 0; at < entry->params; ++at)
        fprintf(text, "%s.param .align 8 .b8 p%d[%zu]", at ? ", " : "", at, entry->param[at].size);
}

static char *write_image(const struct image *image, size_t *size)
{
    char *output = NULL;
    FILE *text = open_memstream(&output, size);

    if (!text)
        return NULL;
    if (image->open) {
        fwrite("\x50\xed\x55\xba\0\0\0", 1, 8, text); /* read back as a fat binary */
    } else {
        fputs(".version 8.0\n.target sm_80\n.address_size 64\n", text);
        for (struct variable *variable = image->variables; variable; variable = variable->next)
            fprintf(text, ".visible .global .align 8 .b8 %s[%zu];\n", variable->name, variable->size);
        for (struct entry *entry = image->entries; entry; entry = entry->next) {
            fprintf(text, ".visible .entry %s(", entry->name);
            write_params(text, entry);
            fputs(")\n{\n    ret;\n}\n", text);
        }
    }
    fclose(text);
    return output;
}

CUresult cuLinkComplete(CUlinkState state, void **cubin, size_t *size)
{
    size_t written;

    LOCKED();
    REQUIRE(cubin, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(handle_is(state, HANDLE_LINK), CUDA_ERROR_INVALID_HANDLE);
    free(state->output);
    state->output = write_image(&state->image, &written);
    REQUIRE(state->output, CUDA_ERROR_OUT_OF_MEMORY);
    *cubin = state->output;
    if (size)
        *size = written + 1;
    return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state)
{
    LOCKED();
    REQUIRE(handle_is(state, HANDLE_LINK), CUDA_ERROR_INVALID_HANDLE);
    image_free(&state->image);
    free(state->output);
    handle_free(state);
    return CUDA_SUCCESS;
}
