/* Makes a CUDA runtime initialise itself: the shared one given by path, or, built with STATIC_RUNTIME, the one inside. Prints
   what its first call returned. */
#include <dlfcn.h>
#include <stdio.h>

#ifdef STATIC_RUNTIME
int cudaGetDeviceCount(int *count);

static int (*find(const char *path))(int *)
{
    (void)path;
    return cudaGetDeviceCount;
}
#else
static int (*find(const char *path))(int *)
{
    void *runtime = dlopen(path, RTLD_NOW);
    return runtime ? (int (*)(int *))dlsym(runtime, "cudaGetDeviceCount") : NULL;
}
#endif

int main(int argc, char **argv)
{
    int (*get_device_count)(int *) = argc == 2 ? find(argv[1]) : NULL;
    int count = -1;
    if (!get_device_count) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    printf("%d\n", get_device_count(&count));
    return 0;
}
