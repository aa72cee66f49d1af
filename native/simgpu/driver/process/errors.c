/* cuGetErrorName gives the header's enumerator. cuGetErrorString gives the texts that programs are known to print or to
   look for, and for the others the name in words. */
#include "driver.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "errors.h"

#define ERRORS_MAX 256

static const struct error_name texts[] = {
    {CUDA_SUCCESS, "no error"},
    {CUDA_ERROR_INVALID_VALUE, "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "initialization error"},
    {CUDA_ERROR_DEINITIALIZED, "driver shutting down"},
    {CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "invalid device context"},
    {CUDA_ERROR_NOT_FOUND, "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "device not ready"},
    {CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"},
    {CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"},
    {CUDA_ERROR_NOT_PERMITTED, "operation not permitted"},
    {CUDA_ERROR_NOT_SUPPORTED, "operation not supported"},
    {CUDA_ERROR_UNKNOWN, "unknown error"},
};

static char words[ERRORS_MAX][80];
static pthread_once_t words_once = PTHREAD_ONCE_INIT;

static void in_words(const char *name, char *text, size_t size)
{
    size_t at = 0;

    name += strncmp(name, "CUDA_ERROR_", 11) ? 0 : 11;
    for (; name[at] && at < size - 1; ++at)
        text[at] = name[at] == '_' ? ' ' : (char)tolower((unsigned char)name[at]);
    text[at] = 0;
}

static void make_words(void)
{
    for (unsigned at = 0; at < error_name_count && at < ERRORS_MAX; ++at)
        in_words(error_names[at].name, words[at], sizeof words[at]);
    for (size_t text = 0; text < sizeof texts / sizeof *texts; ++text)
        for (unsigned at = 0; at < error_name_count && at < ERRORS_MAX; ++at)
            if (error_names[at].error == texts[text].error)
                snprintf(words[at], sizeof words[at], "%s", texts[text].name);
}

/* Its place in the generated table, -1: no error of that number. */
static int place_of(CUresult error)
{
    for (unsigned at = 0; at < error_name_count && at < ERRORS_MAX; ++at)
        if (error_names[at].error == (int)error)
            return (int)at;
    return -1;
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
    int at = place_of(error);

    REQUIRE(name, CUDA_ERROR_INVALID_VALUE);
    *name = at < 0 ? NULL : error_names[at].name;
    return at < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    int at = place_of(error);

    REQUIRE(text, CUDA_ERROR_INVALID_VALUE);
    pthread_once(&words_once, make_words);
    *text = at < 0 ? NULL : words[at];
    return at < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
