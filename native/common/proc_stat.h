/* One line of /proc/PID/stat or /proc/PID/task/TID/stat, as proc_pid_stat(5) describes it. */
#ifndef GPUPOOL_COMMON_PROC_STAT_H
#define GPUPOOL_COMMON_PROC_STAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_stat {
    pid_t pid, parent;
    char state;
    long threads;
    uint64_t start_ticks; /* since boot, in clock ticks: with the pid it names a process for ever */
    uint64_t stack_start; /* differs after an exec; 0 where the kernel hides it */
};

/* Reads the text of the file. False: not such a line. */
bool proc_stat_parse(const char *line, struct proc_stat *out);

/* Opens and reads the file below `directory` (AT_FDCWD, or of /proc). 0, or what errno said; EIO: not such a line. */
int proc_stat_read(int directory, const char *path, struct proc_stat *out);

/* A thread group's leader may have ended while others live on: then it looks like a zombie with more than one thread. */
static inline bool proc_stat_has_ended(const struct proc_stat *line)
{
    return (line->state == 'Z' || line->state == 'X' || line->state == 'x') && line->threads <= 1;
}

#endif
