/* A tenant's program, by the driver API alone: takes memory of its first card until it is refused, and says what it had.

     takes_memory MIB MOST [stay|FILLS]
   asks for MIB at a time, MOST times; with `stay` it keeps what it has until it is ended, with a number it fills the
   last of it that often. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int (*cuInit)(unsigned), (*cuDeviceGetCount)(int *), (*cuDeviceGet)(int *, int);
static int (*cuCtxCreate_v2)(void **, unsigned, int), (*cuMemAlloc_v2)(uint64_t *, size_t);
static int (*cuMemsetD8_v2)(uint64_t, unsigned char, size_t), (*cuCtxSynchronize)(void);

#define LOAD(name) (*(void **)&name = dlsym(driver, #name))

int main(int count, char **words)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
    if (driver == NULL) {
        printf("no driver: %s\n", dlerror());
        return 1;
    }
    LOAD(cuInit), LOAD(cuDeviceGetCount), LOAD(cuDeviceGet), LOAD(cuCtxCreate_v2), LOAD(cuMemAlloc_v2);
    LOAD(cuMemsetD8_v2), LOAD(cuCtxSynchronize);
    int cards = 0, card = 0, taken = 0, most = atoi(words[2]), fills = count > 3 ? atoi(words[3]) : 0;
    uint64_t at = 0;
    size_t mib = strtoul(words[1], NULL, 10);
    int said = cuInit(0);
    said = said ? said : cuDeviceGetCount(&cards);
    said = said ? said : cuDeviceGet(&card, 0);
    said = said ? said : cuCtxCreate_v2(&context, 0, card);
    for (; said == 0 && taken < most; taken += said == 0)
        said = cuMemAlloc_v2(&at, mib << 20);
    for (int n = 0; said == 0 && n < fills; n++)
        said = cuMemsetD8_v2(at, (unsigned char)n, mib << 20);
    said = said ? said : cuCtxSynchronize();
    printf("uid %u: %d cards, %zu MiB, then %d\n", getuid(), cards, taken * mib, said);
    fflush(stdout);
    while (count > 3 && fills == 0)
        pause();
    return 0;
}
