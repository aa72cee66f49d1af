/* gpupool-shim JOBDIR: starts the job described in JOBDIR/spec, once, and outlives the agent that asked for it.

   The process that was called returns when the job's socket listens and, for a job that writes a log, when the command
   has been executed or could not be. The supervisor itself is a grandchild in a session of its own. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control.h"
#include "job.h"
#include "supervise.h"

static struct job job;

static int fail(int status, const char *message)
{
    fprintf(stderr, "gpupool-shim: %s\n", message);
    return status;
}

static bool start_clean(void)
{
    for (int number = 1; number < NSIG; number++)
        if (number != SIGKILL && number != SIGSTOP)
            signal(number, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    umask(077);
    /* Whatever the caller forgot to close is not ours to keep open; but 0, 1 and 2 must exist. */
    if (syscall(SYS_close_range, 3u, ~0u, 0u) < 0)
        for (int fd = 3; fd < 4096; fd++)
            close(fd);
    int null;
    while ((null = open("/dev/null", O_RDWR)) >= 0 && null <= 2)
        continue;
    return null > 2 && close(null) == 0;
}

/* The directory decides what root runs, so no other user may write into it. */
static bool enter_directory(const char *path, char *why, size_t size)
{
    struct stat status;

    job.directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (job.directory < 0 || fstat(job.directory, &status) < 0 || fchdir(job.directory) < 0) {
        snprintf(why, size, "%.200s: %s", path, strerror(errno));
        return false;
    }
    if (status.st_uid == geteuid() && !(geteuid() == 0 && (status.st_mode & 022)))
        return true;
    snprintf(why, size, "%.200s: must belong to uid %u and be writable by nobody else", path, geteuid());
    return false;
}

/* An open-file-description lock: inherited by the supervisor, freed by the kernel, and seen without being taken. */
static int take_lock(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = openat(job.directory, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);

    if (fd < 0)
        return SHIM_SYSTEM;
    if (fcntl(fd, F_OFD_SETLK, &lock) < 0)
        return errno == EAGAIN || errno == EACCES ? SHIM_LOCKED : SHIM_SYSTEM;
    if (faccessat(job.directory, "started", F_OK, 0) == 0 || faccessat(job.directory, "exit", F_OK, 0) == 0)
        return SHIM_ALREADY_STARTED;
    return SHIM_STARTED;
}

static int refuse_start(int status)
{
    switch (status) {
    case SHIM_LOCKED:
        return fail(status, "this job is being supervised already");
    case SHIM_ALREADY_STARTED:
        return fail(status, "this job has been started before");
    default:
        return fail(status, strerror(errno));
    }
}

static int await_verdict(int pipe)
{
    struct verdict verdict;
    ssize_t got;

    while ((got = read(pipe, &verdict, sizeof verdict)) < 0 && errno == EINTR)
        continue;
    if (got != sizeof verdict)
        return fail(SHIM_SYSTEM, "the supervisor died while starting");
    if (verdict.message[0])
        return fail(verdict.status, verdict.message);
    return verdict.status;
}

static void run_supervisor(int launcher)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
        return;
    close(null);
    job.launcher = launcher;
    supervise(&job);
    spec_free(&job.spec);
}

/* Twice away: a session of its own, and no parent that would have to wait for it. */
static int daemonise(void)
{
    int verdict[2];

    if (pipe2(verdict, O_CLOEXEC) < 0)
        return fail(SHIM_SYSTEM, strerror(errno));
    pid_t first = fork();
    if (first < 0)
        return fail(SHIM_SYSTEM, strerror(errno));
    if (first == 0) {
        close(verdict[0]);
        setsid();
        if (fork() == 0)
            run_supervisor(verdict[1]);
        _exit(0);
    }
    close(verdict[1]);
    while (waitpid(first, NULL, 0) < 0 && errno == EINTR)
        continue;
    return await_verdict(verdict[0]);
}

int main(int argc, char **argv)
{
    char why[300];

    if (!start_clean())
        return SHIM_SYSTEM;
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("gpupool-shim spec 1 protocol %d %d\n", PROTOCOL_MIN, PROTOCOL_MAX);
        return 0;
    }
    if (argc != 2 || argv[1][0] == '-')
        return fail(SHIM_USAGE, "usage: gpupool-shim JOBDIR");
    if (!enter_directory(argv[1], why, sizeof why))
        return fail(SHIM_BAD_SPEC, why);
    if (!spec_read(&job.spec, job.directory, why, sizeof why))
        return fail(SHIM_BAD_SPEC, why);
    int status = take_lock();
    if (status != SHIM_STARTED)
        return refuse_start(status);
    int result = daemonise();
    spec_free(&job.spec);
    return result;
}
