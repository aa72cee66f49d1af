#define _GNU_SOURCE
#include "supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/small_file.h"
#include "control.h"
#include "isolation/devices.h"
#include "launch.h"
#include "process_tree.h"
#include "record.h"

#define SECOND 1000000000ull
#define FIRST_SWEEP (SECOND / 200)
#define LAST_SWEEP (SECOND / 2)
#define DENIED_PATIENCE (2 * SECOND)
#define CHUNK 65536
#define LOG_PATIENCE (2 * SECOND)

static uint64_t now(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static void tell_launcher(struct job *job, int status, const char *message)
{
    struct verdict verdict = {.status = status};

    if (job->launcher < 0)
        return;
    snprintf(verdict.message, sizeof verdict.message, "%s", message);
    /* Smaller than PIPE_BUF; a caller that has died meanwhile asks again through the job's directory. */
    if (write(job->launcher, &verdict, sizeof verdict) < 0)
        errno = 0;
    close(job->launcher);
    job->launcher = -1;
}

static void begin_ending(struct job *job)
{
    if (job->phase == PHASE_ENDING)
        return;
    job->phase = PHASE_ENDING;
    job->ended_wall_ns = clock_ns(CLOCK_REALTIME);
    job->ended_boot_ns = clock_ns(CLOCK_BOOTTIME);
    job->attach_by = job->terminate_at = NEVER;
    /* A process that was asked to stop keeps its grace, also when the shell around it went at once. */
    if (job->kill_at == NEVER)
        job->kill_at = 0;
    job->sweep_interval_ns = FIRST_SWEEP;
    job->sweep_at = 0;
}

void job_fail(struct job *job, int error, const char *stage, const char *format, ...)
{
    va_list arguments;

    job->reason = REASON_FAILED_TO_START;
    job->error = error;
    snprintf(job->stage, sizeof job->stage, "%s", stage);
    va_start(arguments, format);
    vsnprintf(job->message, sizeof job->message, format, arguments);
    va_end(arguments);
    make_one_line(job->message);
    begin_ending(job);
}

/* The cgroup knows all members; without one, all descendants: we are their subreaper. */
static size_t signal_all(struct job *job, int number, size_t *denied)
{
    size_t members = 0, refused = 0;

    *denied = 0;
    if (job->cgroups.count) {
        members = cgroups_signal(&job->cgroups, number, denied);
        if (number != SIGKILL && number != 0)
            return members;
    }
    size_t descendants = signal_process_tree(number, &refused);
    *denied = refused > *denied ? refused : *denied;
    return descendants > members ? descendants : members;
}

int job_signal(struct job *job, int number)
{
    if (!job->command) {
        errno = ESRCH;
        return -1;
    }
    /* Before the child is a leader of its own group there is only itself. */
    if (kill(-job->command, number) == 0)
        return 0;
    return kill(job->command, number);
}

void job_stop(struct job *job, uint64_t grace_seconds, enum reason reason)
{
    size_t denied;
    uint64_t kill_at = now() + grace_seconds * SECOND;

    if (job->phase == PHASE_ENDING) {
        job->kill_at = kill_at < job->kill_at ? kill_at : job->kill_at;
        job->sweep_at = 0;
        return;
    }
    if (job->reason == REASON_NONE)
        job->reason = reason;
    if (job->phase == PHASE_WAITING) {
        job_fail(job, ECANCELED, "attach", "stopped before anybody attached");
        return;
    }
    /* A later, shorter grace counts; a longer one does not undo what was promised. */
    if (kill_at < job->kill_at)
        job->kill_at = kill_at;
    signal_all(job, grace_seconds ? SIGTERM : SIGKILL, &denied);
    if (grace_seconds)
        signal_all(job, SIGCONT, &denied);
}

static void take_report(struct job *job, const struct report *report)
{
    switch (report->kind) {
    case REPORT_SHARE_MOUNTED:
        job->share_mounted = true;
        break;
    case REPORT_SHARE_REFUSED:
        snprintf(job->share_refused, sizeof job->share_refused, "%.127s", report->message);
        break;
    case REPORT_FAILED:
        job_fail(job, report->error, report->stage, "%s", report->message);
        break;
    }
}

/* The end of the pipe is the moment of exec, unless the child has said that it gives up. */
static void read_report(struct job *job)
{
    struct report report;
    ssize_t got;

    while ((got = read(job->report, &report, sizeof report)) == sizeof report)
        take_report(job, &report);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    close(job->report);
    job->report = -1;
    if (job->phase != PHASE_STARTING)
        return;
    job->phase = PHASE_RUNNING;
    tell_launcher(job, SHIM_STARTED, "");
}

/* true: there is no child left, and so no descendant: the orphans of our children are our children. */
static bool reap(struct job *job)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
        if (pid != job->command)
            continue;
        if (job->report >= 0)
            read_report(job);
        job->command = 0;
        job->wait_status = status;
        job->has_status = true;
        begin_ending(job);
    }
    return pid < 0 && errno == ECHILD;
}

