#define _GNU_SOURCE
#include "process_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/proc_stat.h"
#include "common/small_file.h"

struct process {
    pid_t pid, parent;
    bool ours;
};

/* False: it has ended meanwhile, or waits to be reaped. */
static bool read_parent(int proc, const char *pid, struct process *process)
{
    char path[64];
    struct proc_stat line;

    snprintf(path, sizeof path, "%.20s/stat", pid);
    if (proc_stat_read(proc, path, &line) || proc_stat_has_ended(&line))
        return false;
    *process = (struct process){.pid = line.pid, .parent = line.parent};
    return true;
}

static struct process *read_all(size_t *count)
{
    DIR *proc = opendir("/proc");
    struct process *all = NULL;
    size_t room = 0;

    *count = 0;
    for (struct dirent *entry; proc && (entry = readdir(proc));) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        if (*count == room) {
            room = room ? room * 2 : 256;
            struct process *more = realloc(all, room * sizeof *all);
            if (!more)
                break;
            all = more;
        }
        if (read_parent(dirfd(proc), entry->d_name, &all[*count]))
            ++*count;
    }
    if (proc)
        closedir(proc);
    return all;
}

static int by_pid(const void *left, const void *right)
{
    pid_t a = ((const struct process *)left)->pid, b = ((const struct process *)right)->pid;

    return (a > b) - (a < b);
}

static bool is_ours(const struct process *all, size_t count, pid_t pid)
{
    struct process key = {.pid = pid};
    const struct process *found;

    if (pid == getpid())
        return true;
    found = bsearch(&key, all, count, sizeof *all, by_pid);
    return found && found->ours;
}

static void mark_descendants(struct process *all, size_t count)
{
    bool changed = count > 0;

    if (count)
        qsort(all, count, sizeof *all, by_pid);
    while (changed) {
        changed = false;
        for (size_t i = 0; i < count; i++)
            if (!all[i].ours && is_ours(all, count, all[i].parent))
                changed = all[i].ours = true;
    }
}

static bool has_children(void)
{
    char path[64], text[16];

    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    ssize_t got = read_small(AT_FDCWD, path, text, sizeof text);
    return got != 0; /* an error means a kernel without this file: look the long way */
}

size_t signal_process_tree(int number, size_t *denied)
{
    size_t count = 0, seen = 0;

    *denied = 0;
    if (!has_children())
        return 0;
    struct process *all = read_all(&count);
    mark_descendants(all, count);
    for (size_t i = 0; i < count; i++) {
        if (!all[i].ours)
            continue;
        seen++;
        if (kill(all[i].pid, number) < 0 && errno == EPERM)
            ++*denied;
    }
    free(all);
    return seen;
}
