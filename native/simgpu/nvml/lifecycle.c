/* Beginning, end, versions, errors. nvmlInit counts; the last nvmlShutdown lets the machine go. */
#include "nvml_sim.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim machine;
static _Atomic unsigned int users;

struct sim *nvml_sim(void)
{
    return users ? &machine : NULL;
}

static nvmlReturn_t problem_of(int problem)
{
    switch (problem) {
    case 0: return NVML_SUCCESS;
    case -ENOENT: return NVML_ERROR_DRIVER_NOT_LOADED;
    case -EPROTO: return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    case -EACCES: case -EPERM: return NVML_ERROR_NO_PERMISSION;
    case -ENOMEM: return NVML_ERROR_MEMORY;
    default: return NVML_ERROR_UNKNOWN;
    }
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    nvmlReturn_t answer = NVML_SUCCESS;
    (void)flags; /* no cards, and cards that do not attach, are no errors here anyway */
    pthread_mutex_lock(&lock);
    if (!users)
        answer = problem_of(sim_open(&machine, NULL));
    if (answer == NVML_SUCCESS)
        users++;
    pthread_mutex_unlock(&lock);
    return answer;
}

nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlInit(void)
{
    return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlShutdown(void)
{
    nvmlReturn_t answer = NVML_ERROR_UNINITIALIZED;
    pthread_mutex_lock(&lock);
    if (users) {
        answer = NVML_SUCCESS;
        if (--users == 0)
            sim_close(&machine);
    }
    pthread_mutex_unlock(&lock);
    return answer;
}

nvmlReturn_t nvml_unsupported(void)
{
    struct sim *sim = nvml_sim();
    if (!sim)
        return NVML_ERROR_UNINITIALIZED;
    sim_count_unsupported(sim);
    return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvml_text(char *to, unsigned int length, const char *text)
{
    NEED(to);
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(to, text);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    if (!nvml_sim())
        return NVML_ERROR_UNINITIALIZED;
    return nvml_text(version, length, machine.machine->header.driver_version);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    char text[64];
    if (!nvml_sim())
        return NVML_ERROR_UNINITIALIZED;
    const struct sim_header *h = &machine.machine->header;
    snprintf(text, sizeof text, "%u.%s", h->nvml_version, h->driver_version);
    return nvml_text(version, length, text);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    if (!nvml_sim())
        return NVML_ERROR_UNINITIALIZED;
    NEED(version);
    *version = (int)machine.machine->header.cuda_version;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    return nvmlSystemGetCudaDriverVersion_v2(version);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    char path[32], text[4096] = "";
    if (!nvml_sim())
        return NVML_ERROR_UNINITIALIZED;
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return errno == EACCES ? NVML_ERROR_NO_PERMISSION : NVML_ERROR_NOT_FOUND;
    size_t got = fread(text, 1, sizeof text - 1, file); /* ends at the first argument's zero */
    fclose(file);
    return got ? nvml_text(name, length, text) : NVML_ERROR_NOT_FOUND;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    case NVML_ERROR_MEMORY: return "Insufficient Memory";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
    default: return "Unknown Error";
    }
}
