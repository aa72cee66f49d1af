/* Preloaded before a vendor's runtime: writes down each look-up it makes through the stand-in, and what the driver itself
   would have said. Lines "base version flags \t file \t symbol \t file \t symbol" into the file SPY_LOG; SPY_DRIVER names the
   driver's file, SPY_RUNTIME is in the name of the file that the runtime is in. The runtime finds the look-up function with dlsym, so dlsym is where the spy stands. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int look_up_v1(const char *, void **, int, unsigned long long);
typedef int look_up_v2(const char *, void **, int, unsigned long long, int *);

static look_up_v1 *ours_v1;
static look_up_v2 *ours_v2;

static void *real_dlsym(void *handle, const char *name)
{
    static void *(*found)(void *, const char *);
    if (!found)
        found = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    if (!found)
        found = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    return found(handle, name);
}

static void *driver_s(const char *name)
{
    return real_dlsym(dlopen(getenv("SPY_DRIVER"), RTLD_NOW | RTLD_NOLOAD), name);
}

static void say(FILE *log, void *address)
{
    Dl_info info = {0};
    int found = address && dladdr(address, &info) && info.dli_fname;
    const char *symbol = found && info.dli_sname && info.dli_saddr == address ? info.dli_sname : "-";
    fprintf(log, "\t%s\t%s", found ? info.dli_fname : "-", symbol);
}

static void write_down(const char *base, int version, unsigned long long flags, void *ours, void *driver)
{
    FILE *log = fopen(getenv("SPY_LOG"), "a");
    if (!log)
        abort();
    fprintf(log, "%s %d %llu", base, version, flags);
    say(log, ours);
    say(log, driver);
    fputc('\n', log);
    fclose(log);
}

static look_up_v1 spy_v1;
static look_up_v2 spy_v2;

/* The runtime goes on with the look-up function that it has looked up. */
static void stay_between(const char *base, int result, void **found)
{
    if (result || !found || strcmp(base, "cuGetProcAddress"))
        return;
    if (*found == (void *)ours_v2)
        *found = (void *)spy_v2;
    else if (*found == (void *)ours_v1)
        *found = (void *)spy_v1;
    else
        abort();
}

static int spy_v1(const char *base, void **found, int version, unsigned long long flags)
{
    look_up_v1 *driver = (look_up_v1 *)driver_s("cuGetProcAddress");
    void *there = NULL;
    int refused = driver(base, &there, version, flags), result = ours_v1(base, found, version, flags);
    write_down(base, version, flags, result || !found ? NULL : *found, refused ? NULL : there);
    stay_between(base, result, found);
    return result;
}

static int spy_v2(const char *base, void **found, int version, unsigned long long flags, int *status)
{
    look_up_v2 *driver = (look_up_v2 *)driver_s("cuGetProcAddress_v2");
    void *there = NULL;
    int refused = driver(base, &there, version, flags, NULL), result = ours_v2(base, found, version, flags, status);
    write_down(base, version, flags, result || !found ? NULL : *found, refused ? NULL : there);
    stay_between(base, result, found);
    return result;
}

/* The stand-in finds the driver's functions with dlsym too. */
static int is_runtime(const void *caller)
{
    Dl_info info = {0};
    return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, getenv("SPY_RUNTIME"));
}

__attribute__((visibility("default"))) void *dlsym(void *handle, const char *name)
{
    void *found = real_dlsym(handle, name);
    if (!is_runtime(__builtin_return_address(0)))
        return found;
    if (found && !strncmp(name, "cuGetProcAddress", 16)) {
        ours_v1 = (look_up_v1 *)real_dlsym(handle, "cuGetProcAddress");
        ours_v2 = (look_up_v2 *)real_dlsym(handle, "cuGetProcAddress_v2");
        return strcmp(name, "cuGetProcAddress") ? (void *)spy_v2 : (void *)spy_v1;
    }
    if (found && !strncmp(name, "cu", 2) && strncmp(name, "cuda", 4))
        write_down(name, 0, 0, found, driver_s(name));
    return found;
}
