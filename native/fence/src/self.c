#include "self.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Field numbers of proc(5), /proc/PID/stat. The third is the first after the name. */
enum { FIELD_STATE = 3, FIELD_THREADS = 20, FIELD_START = 22, FIELD_STACK = 28 };

static void take_field(struct stat_line *out, int field, const char *text)
{
    if (field == FIELD_STATE)
        out->state = *text;
    else if (field == FIELD_THREADS)
        out->threads = strtol(text, NULL, 10);
    else if (field == FIELD_START)
        out->start_ticks = strtoull(text, NULL, 10);
    else if (field == FIELD_STACK)
        out->stack_start = strtoull(text, NULL, 10);
}

bool stat_parse(const char *line, struct stat_line *out)
{
    const char *name_end = strrchr(line, ')'); /* the last one: a process may call itself "a) R 1" */
    if (!name_end)
        return false;
    *out = (struct stat_line){.pid = (pid_t)strtol(line, NULL, 10)};
    const char *at = name_end + 1;
    for (int field = FIELD_STATE; field <= FIELD_STACK; field++) {
        if (*at != ' ')
            return false;
        take_field(out, field, ++at);
        at += strcspn(at, " \n");
    }
    return out->pid > 0;
}

/* 0, or what errno said. */
static int stat_read(const char *path, struct stat_line *out)
{
    char line[1024];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno;
    ssize_t size = read(file, line, sizeof line - 1);
    int failed = size < 0 ? errno : 0;
    close(file);
    if (failed)
        return failed;
    line[size] = 0;
    return stat_parse(line, out) ? 0 : EIO;
}

static uint64_t own_namespace(void)
{
    struct stat found;
    return stat("/proc/self/ns/pid", &found) ? 0 : (uint64_t)found.st_ino;
}

struct self self_read(void)
{
    struct stat_line line;
    if (stat_read("/proc/self/stat", &line))
        return (struct self){.owner = self_word(getpid(), 1, 0)};
    uint64_t namespace = own_namespace();
    return (struct self){self_word(line.pid, line.start_ticks, namespace), namespace, line.stack_start};
}

#ifndef SELF_LOOK_AT /* the model of the slot protocol has processes of its own */
#define SELF_LOOK_AT look_at

/* 0, or what errno said. hidepid and the like make a living process invisible; kill(2) tells those apart. */
static int look_at(pid_t pid, struct stat_line *line)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int failed = stat_read(path, line);
    if (failed != ENOENT && failed != ESRCH)
        return failed;
    return kill(pid, 0) < 0 && errno == ESRCH ? ESRCH : EPERM;
}
#endif

/* A thread group's leader may have ended while others live on: then it looks like a zombie with more than one thread. */
static bool has_ended(const struct stat_line *line)
{
    return strchr("ZXx", line->state) && line->threads <= 1;
}

/* Whether the pid in the word means the same process to both: not in another pid namespace. */
static bool is_comparable(const struct fence_slot *slot, uint64_t owner, const struct self *self)
{
    uint64_t namespace = owner & FENCE_OWNER_ENTERING ? 0 : atomic_load(&slot->pid_namespace);
    uint64_t tag = owner >> FENCE_OWNER_TAG_SHIFT & FENCE_OWNER_TAG_MASK;
    return tag == (self->pid_namespace & FENCE_OWNER_TAG_MASK) && (!namespace || namespace == self->pid_namespace);
}

bool self_finds_dead(const struct fence_slot *slot, uint64_t owner, void *context)
{
    const struct self *self = context;
    struct stat_line line;
    bool described = fence_owner_is_process(owner);
    uint64_t image = described ? atomic_load(&slot->image) : 0;
    if (self_pid(owner) <= 0 || !is_comparable(slot, owner, self))
        return false;
    int failed = SELF_LOOK_AT(self_pid(owner), &line);
    if (failed)
        return failed == ESRCH;
    if ((uint32_t)line.start_ticks != (uint32_t)owner && (uint32_t)owner != 1)
        return true;
    return has_ended(&line) || (image && line.stack_start && image != line.stack_start);
}

bool self_finds_own_past(const struct fence_slot *slot, uint64_t owner, void *context)
{
    const struct self *self = context;
    uint64_t image = atomic_load(&slot->image);
    return owner == self->owner && is_comparable(slot, owner, self) && image && image != self->image;
}
