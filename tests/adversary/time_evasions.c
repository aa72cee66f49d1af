/* Ways to take more GPU time than a share has, each by a process of the job itself.

     time_evasions WAY SECONDS
   pointers   registers through the fence, then launches through the pointers of the driver that is loaded behind it
   one-first  the same after one launch through the fence
   pinned     writes its usage page all the time: nothing was charged, nothing is in flight
   half       takes back 45 % of each charge
   limits     below `unshare -m`, with other limits mounted for the moment of cuInit alone: a share of the whole card
   renamed    the same; afterwards the file has another name, and the job's own limits are mapped too
   grants     below `unshare -m`, with a grants page mounted for that moment that allows everything
   brief      one process after the other that does what `pointers` does for 0.2 s, shorter than the time between two looks
   elsewhere  as own-grants, to be run in a pid namespace of its own
   own-grants replaces the grants page in its own memory by such a one, and tells the truth of what it uses
   Prints what part of the card it had, if it lives to its end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gpupool/region.h"

#define SHARE "/run/gpupool/share"
#define KERNEL_NS 500000ull
#define IN_A_ROW 20

typedef int (*launch_function)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

struct driver {
    launch_function launch;
    int (*synchronize)(void);
};

static const char PTX[] = ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry gpupool_spin_ns(.param .u64 ns) { ret; }\n";
static struct fence_usage *usage;

static void must(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "time_evasions: %s\n", what);
    exit(3);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct driver functions_of(void *library)
{
    return (struct driver){(launch_function)dlsym(library, "cuLaunchKernel"), (int (*)(void))dlsym(library, "cuCtxSynchronize")};
}

static int is_driver(struct dl_phdr_info *info, size_t size, void *path)
{
    (void)size;
    if (!strstr(info->dlpi_name, "/driver/libcuda"))
        return 0;
    strcpy(path, info->dlpi_name);
    return 1;
}

static struct driver behind_the_fence(void)
{
    char path[4096] = "";
    dl_iterate_phdr(is_driver, path);
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    must(library != NULL, "no driver is loaded behind the fence");
    return functions_of(library);
}

static void map_usage(void)
{
    int file = open("/run/gpupool/usage/region", O_RDWR);
    usage = mmap(NULL, sizeof *usage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    must(usage != MAP_FAILED, "the usage page cannot be written");
}

static void *pin(void *unused)
{
    for (;;) {
        atomic_store(&usage->device[0].charged_ns, 1000000);
        for (int i = 0; i < 16; i++)
            atomic_store(&usage->slot[i].device[0].inflight_ns, 0);
    }
    return unused;
}

static void *halve(void *unused)
{
    uint64_t last = atomic_load(&usage->device[0].charged_ns);
    for (;;) {
        uint64_t charged = atomic_load(&usage->device[0].charged_ns);
        if (charged > last + 2000000) {
            atomic_fetch_sub(&usage->device[0].charged_ns, (charged - last) * 45 / 100);
            last = atomic_load(&usage->device[0].charged_ns);
        }
        usleep(200);
    }
    return unused;
}

static char forged[] = "/tmp/forged-XXXXXX";

/* A copy of the job's share, where the file of that name is the process's own to write. */
static void *forge(const char *name, size_t size)
{
    char command[256], path[96];
    must(mkdtemp(forged) != NULL, "no directory");
    snprintf(command, sizeof command, "cp %s/* %s/", SHARE, forged);
    must(system(command) == 0, "the share cannot be copied");
    snprintf(path, sizeof path, "%s/%s", forged, name);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, open(path, O_RDWR), 0);
    must(page != MAP_FAILED, "the copy cannot be written");
    return page;
}

static void allow_everything(struct fence_grants *grants)
{
    struct fence_grant *grant = &grants->device[0];
    atomic_store(&grant->granted_ns, UINT64_MAX / 2);
    atomic_store(&grant->window_ns, 1000000000);
    atomic_store(&grant->lease_until_ns, UINT64_MAX / 2);
    atomic_store(&grant->holder, FENCE_HOLDING);
    atomic_store(&grant->beat_ns, UINT64_MAX / 2);
}

