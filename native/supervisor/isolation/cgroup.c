#define _GNU_SOURCE
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <linux/magic.h>
#include <unistd.h>

#include "common/small_file.h"

/* The parent is ours as well (gpupool-<pool>/<job>); anything above it must be there already. */
static int make_directory(const char *path)
{
    char parent[4096];
    size_t length = strlen(path);

    if (mkdir(path, 0755) == 0 || errno == EEXIST)
        return 0;
    if (errno != ENOENT || length >= sizeof parent)
        return -1;
    memcpy(parent, path, length + 1);
    char *slash = strrchr(parent, '/');
    if (!slash || slash == parent)
        return -1;
    *slash = '\0';
    if (mkdir(parent, 0755) < 0 && errno != EEXIST)
        return -1;
    return mkdir(path, 0755) < 0 && errno != EEXIST ? -1 : 0;
}

static bool is_cgroup(int directory)
{
    struct statfs status;

    return fstatfs(directory, &status) == 0 &&
           (status.f_type == CGROUP2_SUPER_MAGIC || status.f_type == CGROUP_SUPER_MAGIC);
}

/* For the record of memory only, and only if the parent cgroup has the controller: no reason to refuse a job. */
static void enable_memory_above(const char *path)
{
    char file[4096 + 32];
    const char *slash = strrchr(path, '/');

    snprintf(file, sizeof file, "%.*s/cgroup.subtree_control", (int)(slash - path), path);
    if (write_small(AT_FDCWD, file, "+memory") < 0)
        return;
}

static bool create_one(struct cgroups *groups, const char *path)
{
    size_t at = groups->count;

    if (make_directory(path) < 0)
        return false;
    enable_memory_above(path);
    groups->directories[at] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (groups->directories[at] < 0)
        return false;
    groups->members[at] = openat(groups->directories[at], "cgroup.procs", O_WRONLY | O_CLOEXEC);
    groups->count++;
    errno = is_cgroup(groups->directories[at]) ? errno : ENOTSUP;
    return groups->members[at] >= 0 && is_cgroup(groups->directories[at]);
}

bool cgroups_create(struct cgroups *groups, const struct spec *spec, char *why, size_t size)
{
    groups->paths = spec->cgroups;
    groups->count = 0;
    for (size_t i = 0; i < spec->cgroup_count; i++)
        if (!create_one(groups, spec->cgroups[i])) {
            snprintf(why, size, "cannot make the cgroup %.150s: %s", spec->cgroups[i], strerror(errno));
            return false;
        }
    return true;
}

bool cgroups_enter(const struct cgroups *groups)
{
    for (size_t i = 0; i < groups->count; i++)
        if (write(groups->members[i], "0", 1) < 0)
            return false;
    return true;
}

static size_t signal_members(int directory, int number, size_t *denied)
{
    char list[65536];
    size_t seen = 0;

    /* Opened anew each time: a v1 kernel keeps showing an open file the list it read first, dead members and all.
       One buffer holds thousands of members; the others are met in the next pass. */
    if (read_small(directory, "cgroup.procs", list, sizeof list) <= 0)
        return 0;
    for (char *line = list, *end; (end = strchr(line, '\n')); line = end + 1) {
        pid_t pid = (pid_t)strtol(line, NULL, 10);
        if (pid <= 1 || pid == getpid())
            continue;
        seen++;
        if (kill(pid, number) < 0 && errno == EPERM)
            ++*denied;
    }
    return seen;
}

static size_t signal_one(const struct cgroups *groups, size_t at, int number, size_t *denied)
{
    int directory = groups->directories[at];
    size_t seen;

    if (number != SIGKILL)
        return signal_members(directory, number, denied);
    /* A frozen (v1) or atomically killed (v2) group cannot fork faster than we kill. */
    bool frozen = write_small(directory, "freezer.state", "FROZEN") == 0;
    bool killed = !frozen && write_small(directory, "cgroup.kill", "1") == 0;
    seen = signal_members(directory, killed ? 0 : number, denied);
    if (frozen)
        (void)write_small(directory, "freezer.state", "THAWED");
    return seen;
}

size_t cgroups_signal(const struct cgroups *groups, int number, size_t *denied)
{
    size_t most = 0;

    *denied = 0;
    for (size_t i = 0; i < groups->count; i++) {
        size_t refused = 0;
        size_t seen = signal_one(groups, i, number, &refused);
        if (refused > *denied)
            *denied = refused;
        if (seen > most)
            most = seen;
        /* Every member is in every hierarchy: one gentle signal each is enough. */
        if (number != SIGKILL)
            break;
    }
    return most;
}

bool cgroups_memory_peak(const struct cgroups *groups, uint64_t *bytes)
{
    char text[64];

    for (size_t i = 0; i < groups->count; i++)
        if (read_small(groups->directories[i], "memory.peak", text, sizeof text) > 0 ||
            read_small(groups->directories[i], "memory.max_usage_in_bytes", text, sizeof text) > 0) {
            text[strcspn(text, "\n")] = '\0';
            return parse_number(text, UINT64_MAX, bytes);
        }
    return false;
}

/* The number behind "oom_kill " in a file of lines. */
static bool read_oom_kills(int directory, const char *file, uint64_t *count)
{
    char text[512];

    if (read_small(directory, file, text, sizeof text) <= 0)
        return false;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (strncmp(line, "oom_kill ", 9) == 0)
            return parse_number(line + 9, UINT64_MAX, count);
    }
    return false;
}

static bool read_limit_bytes(int directory, const char *file, uint64_t *bytes)
{
    char text[64];

    if (read_small(directory, file, text, sizeof text) <= 0)
        return false;
    text[strcspn(text, "\n")] = '\0';
    return parse_number(text, UINT64_MAX, bytes); /* "max" is none */
}

bool cgroups_out_of_memory(const struct cgroups *groups, uint64_t *limit)
{
    uint64_t kills;

    for (size_t i = 0; i < groups->count; i++) {
        int directory = groups->directories[i];
        if ((read_oom_kills(directory, "memory.events", &kills) ||
             read_oom_kills(directory, "memory.oom_control", &kills)) && kills > 0) {
            if (!read_limit_bytes(directory, "memory.max", limit) &&
                !read_limit_bytes(directory, "memory.limit_in_bytes", limit))
                *limit = 0;
            return true;
        }
    }
    return false;
}

void cgroups_remove(struct cgroups *groups)
{
    for (size_t i = 0; i < groups->count; i++) {
        close(groups->directories[i]);
        if (groups->members[i] >= 0)
            close(groups->members[i]);
        rmdir(groups->paths[i]);
    }
    groups->count = 0;
}
