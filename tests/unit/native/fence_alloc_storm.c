/* A CUDA program that does nothing but take and give back memory, in threads, with children that fork and exec.

   storm SECONDS THREADS FORKS [PIECE_MIB [WAYS]]   prints: allocations refused wrong children
   storm init                                       waits for a line, prints how long cuInit took and its processor time (ns), waits for the next
   storm pair TURNS                                 prints the median of an allocation and its free (ns)
   Exit status 1 when a call answered anything but success or out of memory. */
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* As the vendor's header has them; an enumeration is an int. */
int cuInit(unsigned int);
int cuDevicePrimaryCtxRetain(void **, int);
int cuDevicePrimaryCtxRelease_v2(int);
int cuCtxSetCurrent(void *);
int cuCtxSynchronize(void);
int cuMemAlloc_v2(unsigned long long *, size_t);
int cuMemFree_v2(unsigned long long);
int cuMemAllocManaged(unsigned long long *, size_t, unsigned int);
int cuMemAllocAsync(unsigned long long *, size_t, void *);
int cuMemFreeAsync(unsigned long long, void *);
int cuMemGetInfo_v2(size_t *, size_t *);
int cuMemCreate(unsigned long long *, size_t, const void *, unsigned long long);
int cuMemRelease(unsigned long long);
int cuArrayCreate_v2(void **, const void *);
int cuArrayDestroy(void *);

#define PIECES 12
#define OUT_OF_MEMORY 2

enum way { PLAIN, MANAGED, PHYSICAL, ARRAY, ASYNC, WAYS };

struct piece {
    enum way way;
    unsigned long long handle;
};

struct location {
    int type, id;
};

struct properties { /* CUmemAllocationProp */
    int type, handle_types;
    struct location location;
    void *unused;
    unsigned char flags[8];
};

struct array { /* CUDA_ARRAY_DESCRIPTOR */
    size_t width, height;
    unsigned int format, channels;
};

static atomic_int stop, wrong, children;
static atomic_long allocations, refused;
static size_t piece_bytes = 16u << 20;
static int ways = WAYS; /* the first so many */

static void check(const char *name, int result)
{
    if (result && result != OUT_OF_MEMORY && wrong++ < 5)
        fprintf(stderr, "%s: %d\n", name, result);
}

static int take(struct piece *piece, size_t bytes)
{
    struct properties properties = {.type = 1, .location = {1, 0}};
    struct array array = {1024, bytes >> 12, 0x20, 1};
    switch (piece->way) {
    case MANAGED:
        return cuMemAllocManaged(&piece->handle, bytes, 1);
    case ASYNC:
        return cuMemAllocAsync(&piece->handle, bytes, NULL);
    case PHYSICAL:
        return cuMemCreate(&piece->handle, bytes, &properties, 0);
    case ARRAY:
        return cuArrayCreate_v2((void **)&piece->handle, &array);
    default:
        return cuMemAlloc_v2(&piece->handle, bytes);
    }
}

static int give_back(const struct piece *piece)
{
    switch (piece->way) {
    case ASYNC:
        return cuMemFreeAsync(piece->handle, NULL);
    case PHYSICAL:
        return cuMemRelease(piece->handle);
    case ARRAY:
        return cuArrayDestroy((void *)piece->handle);
    default:
        return cuMemFree_v2(piece->handle);
    }
}

static void turn(struct piece *piece, unsigned int *random)
{
    size_t bytes = ((size_t)(rand_r(random) % 8) + 1) * piece_bytes / 4, free_bytes, total;
    if (piece->handle) {
        check("give back", give_back(piece));
        piece->handle = 0;
    } else {
        piece->way = (enum way)(rand_r(random) % ways);
        int result = take(piece, bytes);
        check("take", result);
        piece->handle = result ? 0 : piece->handle;
        *(result ? &refused : &allocations) += 1;
    }
    if (rand_r(random) % 16 == 0)
        check("cuMemGetInfo", cuMemGetInfo_v2(&free_bytes, &total));
}

