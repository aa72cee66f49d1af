#include "process_table.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bus_error.h"
#include "common/proc_stat.h"
#include "credentials.h"
#include "events.h"
#include "process/ledger.h"
#include "process/process_id.h"
#include "report.h"

struct slot_work {
    struct share *share;
    uint32_t slot;
    uint64_t owner, pid_namespace;
    pid_t pid;
    bool cleared;
};

static void read_owner(void *context)
{
    struct slot_work *work = context;
    work->owner = atomic_load(&work->share->usage->slot[work->slot].owner);
    work->pid = (pid_t)atomic_load(&work->share->usage->slot[work->slot].pid_outside);
    work->pid_namespace = atomic_load(&work->share->usage->slot[work->slot].pid_namespace);
}

static void write_pid(void *context)
{
    struct slot_work *work = context;
    atomic_store(&work->share->usage->slot[work->slot].pid_outside, (uint32_t)work->pid);
}

static void clear_slot(void *context)
{
    struct slot_work *work = context;
    work->cleared = ledger_clear_slot(work->share->usage, work->slot, work->owner, FENCE_OWNER_REAPING);
}

static struct process *watch(struct share *s, pid_t pid, int pidfd, uint32_t slot, uint64_t owner)
{
    struct process *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    *p = (struct process){{SOURCE_PROCESS, pidfd, s}, pid, slot, owner, false, s->processes};
    if (!poll_add(&p->source)) {
        free(p);
        return NULL;
    }
    s->processes = p;
    return p;
}

static bool is_known(const struct share *s, pid_t pid, uint32_t slot, uint64_t owner)
{
    for (const struct process *p = s->processes; p; p = p->next)
        if (p->pid == pid && p->slot == slot && p->owner == owner)
            return true;
    return false;
}

static void unlink_process(struct process *process)
{
    for (struct process **at = &process->source.share->processes; *at; at = &(*at)->next)
        if (*at == process) {
            *at = process->next;
            return;
        }
}

static void drop(struct process *process)
{
    unlink_process(process);
    poll_remove(&process->source);
    close(process->source.file);
    poll_free(&process->source);
}

/* The slot has another owner now. (A process may have several slots: copies of the fence in namespaces of the loader.) */
static void supersede(struct share *s, uint32_t slot)
{
    for (struct process *p = s->processes, *next; p; p = next) {
        next = p->next;
        if (p->slot == slot)
            drop(p);
    }
}

/* Looked at while the pidfd is held: a process that has ended keeps no pid that another could have by now. */
static bool is_owner(pid_t pid, int pidfd, const struct slot_work *work)
{
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    return is_slot_owner(pid, work->owner, work->pid_namespace) && poll(&end, 1, 0) == 0;
}

enum process_answer enter_process(struct share *s, pid_t pid, int pidfd, uint32_t slot)
{
    struct slot_work work = {.share = s, .slot = slot};
    if (slot >= FENCE_MAX_SLOTS || !run_guarded(read_owner, &work))
        return PROCESS_FAILED;
    if (!is_owner(pid, pidfd, &work))
        return PROCESS_STRANGER;
    if (is_known(s, pid, slot, work.owner)) {
        close(pidfd);
        return PROCESS_ENTERED;
    }
    supersede(s, slot);
    work.pid = pid;
    if (!run_guarded(write_pid, &work) || !watch(s, pid, pidfd, slot, work.owner))
        return PROCESS_FAILED;
    report("event\t%s\tprocess\t%d\t%u", s->name, (int)pid, slot);
    return PROCESS_ENTERED;
}

void remove_process(struct process *process)
{
    struct share *s = process->source.share;
    struct slot_work work = {.share = s, .slot = process->slot, .owner = process->owner};
    if (process->owner > FENCE_OWNER_REAPING)
        run_guarded(clear_slot, &work);
    report("event\t%s\t%s\t%d\t%u", s->name, work.cleared ? "cleared" : "ended", (int)process->pid, process->slot);
    drop(process);
}

/* A pid that another process has by now is told by its start time, the low half of the owner word. */
static bool same_process(pid_t pid, uint64_t owner)
{
    char path[64];
    struct proc_stat line;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    return !proc_stat_read(AT_FDCWD, path, &line) && (uint32_t)line.start_ticks == (uint32_t)owner;
}

static void adopt_slot(struct share *s, struct slot_work *work)
{
    if (work->owner == FENCE_OWNER_REAPING) {
        run_guarded(clear_slot, work);
        return;
    }
    if (!fence_owner_is_process(work->owner))
        return; /* a process takes or clears it now; should it die of that, another one clears it */
    if (work->pid <= 0)
        return; /* it never said hello; the next process that is refused memory clears it */
    int pidfd = (int)syscall(SYS_pidfd_open, work->pid, 0);
    bool lives = pidfd >= 0 && same_process(work->pid, work->owner);
    if (lives && watch(s, work->pid, pidfd, work->slot, work->owner))
        return;
    if (pidfd >= 0)
        close(pidfd);
    if (!lives)
        run_guarded(clear_slot, work);
}

void adopt_processes(struct share *s)
{
    struct slot_work work = {.share = s};
    for (work.slot = 0; work.slot < FENCE_MAX_SLOTS; work.slot++)
        if (run_guarded(read_owner, &work) && work.owner)
            adopt_slot(s, &work);
}

void forget_processes(struct share *s)
{
    while (s->processes)
        drop(s->processes);
}
