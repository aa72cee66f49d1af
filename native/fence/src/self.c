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
        return (struct self){.owner = (uint64_t)(uint32_t)getpid() << 32 | 1};
    uint64_t owner = (uint64_t)(uint32_t)line.pid << 32 | (uint32_t)line.start_ticks;
    return (struct self){owner, own_namespace(), line.stack_start};
}

/* hidepid and the like make a living process invisible; kill(2) tells those apart. */
static bool is_gone(pid_t pid)
{
    return kill(pid, 0) < 0 && errno == ESRCH;
}

/* A thread group's leader may have ended while others live on: then it looks like a zombie with more than one thread. */
static bool has_ended(const struct stat_line *line)
{
    return strchr("ZXx", line->state) && line->threads <= 1;
}

bool self_finds_dead(const struct fence_slot *slot, uint64_t owner, void *context)
{
    const struct self *self = context;
    uint64_t namespace = atomic_load(&slot->pid_namespace), image = atomic_load(&slot->image);
    pid_t pid = self_pid(owner);
    if ((namespace && namespace != self->pid_namespace) || pid <= 0)
        return false;
    struct stat_line line;
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int failed = stat_read(path, &line);
    if (failed)
        return (failed == ENOENT || failed == ESRCH) && is_gone(pid);
    if ((uint32_t)line.start_ticks != (uint32_t)owner && (uint32_t)owner != 1)
        return true;
    return has_ended(&line) || (image && line.stack_start && image != line.stack_start);
}