static void *work(void *context)
{
    struct piece pieces[PIECES] = {0};
    unsigned int random = (unsigned int)(size_t)&pieces ^ (unsigned int)getpid();
    check("cuCtxSetCurrent", cuCtxSetCurrent(context));
    while (!stop)
        turn(&pieces[rand_r(&random) % PIECES], &random);
    for (int i = 0; i < PIECES; i++)
        if (pieces[i].handle)
            check("give back", give_back(&pieces[i]));
    return NULL;
}

static int start(void **context)
{
    int result = cuInit(0);
    if (!result)
        result = cuDevicePrimaryCtxRetain(context, 0);
    return result ? result : cuCtxSetCurrent(*context);
}

/* A child of an initialised process may ask, and is told that it cannot; one that executes is a program like any other. */
static void fork_one(const char *self)
{
    extern char **environ;
    char *again[] = {(char *)self, "0", "1", "0", NULL};
    unsigned long long pointer;
    int status = 0;
    pid_t child = 0;
    if (children % 2 == 0) {
        if (!(child = fork())) {
            int result = cuMemAlloc_v2(&pointer, 1 << 20);
            _exit(result == 0 || result == 1);
        }
    } else if (posix_spawn(&child, self, NULL, NULL, again, environ)) {
        wrong++;
        return;
    }
    waitpid(child, &status, 0);
    if (status)
        fprintf(stderr, "child: status %x\n", status);
    wrong += status != 0;
    children++;
}

static long read_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static long now_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

static int initialise(void)
{
    getchar();
    long before = now_ns(), used = read_ns(CLOCK_PROCESS_CPUTIME_ID);
    int result = cuInit(0);
    used = read_ns(CLOCK_PROCESS_CPUTIME_ID) - used;
    printf("%d %ld %ld\n", result, now_ns() - before, used);
    fflush(stdout);
    getchar();
    return result;
}

static int by_length(const void *a, const void *b)
{
    long left = *(const long *)a, right = *(const long *)b;
    return (left > right) - (left < right);
}

static int pairs(int turns)
{
    void *context;
    unsigned long long pointer;
    long *took = calloc((size_t)turns, sizeof *took);
    int result = start(&context);
    for (int i = 0; !result && i < turns; i++) {
        long before = now_ns();
        result = cuMemAlloc_v2(&pointer, 4096);
        result |= cuMemFree_v2(pointer);
        took[i] = now_ns() - before;
    }
    qsort(took, (size_t)turns, sizeof *took, by_length);
    printf("%ld\n", took[turns / 2]);
    return result;
}

int main(int count, char **word)
{
    if (count == 2)
        return initialise();
    if (count == 3)
        return pairs(atoi(word[2]));
    void *context;
    pthread_t threads[64];
    int seconds = atoi(word[1]), many = atoi(word[2]), forks = atoi(word[3]);
    if (count > 4)
        piece_bytes = (size_t)atoi(word[4]) << 20;
    if (count > 5)
        ways = atoi(word[5]);
    int result = start(&context);
    if (result)
        return result == OUT_OF_MEMORY ? 0 : fprintf(stderr, "start: %d\n", result), 1 - (result == OUT_OF_MEMORY);
    for (int i = 0; i < many; i++)
        pthread_create(&threads[i], NULL, work, context);
    time_t end = time(NULL) + seconds;
    while (time(NULL) < end || children < forks)
        if (children < forks)
            fork_one("/proc/self/exe");
        else
            usleep(1000);
    stop = 1;
    for (int i = 0; i < many; i++)
        pthread_join(threads[i], NULL);
    check("cuCtxSynchronize", cuCtxSynchronize());
    check("cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease_v2(0));
    printf("%ld %ld %d %d\n", allocations, refused, wrong, children);
    return wrong != 0;
}
