/* What a tenant without rights tries against the memory limit of its job, with its own copies of the driver's libraries.
   usage: memgroup-tenant FOLDER JOBS_CGROUP. FOLDER is its own and has the libraries. Prints a line for each attempt: what
   errno or the library said; at the end the bytes that it got of the card. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIMITS "/run/gpupool/simgpu/machine.limits"

struct limits {
    const char *group;
    unsigned long long soft, hard;
};

static char text[4096];

static const char *join(const char *folder, const char *name)
{
    snprintf(text, sizeof text, "%s/%s", folder, name);
    return text;
}

static void *load(const char *folder, const char *name)
{
    void *library = dlopen(join(folder, name), RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return library;
}

static int find(void *library, const char *name, int (**function)())
{
    *(void **)function = dlsym(library, name);
    return *function ? 0 : -1;
}

static void try_to_leave(const char *group, const char *above)
{
    int file = open(join(group, above), O_WRONLY);
    int moved = file >= 0 && write(file, "0", 1) == 1;
    printf("leave %s\n", moved ? "done" : strerror(errno));
}

static void try_to_set(const char *folder, const char *group)
{
    int (*init)(), (*handle)(), (*set)();
    void *card = NULL, *nvml = load(folder, "libnvidia-ml.so.1");
    struct limits limits = {group, 0, ~0ull};
    if (find(nvml, "nvmlInit_v2", &init) || find(nvml, "nvmlDeviceGetHandleByIndex_v2", &handle) ||
        find(nvml, "nvmlDeviceSetMemoryLimits_v1", &set))
        exit(1);
    if (init() || handle(0, &card))
        exit(1);
    printf("set %d\n", set(card, &limits));
}

static void try_to_remove(void)
{
    printf("remove %s\n", unlink(LIMITS) ? strerror(errno) : "done");
    printf("write %s\n", open(LIMITS, O_WRONLY) < 0 ? strerror(errno) : "done");
    printf("create %s\n", open(LIMITS ".mine", O_WRONLY | O_CREAT, 0644) < 0 ? strerror(errno) : "done");
}

static unsigned long long fill(const char *folder)
{
    int (*init)(), (*retain)(), (*current)(), (*alloc)();
    unsigned long long place, total = 0;
    void *context = NULL, *cuda = load(folder, "libcuda.so.1");
    if (find(cuda, "cuInit", &init) || find(cuda, "cuDevicePrimaryCtxRetain", &retain) ||
        find(cuda, "cuCtxSetCurrent", &current) || find(cuda, "cuMemAlloc_v2", &alloc))
        exit(1);
    if (init(0) || retain(&context, 0) || current(context))
        exit(1);
    for (size_t block = 64ul << 20; block >= 64ul << 10; block /= 32)
        while (!alloc(&place, block))
            total += block;
    return total;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 1;
    try_to_leave(argv[2], "../cgroup.procs");
    try_to_leave(argv[2], "../../cgroup.procs");
    try_to_set(argv[1], argv[2]);
    try_to_remove();
    /* Beside a link of its own there are no limits. */
    if (symlink("/run/gpupool/simgpu/machine", join(argv[1], "machine")) && errno != EEXIST)
        return 1;
    setenv("GPUPOOL_SIMGPU", join(argv[1], "machine"), 1);
    printf("%llu\n", fill(argv[1]));
    return 0;
}