static void mount_forged(const char *way)
{
    char page[96];
    if (!strcmp(way, "grants")) {
        allow_everything(forge("grants", sizeof(struct fence_grants)));
        snprintf(page, sizeof page, "%s/grants", forged);
        must(mount(page, SHARE "/grants", NULL, MS_BIND, NULL) == 0, "no mount");
        return;
    }
    ((struct fence_limits *)forge("limits", sizeof(struct fence_limits)))->device[0].gpu_milli = 1000;
    must(mount(forged, SHARE, NULL, MS_BIND, NULL) == 0, "no mount");
}

static void unmount_forged(const char *way)
{
    must(umount2(strcmp(way, "grants") ? SHARE : SHARE "/grants", MNT_DETACH) == 0, "no umount");
}

static void hide(void)
{
    char from[96], to[96];
    snprintf(from, sizeof from, "%s/limits", forged);
    snprintf(to, sizeof to, "%s/innocent", forged);
    must(rename(from, to) == 0, "the file cannot be renamed");
    void *own = mmap(NULL, sizeof(struct fence_limits), PROT_READ, MAP_SHARED, open(SHARE "/limits", O_RDONLY), 0);
    must(own != MAP_FAILED, "the own limits cannot be mapped");
}

static void replace_grants(void)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned long at;
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "/grants") && sscanf(line, "%lx", &at) == 1) {
            struct fence_grants copy = *(const struct fence_grants *)at;
            allow_everything(&copy);
            void *own = mmap((void *)at, sizeof copy, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            must(own == (void *)at, "the page cannot be replaced");
            memcpy(own, &copy, sizeof copy);
            return;
        }
    must(0, "no grants page is mapped");
}

static void *start(void *library)
{
    void *context, *module, *function;
    must(((int (*)(unsigned))dlsym(library, "cuInit"))(0) == 0, "cuInit");
    must(((int (*)(void **, unsigned, int))dlsym(library, "cuCtxCreate_v2"))(&context, 0, 0) == 0, "cuCtxCreate");
    must(((int (*)(void **, const void *))dlsym(library, "cuModuleLoadData"))(&module, PTX) == 0, "cuModuleLoadData");
    must(((int (*)(void **, void *, const char *))dlsym(library, "cuModuleGetFunction"))(&function, module, "gpupool_spin_ns") == 0,
         "cuModuleGetFunction");
    return function;
}

static double burn(const struct driver *driver, void *function, double seconds)
{
    uint64_t begin = now_ns(), end = begin + (uint64_t)(seconds * 1e9), ns = KERNEL_NS, launches = 0;
    void *arguments[] = {&ns};
    while (now_ns() < end) {
        for (int i = 0; i < IN_A_ROW; i++, launches++)
            must(driver->launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL) == 0, "cuLaunchKernel");
        driver->synchronize();
    }
    return 100.0 * (double)(launches * ns) / (double)(now_ns() - begin);
}

static int briefly(const char *program, double seconds)
{
    uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
    while (now_ns() < end) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            execl(program, program, "pointers", "0.2", (char *)NULL);
            _exit(4);
        }
        must(child > 0 && waitpid(child, &status, 0) == child && status == 0, "a child did not end well");
    }
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    must(argc == 3, "WAY SECONDS");
    const char *way = argv[1];
    if (!strcmp(way, "brief"))
        return briefly(argv[0], strtod(argv[2], NULL));
    int mounts = !strcmp(way, "limits") || !strcmp(way, "renamed") || !strcmp(way, "grants");
    if (mounts)
        mount_forged(way);
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    must(library != NULL, "no libcuda.so.1");
    void *function = start(library);
    struct driver driver = functions_of(library);
    if (!strcmp(way, "one-first"))
        driver.launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&(uint64_t){1000}}, NULL);
    if (!strcmp(way, "pointers") || !strcmp(way, "one-first"))
        driver = behind_the_fence();
    if (!strcmp(way, "pinned") || !strcmp(way, "half"))
        map_usage();
    if (usage)
        must(pthread_create(&thread, NULL, !strcmp(way, "pinned") ? pin : halve, NULL) == 0, "no thread");
    if (mounts)
        unmount_forged(way);
    if (!strcmp(way, "renamed"))
        hide();
    if (!strcmp(way, "own-grants") || !strcmp(way, "elsewhere"))
        replace_grants();
    printf("%s: %.1f %% of the card\n", way, burn(&driver, function, strtod(argv[2], NULL)));
    return 0;
}
