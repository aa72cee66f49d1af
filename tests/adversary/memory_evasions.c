/* Ways to hold more memory than a share has, or to leave its ledger wrong, each by processes of the job itself.

     memory_evasions WAY SECONDS
   alone    nothing: how much is free for one process
   export   a child makes physical memory, hands it to its parent and is killed: what is the parent charged for?
   race     16 processes allocate and free at the limit
   killer   12 workers allocate and free, and one is killed every 2 to 12 ms
   create   8 threads create and release physical memory
   resize   allocates without end, frees now and then, while its share is changed from outside
   bell     sends rings to the arbiter's socket without end
   Prints `name=value` in bytes or counts. Exit 3: the way itself could not be gone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gpupool/doorbell.h"
#include "gpupool/region.h"

#define GIB (1ull << 30)
#define MIB (1ull << 20)
#define RACERS 16
#define WORKERS 12
#define KEPT 4096

struct place { int type, id; };
struct properties { int type, handles; struct place place; void *security; unsigned char flags[8]; };
struct access { struct place place; int flags; };

static struct {
    int (*init)(unsigned);
    int (*context)(void **, unsigned, int);
    int (*allocate)(uint64_t *, size_t);
    int (*release)(uint64_t);
    int (*info)(size_t *, size_t *);
    int (*create)(uint64_t *, size_t, const struct properties *, uint64_t);
    int (*discard)(uint64_t);
    int (*export)(void *, uint64_t, int, uint64_t);
    int (*import)(uint64_t *, void *, int);
    int (*reserve)(uint64_t *, size_t, size_t, uint64_t, uint64_t);
    int (*map)(uint64_t, size_t, size_t, uint64_t, uint64_t);
    int (*permit)(uint64_t, size_t, const struct access *, size_t);
    int (*fill)(uint64_t, unsigned char, size_t);
} cu;

static double seconds;

static void must(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "memory_evasions: %s\n", what);
    exit(3);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t end_ns(void)
{
    return now_ns() + (uint64_t)(seconds * 1e9);
}

#define OUT_OF_MEMORY 2

static void open_card(void)
{
    static const char *const names[] = {"cuInit", "cuCtxCreate_v2", "cuMemAlloc_v2", "cuMemFree_v2", "cuMemGetInfo_v2",
                                        "cuMemCreate", "cuMemRelease", "cuMemExportToShareableHandle",
                                        "cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess",
                                        "cuMemsetD8_v2"};
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
    must(library != NULL, "no libcuda.so.1");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        must((((void **)&cu)[i] = dlsym(library, names[i])) != NULL, names[i]);
    must(cu.init(0) == 0, "cuInit");
    int result;
    while ((result = cu.context(&context, 0, 0)) == OUT_OF_MEMORY) /* others of the job hold all of it just now */
        usleep(2000);
    must(result == 0, "cuCtxCreate");
}

static const struct fence_usage *usage(void)
{
    int file = open("/run/gpupool/usage/region", O_RDONLY);
    const struct fence_usage *mapped = mmap(NULL, sizeof *mapped, PROT_READ, MAP_SHARED, file, 0);
    must(mapped != MAP_FAILED, "the usage page cannot be read");
    return mapped;
}

static uint64_t committed(const struct fence_usage *page)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < FENCE_MAX_SLOTS; i++)
        if (page->slot[i].owner)
            sum += page->slot[i].device[0].committed_bytes + page->slot[i].device[0].pending_bytes;
    return sum;
}

/* What the next process of the job may have: the answer also clears the slots of dead ones. */
static void print_free(void)
{
    size_t free_bytes, total;
    must(cu.info(&free_bytes, &total) == 0, "cuMemGetInfo");
    printf("free=%zu total=%zu\n", free_bytes, total);
}

static void alone(void)
{
    open_card();
    print_free();
}

static void send_file(int socket, int file)
{
    char byte = 'x', room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &file, sizeof file);
    must(sendmsg(socket, &message, 0) == 1, "sendmsg");
}

static int receive_file(int socket)
{
    int file;
    char byte, room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    must(recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message), "recvmsg");
    memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    return file;
}

/* As long as the dead process has its slot, what it made is charged to it. */
static void await_cleared(const struct fence_usage *page, pid_t pid)
{
    for (unsigned i = 0; i < FENCE_MAX_SLOTS; i++)
        while (fence_owner_is_process(page->slot[i].owner) && (pid_t)(page->slot[i].owner >> 32) == pid)
            usleep(100);
}

/* How many bytes there are to be had. */
static unsigned long long take_all(void)
{
    unsigned long long taken = 0;
    uint64_t address;
    for (size_t size = GIB; size >= MIB; size /= 2)
        while (cu.allocate(&address, size) == 0)
            taken += size;
    return taken;
}

static void export_and_die(void)
{
    int ends[2], file;
    uint64_t handle, address;
    must(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0, "socketpair");
    pid_t child = fork();
    if (!child) {
        open_card();
        struct properties wanted = {.type = 1, .handles = 1, .place = {1, 0}};
        must(cu.create(&handle, GIB, &wanted, 0) == 0, "cuMemCreate");
        must(cu.export(&file, handle, 1, 0) == 0, "cuMemExportToShareableHandle");
        send_file(ends[1], file);
        pause();
    }
    open_card();
    file = receive_file(ends[0]);
    must(cu.import(&handle, (void *)(intptr_t)file, 1) == 0, "cuMemImportFromShareableHandle");
    must(cu.reserve(&address, GIB, 0, 0, 0) == 0 && cu.map(address, GIB, 0, handle, 0) == 0, "cuMemMap");
    must(cu.permit(address, GIB, &(struct access){{1, 0}, 3}, 1) == 0, "cuMemSetAccess");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    await_cleared(usage(), child);
    print_free();
    printf("fill=%d more=%llu\n", cu.fill(address, 7, MIB), take_all());
}

