#include "proc_stat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Field numbers of proc_pid_stat(5). The third is the first after the name. */
enum { FIELD_STATE = 3, FIELD_PARENT = 4, FIELD_THREADS = 20, FIELD_START = 22, FIELD_STACK = 28 };

static void take_field(struct proc_stat *out, int field, const char *text)
{
    if (field == FIELD_STATE)
        out->state = *text;
    else if (field == FIELD_PARENT)
        out->parent = (pid_t)strtol(text, NULL, 10);
    else if (field == FIELD_THREADS)
        out->threads = strtol(text, NULL, 10);
    else if (field == FIELD_START)
        out->start_ticks = strtoull(text, NULL, 10);
    else if (field == FIELD_STACK)
        out->stack_start = strtoull(text, NULL, 10);
}

bool proc_stat_parse(const char *line, struct proc_stat *out)
{
    const char *name_end = strrchr(line, ')'); /* the last one: a process may call itself "a) R 1" */
    if (!name_end)
        return false;
    *out = (struct proc_stat){.pid = (pid_t)strtol(line, NULL, 10)};
    const char *at = name_end + 1;
    for (int field = FIELD_STATE; field <= FIELD_STACK; field++) {
        if (*at != ' ')
            return false;
        take_field(out, field, ++at);
        at += strcspn(at, " \n");
    }
    return out->pid > 0;
}

int proc_stat_read(int directory, const char *path, struct proc_stat *out)
{
    char line[1024];
    int file = openat(directory, path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno;
    ssize_t size = read(file, line, sizeof line - 1); /* one read gives the whole line: the kernel makes it in one piece */
    int failed = size < 0 ? errno : 0;
    close(file);
    if (failed)
        return failed;
    line[size] = 0;
    return proc_stat_parse(line, out) ? 0 : EIO;
}
