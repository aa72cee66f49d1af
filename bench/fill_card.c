/* Takes memory until it is refused, and holds it: what many of these hold at once is what a limit really lets through.

   fill_card PIECE_MIB WAYS
     takes its context, prints a line, waits for one; then takes pieces in the first WAYS of: plain, managed, physical
     (cuMemCreate), array, until REFUSALS in a row were refused; prints bytes held and the result that was no success; waits
     for another line and ends. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* As the vendor's header has them; an enumeration is an int. */
int cuInit(unsigned int);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long long *, size_t);
int cuMemAllocManaged(unsigned long long *, size_t, unsigned int);
int cuMemCreate(unsigned long long *, size_t, const void *, unsigned long long);
int cuArrayCreate_v2(void **, const void *);

#define REFUSALS 4

struct properties { /* CUmemAllocationProp */
    int type, handle_types, location_type, location_id;
    void *unused;
    unsigned char flags[8];
};

struct array { /* CUDA_ARRAY_DESCRIPTOR: rows of 4 KiB */
    size_t width, height;
    unsigned int format, channels;
};

static int take(int way, size_t bytes)
{
    struct properties properties = {.type = 1, .location_type = 1};
    struct array array = {1024, bytes >> 12, 0x20, 1};
    unsigned long long handle;
    void *made;
    switch (way) {
    case 1:
        return cuMemAllocManaged(&handle, bytes, 1);
    case 2:
        return cuMemCreate(&handle, bytes, &properties, 0);
    case 3:
        return cuArrayCreate_v2(&made, &array);
    default:
        return cuMemAlloc_v2(&handle, bytes);
    }
}

static void fill(size_t bytes, int ways)
{
    unsigned long long held = 0;
    int refused = 0, last = 0;
    for (unsigned int turn = 0; refused < REFUSALS; turn++) {
        int result = take((int)(turn % (unsigned int)ways), bytes);
        held += result ? 0 : bytes;
        refused = result ? refused + 1 : 0;
        last = result ? result : last;
    }
    printf("%llu %d\n", held, last);
    fflush(stdout);
}

int main(int count, char **word)
{
    void *context;
    int result = count != 3 ? 1 : cuInit(0);
    if (!result)
        result = cuDevicePrimaryCtxRetain(&context, 0);
    if (!result)
        result = cuCtxSetCurrent(context);
    printf("%d\n", result);
    fflush(stdout);
    if (result || getchar() == EOF)
        return result != 0;
    fill((size_t)atoi(word[1]) << 20, atoi(word[2]));
    getchar();
    return 0;
}
