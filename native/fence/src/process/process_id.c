#include "process_id.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/proc_stat.h"

static uint64_t own_namespace(void)
{
    struct stat found;
    return stat("/proc/self/ns/pid", &found) ? 0 : (uint64_t)found.st_ino;
}

struct process_id read_process_id(void)
{
    struct proc_stat line;
    if (proc_stat_read(AT_FDCWD, "/proc/self/stat", &line))
        return (struct process_id){.owner = make_owner_word(getpid(), 1, 0)};
    uint64_t namespace = own_namespace();
    return (struct process_id){make_owner_word(line.pid, line.start_ticks, namespace), namespace, line.stack_start};
}

#ifndef PROCESS_ID_LOOK_AT /* the model of the slot protocol has processes of its own */
#define PROCESS_ID_LOOK_AT look_at

/* 0, or what errno said. hidepid and the like make a living process invisible; kill(2) tells those apart. */
static int look_at(pid_t pid, struct proc_stat *line)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int failed = proc_stat_read(AT_FDCWD, path, line);
    if (failed != ENOENT && failed != ESRCH)
        return failed;
    return kill(pid, 0) < 0 && errno == ESRCH ? ESRCH : EPERM;
}
#endif

/* Whether the pid in the word means the same process to both: not in another pid namespace. */
static bool is_comparable(const struct fence_slot *slot, uint64_t owner, const struct process_id *self)
{
    uint64_t namespace = owner & FENCE_OWNER_ENTERING ? 0 : atomic_load(&slot->pid_namespace);
    uint64_t tag = owner >> FENCE_OWNER_TAG_SHIFT & FENCE_OWNER_TAG_MASK;
    return tag == (self->pid_namespace & FENCE_OWNER_TAG_MASK) && (!namespace || namespace == self->pid_namespace);
}

bool is_dead_process(const struct fence_slot *slot, uint64_t owner, void *context)
{
    const struct process_id *self = context;
    struct proc_stat line;
    bool described = fence_owner_is_process(owner);
    uint64_t image = described ? atomic_load(&slot->image) : 0;
    if (pid_of_owner(owner) <= 0 || !is_comparable(slot, owner, self))
        return false;
    int failed = PROCESS_ID_LOOK_AT(pid_of_owner(owner), &line);
    if (failed)
        return failed == ESRCH;
    if ((uint32_t)line.start_ticks != (uint32_t)owner && (uint32_t)owner != 1)
        return true;
    return proc_stat_has_ended(&line) || (image && line.stack_start && image != line.stack_start);
}

bool is_own_past(const struct fence_slot *slot, uint64_t owner, void *context)
{
    const struct process_id *self = context;
    uint64_t image = atomic_load(&slot->image);
    return owner == self->owner && is_comparable(slot, owner, self) && image && image != self->image;
}
