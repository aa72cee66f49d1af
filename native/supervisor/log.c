#define _GNU_SOURCE
#include "log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void segment_name(uint64_t start, char name[40])
{
    snprintf(name, 40, "log.%016" PRIu64, start);
}

/* Keeps `starts` in order and, when there are more than fit, the latest. */
static void remember(struct log *log, uint64_t start)
{
    unsigned at = log->kept;

    if (log->kept == SPEC_MAX_LOG_FILES) {
        if (start < log->starts[0])
            return;
        memmove(log->starts, log->starts + 1, --at * sizeof log->starts[0]);
    } else {
        log->kept++;
    }
    for (; at && log->starts[at - 1] > start; at--)
        log->starts[at] = log->starts[at - 1];
    log->starts[at] = start;
}

/* An earlier run of the job has written here: this one goes on behind its last byte, in a segment of its own. */
static void find_earlier(struct log *log)
{
    char name[40];
    struct stat last;
    int directory = openat(log->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = directory < 0 ? NULL : fdopendir(directory);

    if (!entries) {
        if (directory >= 0)
            close(directory);
        return;
    }
    for (struct dirent *entry; (entry = readdir(entries));) {
        uint64_t start;
        if (sscanf(entry->d_name, "log.%16" SCNu64, &start) == 1)
            remember(log, start);
    }
    closedir(entries);
    if (!log->kept)
        return;
    segment_name(log->starts[log->kept - 1], name);
    if (fstatat(log->directory, name, &last, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    log->written = log->starts[log->kept - 1] + (uint64_t)last.st_size;
    if (last.st_size == 0)
        log->kept--;
}

void log_open(struct log *log, int directory, uint64_t max_bytes, unsigned files)
{
    memset(log, 0, sizeof *log);
    log->directory = directory;
    log->fd = -1;
    log->max_bytes = max_bytes;
    log->files = files;
    find_earlier(log);
}

static void drop_oldest(struct log *log)
{
    char name[40];

    segment_name(log->starts[0], name);
    unlinkat(log->directory, name, 0);
    memmove(log->starts, log->starts + 1, --log->kept * sizeof log->starts[0]);
}

static int open_segment(struct log *log)
{
    char name[40];

    log_close(log);
    segment_name(log->written, name);
    /* The oldest goes first: on a full disk that is what makes room for the next. */
    while (log->kept >= log->files)
        drop_oldest(log);
    log->fd = openat(log->directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (log->fd < 0)
        return -1;
    log->starts[log->kept++] = log->written;
    return 0;
}

void log_begin(struct log *log)
{
    if (log->fd < 0)
        open_segment(log);
}

void log_write(struct log *log, const char *bytes, size_t length)
{
    while (length) {
        uint64_t used = log->kept ? log->written - log->starts[log->kept - 1] : 0;
        if ((log->fd < 0 || used >= log->max_bytes) && open_segment(log) < 0)
            break;
        used = log->written - log->starts[log->kept - 1];
        uint64_t room = log->max_bytes - used;
        ssize_t put = write(log->fd, bytes, length < room ? length : room);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            break;
        log->written += (uint64_t)put;
        bytes += put;
        length -= (size_t)put;
    }
    log->lost += length;
}

void log_close(struct log *log)
{
    if (log->fd >= 0)
        close(log->fd);
    log->fd = -1;
}