static _Atomic long long *counts; /* held, most held, given, refused: by the driver's answers */

static void race_one(unsigned seed)
{
    static const size_t sizes[] = {64 * MIB, 4 * MIB, 513, 100000, MIB, 33 * MIB};
    static uint64_t kept[KEPT];
    static size_t size[KEPT];
    int n = 0;
    open_card();
    for (uint64_t end = end_ns(); now_ns() < end;) {
        size_t bytes = sizes[rand_r(&seed) % 6];
        if (n < KEPT && rand_r(&seed) % 5) {
            int given = cu.allocate(&kept[n], bytes) == 0;
            counts[given ? 2 : 3]++;
            if (given) {
                size[n++] = bytes;
                long long held = (counts[0] += (long long)bytes), most = counts[1];
                while (held > most && !atomic_compare_exchange_weak(&counts[1], &most, held))
                    ;
            }
        }
        if (n && (rand_r(&seed) % 3 == 0 || n == KEPT)) {
            int i = rand_r(&seed) % n;
            counts[0] -= (long long)size[i];
            cu.release(kept[i]);
            kept[i] = kept[--n];
            size[i] = size[n];
        }
    }
    while (n)
        counts[0] -= (long long)size[--n];
    _exit(0);
}

static void race(void)
{
    int status, bad = 0;
    counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (unsigned i = 0; i < RACERS; i++)
        if (!fork())
            race_one(i);
    while (wait(&status) > 0)
        bad += status != 0;
    open_card();
    printf("bad=%d most=%lld given=%lld refused=%lld\n", bad, counts[1], counts[2], counts[3]);
    print_free();
}

static void work(unsigned seed)
{
    uint64_t kept[64];
    int n = 0;
    open_card();
    for (;;) {
        if (n < 64 && cu.allocate(&kept[n], (1 + rand_r(&seed) % 32) * MIB) == 0)
            n++;
        else if (n)
            cu.release(kept[--n]);
    }
}

static pid_t start_worker(unsigned seed)
{
    pid_t child = fork();
    if (!child)
        work(seed);
    return child;
}

static void end_child(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void kill_workers(void)
{
    pid_t child[WORKERS];
    unsigned seed = 1;
    long kills = 0;
    for (unsigned i = 0; i < WORKERS; i++)
        child[i] = start_worker(i);
    for (uint64_t end = end_ns(); now_ns() < end; kills++) {
        usleep((useconds_t)(2000 + rand_r(&seed) % 10000));
        int i = rand_r(&seed) % WORKERS;
        end_child(child[i]);
        child[i] = start_worker((unsigned)kills);
    }
    for (unsigned i = 0; i < WORKERS; i++)
        end_child(child[i]);
    open_card();
    print_free();
    printf("kills=%ld\n", kills);
}

static _Atomic long created, failed;

static void *create_and_discard(void *number)
{
    unsigned seed = (unsigned)(uintptr_t)number;
    const struct properties wanted = {.type = 1, .place = {1, 0}};
    uint64_t handle;
    for (uint64_t end = end_ns(); now_ns() < end; created++)
        if (cu.create(&handle, (size_t)(1 + rand_r(&seed) % 16) * 2 * MIB, &wanted, 0) || cu.discard(handle))
            failed++;
    return NULL;
}

static void create(void)
{
    pthread_t thread[8];
    open_card();
    const struct fence_usage *page = usage();
    uint64_t before = committed(page);
    for (uintptr_t i = 0; i < 8; i++)
        must(pthread_create(&thread[i], NULL, create_and_discard, (void *)i) == 0, "no thread");
    for (int i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
    printf("created=%ld failed=%ld leaked=%lld\n", created, failed, (long long)(committed(page) - before));
}

static void resize(void)
{
    static uint64_t kept[KEPT];
    size_t free_bytes, total, held = 0, over = 0, totals = 0, last = 0;
    unsigned seed = 1;
    int n = 0;
    open_card();
    for (uint64_t end = end_ns(); now_ns() < end;) {
        must(cu.info(&free_bytes, &total) == 0, "cuMemGetInfo");
        totals += total != last;
        last = total;
        if (n < KEPT && cu.allocate(&kept[n], 32 * MIB) == 0) {
            n++, held += 32 * MIB;
            must(cu.info(&free_bytes, &total) == 0, "cuMemGetInfo");
            over += held > total && total == last;
        } else {
            usleep(300);
            if (n && rand_r(&seed) % 50 == 0)
                cu.release(kept[--n]), held -= 32 * MIB;
        }
    }
    printf("totals=%zu over=%zu\n", totals, over);
}

static void flood(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/run/gpupool/usage/doorbell"};
    struct fence_bell bell = {.layout = 1, .kind = FENCE_BELL_RING};
    long sent = 0;
    open_card();
    for (uint64_t end = end_ns(); now_ns() < end;) {
        int file = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        must(file >= 0, "no socket");
        if (connect(file, (struct sockaddr *)&address, sizeof address) == 0)
            for (int i = 0; i < 100000 && now_ns() < end && send(file, &bell, sizeof bell, MSG_NOSIGNAL) > 0; i++)
                sent++;
        close(file);
    }
    printf("sent=%ld\n", sent);
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*go)(void); } ways[] = {
        {"alone", alone}, {"export", export_and_die}, {"race", race}, {"killer", kill_workers}, {"create", create}, {"resize", resize}, {"bell", flood}};
    must(argc == 3, "WAY SECONDS");
    seconds = strtod(argv[2], NULL);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(argv[1], ways[i].name)) {
            ways[i].go();
            return 0;
        }
    must(0, "no such way");
}
