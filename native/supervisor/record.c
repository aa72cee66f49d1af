#define _GNU_SOURCE
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/proc_stat.h"
#include "common/small_file.h"

static bool write_all(int fd, const char *text)
{
    size_t length = strlen(text);

    while (length) {
        ssize_t put = write(fd, text, length);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        text += put;
        length -= (size_t)put;
    }
    return true;
}

bool record_started(struct job *job)
{
    char boot[64] = "unknown", text[512];
    struct stat own;
    int fd = openat(job->directory, "started", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    if (fd < 0)
        return false;
    if (read_small(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, sizeof boot) > 0)
        boot[strcspn(boot, "\n")] = '\0';
    job->started_wall_ns = clock_ns(CLOCK_REALTIME);
    job->started_boot_ns = clock_ns(CLOCK_BOOTTIME);
    snprintf(text, sizeof text,
             "gpupool-started 1\nsupervisor_pid=%d\nboot_id=%s\nstarted_ns=%" PRIu64 "\nstarted_boot_ns=%" PRIu64 "\n",
             getpid(), boot, job->started_wall_ns, job->started_boot_ns);
    /* Which file this is: a copy of the record tells by it that its job's processes are another pool's. */
    if (fstat(fd, &own) == 0)
        snprintf(text + strlen(text), sizeof text - strlen(text), "file=%ju:%ju\n", (uintmax_t)own.st_dev, (uintmax_t)own.st_ino);
    /* The name is what counts and must survive a power cut; that the text is whole is a convenience. */
    bool written = write_all(fd, text);
    close(fd);
    return fsync(job->directory) == 0 && written;
}

static uint64_t start_ticks(pid_t pid)
{
    char path[64];
    struct proc_stat line;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    return proc_stat_read(AT_FDCWD, path, &line) ? 0 : line.start_ticks;
}

void record_command(struct job *job)
{
    char text[128];
    int fd = openat(job->directory, "started", O_WRONLY | O_APPEND | O_CLOEXEC);

    job->command_ticks = start_ticks(job->command);
    snprintf(text, sizeof text, "pid=%d\nstart_ticks=%" PRIu64 "\n", job->command, job->command_ticks);
    if (fd < 0)
        return;
    (void)write_all(fd, text);
    close(fd);
}

static const char *reason_name(const struct job *job)
{
    switch (job->reason) {
    case REASON_STOPPED:
        return "stopped";
    case REASON_INTERRUPTED:
        return "interrupted";
    case REASON_MAX_TIME:
        return "max_time";
    case REASON_FAILED_TO_START:
        return "failed_to_start";
    case REASON_NONE:
        break;
    }
    return job->has_status && WIFSIGNALED(job->wait_status) ? "signalled" : "exited";
}

static int outcome(const struct job *job, char *text, size_t size, char separator)
{
    if (job->reason == REASON_FAILED_TO_START)
        return snprintf(text, size, "state=failed_to_start%creason=%s%cerrno=%d%cstage=%s", separator, reason_name(job),
                        separator, job->error, separator, job->stage);
    if (job->has_status && WIFSIGNALED(job->wait_status))
        return snprintf(text, size, "state=ended%creason=%s%csignal=%d%ccore_dumped=%d", separator, reason_name(job),
                        separator, WTERMSIG(job->wait_status), separator, WCOREDUMP(job->wait_status) ? 1 : 0);
    if (job->has_status)
        return snprintf(text, size, "state=ended%creason=%s%cexit_code=%d", separator, reason_name(job), separator,
                        WEXITSTATUS(job->wait_status));
    return snprintf(text, size, "state=ended%creason=%s", separator, reason_name(job));
}

/* The message may hold spaces and comes last. */
void record_line(const struct job *job, char *line, size_t size)
{
    size_t used = (size_t)snprintf(line, size, "exited ");

    used += (size_t)outcome(job, line + used, size - used, ' ');
    used += (size_t)snprintf(line + used, size - used, " log_bytes=%" PRIu64 " lost_bytes=%" PRIu64, job->log.written,
                             job->log.lost);
    if (job->message[0])
        used += (size_t)snprintf(line + used, size - used, " message=%s", job->message);
    snprintf(line + used, size - used, "\n");
}

static uint64_t microseconds(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000u + (uint64_t)time.tv_usec;
}

static void compose(const struct job *job, char *text, size_t size)
{
    struct rusage usage;
    size_t used = (size_t)snprintf(text, size, "gpupool-exit 1\n");

    getrusage(RUSAGE_CHILDREN, &usage);
    used += (size_t)outcome(job, text + used, size - used, '\n');
    used += (size_t)snprintf(text + used, size - used,
                             "\nstarted_ns=%" PRIu64 "\nended_ns=%" PRIu64 "\nstarted_boot_ns=%" PRIu64
                             "\nended_boot_ns=%" PRIu64 "\nuser_us=%" PRIu64 "\nsystem_us=%" PRIu64
                             "\nmax_rss_bytes=%" PRIu64 "\nlog_bytes=%" PRIu64 "\nlost_bytes=%" PRIu64
                             "\nleftover=%zu\n",
                             job->started_wall_ns, job->ended_wall_ns, job->started_boot_ns, job->ended_boot_ns,
                             microseconds(usage.ru_utime), microseconds(usage.ru_stime),
                             (uint64_t)usage.ru_maxrss * 1024, job->log.written, job->log.lost, job->leftover);
    if (job->has_memory_peak)
        used += (size_t)snprintf(text + used, size - used, "memory_peak_bytes=%" PRIu64 "\n", job->memory_peak_bytes);
    if (job->out_of_memory)
        used += (size_t)snprintf(text + used, size - used, "out_of_memory_bytes=%" PRIu64 "\n", job->memory_limit_bytes);
    if (job->spec.share_directory)
        used += (size_t)snprintf(text + used, size - used, "share=%s\n", job->share_mounted ? "mounted" : "environment");
    if (job->share_refused[0])
        used += (size_t)snprintf(text + used, size - used, "share_refused=%s\n", job->share_refused);
    if (job->message[0])
        snprintf(text + used, size - used, "message=%s\n", job->message);
}

#define RECORD_BYTES 2048
static const int RECORD_FLAGS = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW;

bool record_reserve(const struct job *job)
{
    int fd = openat(job->directory, "exit.tmp", RECORD_FLAGS | O_TRUNC, 0644);

    if (fd < 0)
        return false;
    int error = posix_fallocate(fd, 0, RECORD_BYTES);
    close(fd);
    errno = error;
    return error == 0 || error == EOPNOTSUPP || error == EINVAL;
}

/* Over the reserved bytes, then cut to size: no step needs room on the disk. */
bool record_exit(const struct job *job)
{
    char text[RECORD_BYTES];
    int fd = openat(job->directory, "exit.tmp", RECORD_FLAGS, 0644);

    if (fd < 0)
        return false;
    compose(job, text, sizeof text);
    bool written = write_all(fd, text) && ftruncate(fd, (off_t)strlen(text)) == 0 && fsync(fd) == 0;
    close(fd);
    return written && renameat(job->directory, "exit.tmp", job->directory, "exit") == 0 && fsync(job->directory) == 0;
}
