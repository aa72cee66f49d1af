/* Makes a CUDA runtime library, given by path, initialise itself; prints what its first call returned. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *runtime = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    int (*get_device_count)(int *) = runtime ? (int (*)(int *))dlsym(runtime, "cudaGetDeviceCount") : NULL;
    int count = -1;
    if (!get_device_count) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    printf("%d\n", get_device_count(&count));
    return 0;
}
