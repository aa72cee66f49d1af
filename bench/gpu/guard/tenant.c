#define _GNU_SOURCE
#include "tenant.h"
#include "cuda_load.h"
#include "watch.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static void nap(long microseconds)
{
    struct timespec length = {0, microseconds * 1000};
    nanosleep(&length, NULL);
}

static _Noreturn void fail(struct tenant_page *page, const char *what)
{
    snprintf(page->error, sizeof page->error, "%s", what);
    atomic_store(&page->step, STEP_FAILED);
    _exit(1);
}

static void arrive(struct tenant_page *page, enum tenant_step step)
{
    atomic_store(&page->step, step);
    while (atomic_load(&page->wanted) <= (int)step)
        nap(1000);
}

/* The numbers of an allocation and its end, asked of a file that is no driver: what a watcher must see. */
static _Noreturn void pretend(struct tenant_page *page, const char *file)
{
    char params[128] = {0};
    const uint64_t bytes = 512ull << 20;
    memcpy(params + MEMORY_PARAMS_SIZE_OFFSET, &bytes, sizeof bytes);
    struct rm_alloc made = {.root = 1, .parent = 2, .object = 3, .class_id = CLASS_MEMORY_LOCAL_USER,
                            .params = (uintptr_t)params, .params_size = sizeof params};
    struct rm_free gone = {1, 2, 3, 0};
    int descriptor = open(file, O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
        fail(page, strerror(errno));
    arrive(page, STEP_CONTEXT);
    page->held_bytes = bytes;
    ioctl(descriptor, _IOWR('F', RM_ALLOC, struct rm_alloc), &made);
    arrive(page, STEP_HOLDS);
    ioctl(descriptor, _IOWR('F', RM_FREE, struct rm_free), &gone);
    arrive(page, STEP_FREED);
    arrive(page, STEP_SPINS);
    atomic_store(&page->step, STEP_ENDED);
    _exit(0);
}

static _Noreturn void work(struct tenant_page *page)
{
    struct cuda cuda;
    const uint64_t began = now_ns();
    const char *problem = cuda_start(&cuda);
    if (problem)
        fail(page, problem);
    atomic_store(&page->start_ns, now_ns() - began);
    arrive(page, STEP_CONTEXT);
    if ((problem = cuda_hold(&cuda, &page->held_bytes)))
        fail(page, problem);
    arrive(page, STEP_HOLDS);
    if ((problem = cuda_release(&cuda)))
        fail(page, problem);
    arrive(page, STEP_FREED);
    atomic_store(&page->step, STEP_SPINS);
    while (atomic_load(&page->wanted) <= STEP_SPINS) {
        if ((problem = cuda_spin(&cuda)))
            fail(page, problem);
        atomic_fetch_add(&page->kernels, CUDA_SPIN_BATCH);
    }
    atomic_store(&page->step, STEP_ENDED);
    _exit(0);
}

static _Noreturn void child(struct tenant *tenant, int channel, bool watched, const char *file)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (watched) {
        int listener = watch_filter();
        if (listener < 0 || watch_send_listener(channel, listener))
            fail(tenant->page, strerror(errno));
        close(listener);
    }
    if (file)
        pretend(tenant->page, file);
    work(tenant->page);
}

int tenant_start(struct tenant *tenant, bool watched, const char *file)
{
    int ends[2];
    memset(tenant, 0, sizeof *tenant);
    tenant->page = mmap(NULL, sizeof *tenant->page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tenant->page == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return -1;
    tenant->channel = ends[0];
    tenant->pid = fork();
    if (tenant->pid == 0)
        child(tenant, ends[1], watched, file);
    close(ends[1]);
    return tenant->pid < 0 ? -1 : 0;
}

bool tenant_until(struct tenant *tenant, enum tenant_step step, int seconds)
{
    const uint64_t end = now_ns() + (uint64_t)seconds * 1000000000u;
    atomic_store(&tenant->page->wanted, (int)step);
    while (now_ns() < end) {
        int reached = atomic_load(&tenant->page->step);
        if (reached == STEP_FAILED)
            return false;
        if (reached >= (int)step)
            return true;
        nap(1000);
    }
    snprintf(tenant->page->error, sizeof tenant->page->error, "not at step %d after %d s", (int)step, seconds);
    return false;
}

int tenant_end(struct tenant *tenant)
{
    int status = 0;
    if (!tenant_until(tenant, STEP_ENDED, 5))
        kill(tenant->pid, SIGKILL);
    waitpid(tenant->pid, &status, 0);
    close(tenant->channel);
    return status;
}

double tenant_rate(struct tenant *tenant, double seconds)
{
    const uint64_t began = now_ns(), before = atomic_load(&tenant->page->kernels);
    nap((long)(seconds * 1e6) % 1000000);
    for (int n = 0; n < (int)seconds; n++)
        sleep(1);
    return (double)(atomic_load(&tenant->page->kernels) - before) * 1e9 / (double)(now_ns() - began);
}
