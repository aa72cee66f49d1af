/* Threads, forks and execs on the fence's CUDA-free parts, for the sanitizers.

   storm REGION SECONDS [again]   runs so long, and on until enough has happened; prints: allocations frees forks;
   exit status 1 when the ledger or the handles are wrong */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "memory/handles.h"
#include "process/ledger.h"
#include "process/state.h"

#define THREADS 6
#define PIECES 64
#define LIMIT 100000u
#define ENOUGH_ALLOCATIONS 1000
#define ENOUGH_FREES 500
#define ENOUGH_FORKS 2

static struct fence_usage *usage;
static uint32_t slot;
static atomic_int stop, faults, allocations, frees, forks;
static _Atomic uint64_t truth; /* what a card would have given */

/* As state.c does it. */
void *fence_process_memory(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at != MAP_FAILED && !madvise(at, bytes, MADV_WIPEONFORK) ? at : NULL;
}

static uint64_t key_of(uintptr_t thread, int piece)
{
    return (uint64_t)thread << 20 | (uint64_t)(piece + 1) << 9; /* as a driver's pointers: multiples of 512 */
}

static void allocate(uintptr_t thread, int piece, uint64_t bytes)
{
    enum ledger_answer answer = ledger_reserve(usage, slot, 0, bytes, LIMIT);
    while (answer == LEDGER_RACING || answer == LEDGER_WAITING)
        answer = answer == LEDGER_WAITING ? ledger_decide(usage, slot, 0, bytes, LIMIT)
                                          : ledger_reserve(usage, slot, 0, bytes, LIMIT);
    if (answer != LEDGER_GRANTED)
        return;
    faults += atomic_fetch_add(&truth, bytes) + bytes > LIMIT;
    handles_add(&(struct handle){.key = key_of(thread, piece), .kind = HANDLE_MEMORY, .bytes = bytes,
                                 .context = (void *)(thread + 1)});
    ledger_commit(usage, slot, 0, bytes);
    allocations++;
}

static void give_back(uintptr_t thread, int piece)
{
    struct handle handle;
    if (!handles_take(HANDLE_MEMORY, key_of(thread, piece), &handle))
        return;
    faults += handle.context != (void *)(thread + 1);
    atomic_fetch_sub(&truth, handle.bytes);
    ledger_release(usage, slot, 0, handle.bytes);
    frees++;
}

static void release(const struct handle *handle)
{
    atomic_fetch_sub(&truth, handle->bytes);
    ledger_release(usage, slot, 0, handle->bytes);
}

static void *work(void *given)
{
    uintptr_t thread = (uintptr_t)given;
    unsigned int random = (unsigned int)thread + 1;
    while (!stop) {
        int piece = rand_r(&random) % PIECES;
        struct handle handle;
        if (handles_find(HANDLE_MEMORY, key_of(thread, piece), &handle))
            give_back(thread, piece);
        else
            allocate(thread, piece, (uint64_t)rand_r(&random) % 5000 + 1);
        if (rand_r(&random) % 512 == 0)
            handles_sweep((void *)(thread + 1), release);
    }
    handles_sweep((void *)(thread + 1), release);
    return NULL;
}

/* libc's malloc holds its locks over a fork; those of the address and the thread sanitizer (GCC 12) do not, so that a
   child of a thread that was inside them would wait for ever in calloc: there a forked child makes no handles, and only
   one that has started anew by exec does. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FORKED_MAY_ALLOCATE 0
#else
#define FORKED_MAY_ALLOCATE 1
#endif

/* A child begins with no handles and may make its own at once, whatever lock a thread of the parent held. */
static int child(int may_allocate)
{
    struct handle handle;
    int wrong = 0;
    for (uintptr_t thread = 0; thread < THREADS; thread++)
        for (int piece = 0; piece < PIECES; piece++)
            wrong += handles_find(HANDLE_MEMORY, key_of(thread, piece), &handle);
    for (int piece = 0; may_allocate && piece < PIECES; piece++)
        handles_add(&(struct handle){.key = key_of(99, piece), .kind = HANDLE_MEMORY, .bytes = 1});
    for (int piece = 0; may_allocate && piece < PIECES; piece++)
        wrong += !handles_take(HANDLE_MEMORY, key_of(99, piece), &handle) || handle.bytes != 1;
    return wrong != 0;
}

static void fork_on(char **word)
{
    int status = -1;
    pid_t pid = fork();
    if (!pid && forks % 2)
        execl("/proc/self/exe", word[0], word[1], "0", "again", (char *)NULL);
    if (!pid)
        _exit(child(FORKED_MAY_ALLOCATE));
    faults += waitpid(pid, &status, 0) != pid || status != 0;
    forks++;
}

/* A sanitizer on a busy machine may take a second for one fork: then the seconds alone would end the storm before it began. */
static int has_enough(void)
{
    return allocations > ENOUGH_ALLOCATIONS && frees > ENOUGH_FREES && forks > ENOUGH_FORKS;
}

int main(int count, char **word)
{
    pthread_t threads[THREADS];
    int file = count > 2 ? open(word[1], O_RDWR) : -1;
    usage = mmap(NULL, sizeof *usage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (usage == MAP_FAILED)
        return 2;
    if (count > 3)
        return child(1);
    int taken = ledger_take_slot(usage, FENCE_MAX_SLOTS, (uint64_t)getpid() << 32 | 1, 0, 0);
    slot = (uint32_t)taken;
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    time_t end = time(NULL) + atoi(word[2]);
    while (time(NULL) <= end || !has_enough())
        fork_on(word);
    stop = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    faults += ledger_used(usage, 0) != 0 || truth;
    printf("%d %d %d\n", allocations, frees, forks);
    if (faults)
        fprintf(stderr, "%d faults, %lu bytes left\n", faults, ledger_used(usage, 0));
    return faults != 0;
}