static void take_signals(struct job *job)
{
    struct signalfd_siginfo info[8];
    ssize_t got = read(job->signals, info, sizeof info);

    for (size_t i = 0; got > 0 && i < (size_t)got / sizeof info[0]; i++)
        if (info[i].ssi_signo == SIGTERM || info[i].ssi_signo == SIGINT)
            job_stop(job, job->spec.grace_seconds, REASON_STOPPED);
}

/* Everything there is to read, but never so long that the job's owner is not heard. */
static void pump(struct job *job, int *fd)
{
    static char bytes[CHUNK];

    for (int turns = 0; turns < 16; turns++) {
        ssize_t got = read(*fd, bytes, sizeof bytes);
        if (got > 0) {
            log_write(&job->log, bytes, (size_t)got);
            continue;
        }
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (fd == &job->log_pipe) {
            close(*fd);
            *fd = -1;
        } else
            /* A terminal answers EIO while its other end is closed; it may be opened again, so look again later. */
            job->drain_at = now() + SECOND;
        return;
    }
}

/* Signal 0 only counts. */
static int ending_signal(const struct job *job)
{
    return now() >= job->kill_at ? SIGKILL : 0;
}

/* true: nothing of the job is left, or nothing that we have the right to end. */
static bool sweep(struct job *job)
{
    size_t denied;
    bool childless = reap(job);

    if (now() >= job->sweep_at) {
        job->leftover = signal_all(job, ending_signal(job), &denied);
        childless = reap(job);
        job->sweep_at = now() + job->sweep_interval_ns;
        job->sweep_interval_ns = job->sweep_interval_ns * 2 < LAST_SWEEP ? job->sweep_interval_ns * 2 : LAST_SWEEP;
        if (!denied || denied < job->leftover)
            job->give_up_at = NEVER;
        else if (job->give_up_at == NEVER)
            job->give_up_at = now() + DENIED_PATIENCE;
    }
    if (childless && job->leftover) {
        job->leftover = signal_all(job, ending_signal(job), &denied);
        childless = reap(job);
    }
    return (childless && !job->leftover) || now() >= job->give_up_at;
}

static void keep_time(struct job *job)
{
    size_t denied;

    if (now() >= job->attach_by)
        job_fail(job, ETIMEDOUT, "attach", "nobody attached within %llu seconds",
                 (unsigned long long)job->spec.attach_seconds);
    if (now() >= job->terminate_at) {
        job->terminate_at = NEVER;
        job_stop(job, job->spec.grace_seconds, REASON_MAX_TIME);
    }
    if (now() >= job->kill_at && job->phase != PHASE_ENDING) {
        job->kill_at = now() + LAST_SWEEP;
        signal_all(job, SIGKILL, &denied);
    }
}

static int milliseconds_to_wait(const struct job *job)
{
    uint64_t next = job->attach_by, at = now();

    next = job->terminate_at < next ? job->terminate_at : next;
    if (job->phase == PHASE_ENDING)
        next = job->sweep_at < next ? job->sweep_at : next;
    else
        next = job->kill_at < next ? job->kill_at : next;
    if (job->terminal >= 0 && job->attached < 0 && job->drain_at > at && job->drain_at < next)
        next = job->drain_at;
    if (next == NEVER)
        return -1;
    if (next <= at)
        return 0;
    uint64_t wait = (next - at + 999999) / 1000000;
    return wait < 3600000 ? (int)wait : 3600000;
}

enum { SLOT_SIGNALS, SLOT_LISTENER, SLOT_REPORT, SLOT_LOG, SLOT_TERMINAL, SLOT_CONNECTIONS };

/* A terminal is read here only while no client is attached, so that a full buffer does not hold up the job. */
static int terminal_to_drain(const struct job *job)
{
    return job->attached < 0 && now() >= job->drain_at ? job->terminal : -1;
}

static void wait_and_serve(struct job *job)
{
    struct pollfd slots[SLOT_CONNECTIONS + MAX_CONNECTIONS];
    int fds[SLOT_CONNECTIONS] = {job->signals, job->listener, job->report, job->log_pipe, terminal_to_drain(job)};

    for (int i = 0; i < SLOT_CONNECTIONS + MAX_CONNECTIONS; i++)
        slots[i] = (struct pollfd){
            i < SLOT_CONNECTIONS ? fds[i] : job->connections[i - SLOT_CONNECTIONS].fd, POLLIN, 0};
    if (poll(slots, SLOT_CONNECTIONS + MAX_CONNECTIONS, milliseconds_to_wait(job)) <= 0)
        return;
    if (slots[SLOT_SIGNALS].revents)
        take_signals(job);
    if (slots[SLOT_REPORT].revents)
        read_report(job);
    if (slots[SLOT_LOG].revents)
        pump(job, &job->log_pipe);
    if (slots[SLOT_TERMINAL].revents)
        pump(job, &job->terminal);
    for (int i = 0; i < MAX_CONNECTIONS; i++)
        if (slots[SLOT_CONNECTIONS + i].revents && job->connections[i].fd == slots[SLOT_CONNECTIONS + i].fd)
            control_read(job, i);
    if (slots[SLOT_LISTENER].revents)
        control_accept(job);
}

static void start_logged(struct job *job)
{
    struct streams streams = {-1, -1, -1, false};
    int pipe[2];

    if (pipe2(pipe, O_CLOEXEC) < 0) {
        job_fail(job, errno, "log", "pipe: %s", strerror(errno));
        return;
    }
    fcntl(pipe[0], F_SETFL, O_NONBLOCK);
    job->log_pipe = pipe[0];
    streams.output = streams.errors = pipe[1];
    launch(job, &streams);
    close(pipe[1]);
}

static void begin(struct job *job)
{
    char why[256];

    if (!cgroups_create(&job->cgroups, &job->spec, why, sizeof why) ||
        !devices_restrict(&job->cgroups, &job->spec, why, sizeof why))
        job_fail(job, errno, "cgroup", "%s", why);
    else if (job->spec.attach) {
        job->attach_by = now() + job->spec.attach_seconds * SECOND;
        tell_launcher(job, SHIM_STARTED, "");
    } else
        start_logged(job);
}

/* The client that shows the terminal reads its rest, writes it into the pipe and closes that. A client that was
   stopped keeps the rest for itself. */
static void await_shown(struct job *job)
{
    uint64_t until = now() + LOG_PATIENCE;

    if (job->log_pipe < 0 || !control_tell_ending(job))
        return;
    for (uint64_t at = now(); job->log_pipe >= 0 && at < until; at = now()) {
        struct pollfd slot = {job->log_pipe, POLLIN, 0};
        if (poll(&slot, 1, (int)((until - at) / 1000000) + 1) > 0)
            pump(job, &job->log_pipe);
    }
}

/* What the job wrote last is in the pipe or the terminal still; all processes that could write more are dead. */
static void drain(struct job *job)
{
    await_shown(job);
    if (job->log_pipe >= 0)
        pump(job, &job->log_pipe);
    if (job->terminal >= 0 && job->attached < 0)
        pump(job, &job->terminal);
    log_close(&job->log);
}

static void finish(struct job *job)
{
    drain(job);
    job->has_memory_peak = cgroups_memory_peak(&job->cgroups, &job->memory_peak_bytes);
    job->out_of_memory = cgroups_out_of_memory(&job->cgroups, &job->memory_limit_bytes);
    cgroups_remove(&job->cgroups);
    /* Its room was reserved, so this fails only with the disk itself: then the agent finds "started, lock free, no
       record" and says lost. */
    for (int attempt = 0; !record_exit(job) && attempt < 30; attempt++)
        poll(NULL, 0, 1000);
    tell_launcher(job, job->reason == REASON_FAILED_TO_START ? SHIM_FAILED_TO_START : SHIM_STARTED, job->message);
    unlink("sock");
    control_finish(job);
}

static bool prepare(struct job *job)
{
    sigset_t all, heard;

    for (int i = 0; i < MAX_CONNECTIONS; i++)
        job->connections[i].fd = -1;
    job->report = job->log_pipe = job->terminal = job->attached = -1;
    job->attach_by = job->terminate_at = job->kill_at = job->give_up_at = NEVER;
    log_open(&job->log, job->directory, job->spec.log_max_bytes, (unsigned)job->spec.log_files);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&heard);
    sigaddset(&heard, SIGCHLD);
    sigaddset(&heard, SIGTERM);
    sigaddset(&heard, SIGINT);
    job->signals = signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK);
    job->listener = control_listen();
    return job->signals >= 0 && job->listener >= 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 && record_reserve(job);
}

void supervise(struct job *job)
{
    if (!prepare(job)) {
        tell_launcher(job, SHIM_SYSTEM, strerror(errno));
        unlink("sock");
        return;
    }
    begin(job);
    while (job->phase != PHASE_ENDING || !sweep(job)) {
        wait_and_serve(job);
        if (job->phase != PHASE_ENDING)
            reap(job);
        keep_time(job);
    }
    finish(job);
}
