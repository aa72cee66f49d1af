#define _GNU_SOURCE
#include "launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/small_file.h"
#include "isolation/share.h"
#include "isolation/tap.h"
#include "record.h"

extern char **environ;

static void tell(int pipe, struct report *report)
{
    make_one_line(report->message);
    /* Smaller than PIPE_BUF into an empty pipe: all of it is written, or the supervisor is gone. */
    if (write(pipe, report, sizeof *report) != sizeof *report)
        _exit(127);
}

__attribute__((format(printf, 3, 4), noreturn)) static void give_up(int pipe, const char *stage, const char *format, ...)
{
    struct report report = {.kind = REPORT_FAILED, .error = errno};
    va_list arguments;

    snprintf(report.stage, sizeof report.stage, "%s", stage);
    va_start(arguments, format);
    vsnprintf(report.message, sizeof report.message - 64, format, arguments);
    va_end(arguments);
    size_t used = strlen(report.message);
    snprintf(report.message + used, sizeof report.message - used, ": %.60s", strerror(report.error));
    tell(pipe, &report);
    _exit(127);
}

/* The command dies with a supervisor that is killed. Any change of identity forgets this, so it is said twice. */
static void die_with(pid_t supervisor, int pipe)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        give_up(pipe, "supervisor", "cannot tie the command to its supervisor");
    if (getppid() != supervisor)
        _exit(127);
}

static void reset_signals(void)
{
    for (int number = 1; number < NSIG; number++)
        if (number != SIGKILL && number != SIGSTOP)
            signal(number, SIG_DFL); /* the C library's own two are refused, and are not ours */
}

static void connect_streams(const struct streams *streams, int pipe)
{
    const int wanted[3] = {streams->input, streams->output, streams->errors};

    if (streams->terminal && ioctl(streams->input, TIOCSCTTY, 0) < 0)
        give_up(pipe, "terminal", "cannot make the terminal the job's own");
    for (int number = 0; number < 3; number++)
        /* 0, 1 and 2 are /dev/null in the supervisor already */
        if (wanted[number] >= 0 && dup2(wanted[number], number) < 0)
            give_up(pipe, "descriptors", "cannot connect descriptor %d", number);
}

/* Where the share is to be found. Without mounts the environment says so, and whatever else the agent wants then. */
static const char *show_share(struct job *job, int pipe)
{
    struct spec *spec = &job->spec;
    struct report report = {.kind = REPORT_SHARE_MOUNTED};
    char why[128];

    if (share_mount(spec, why, sizeof why)) {
        tell(pipe, &report);
        spec->unmounted_count = 0;
        return spec->share_mount;
    }
    report.kind = REPORT_SHARE_REFUSED;
    snprintf(report.message, sizeof report.message, "%s", why);
    tell(pipe, &report);
    return spec->share_directory;
}

static void set_limits(const struct spec *spec, int pipe)
{
    for (size_t i = 0; i < spec->limit_count; i++)
        if (setrlimit(spec->limits[i].resource, &spec->limits[i].value) < 0)
            give_up(pipe, "limits", "cannot set resource limit %d", spec->limits[i].resource);
}

static void stay_near(const struct spec *spec, int pipe)
{
    if (spec->has_cpus && !numa_bind_to_cpus(spec->cpus, SPEC_MAX_CPUS))
        give_up(pipe, "processors", "cannot keep to the job's processors");
    if (spec->has_memory_nodes)
        numa_prefer_memory_of(spec->memory_nodes, SPEC_MAX_NUMA);
}

static bool has_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];

    if (syscall(SYS_capget, &header, data) < 0)
        return true;
    return data[0].permitted || data[1].permitted || data[0].effective || data[1].effective;
}

/* Only a root supervisor comes here. The way back is tried, and must be shut. */
static void become(const struct spec *spec, int pipe)
{
    uid_t real, effective, saved;

    if (setgroups(spec->group_count, spec->groups) < 0)
        give_up(pipe, "identity", "cannot set the supplementary groups");
    if (setresgid(spec->gid, spec->gid, spec->gid) < 0 || setresuid(spec->uid, spec->uid, spec->uid) < 0)
        give_up(pipe, "identity", "cannot become %u:%u", spec->uid, spec->gid);
    errno = EPERM;
    if (getresuid(&real, &effective, &saved) < 0 || real != spec->uid || effective != spec->uid || saved != spec->uid)
        give_up(pipe, "identity", "did not become uid %u", spec->uid);
    if (spec->uid == 0)
        return;
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    errno = EPERM;
    if (setuid(0) == 0 || seteuid(0) == 0 || has_capabilities())
        give_up(pipe, "identity", "root's rights could be regained after becoming uid %u", spec->uid);
}

/* Without root the groups stay as they are, so a group that is asked for must be there. */
static void check_groups(const struct spec *spec, int pipe)
{
    static gid_t own[SPEC_MAX_GROUPS];
    int count = getgroups(SPEC_MAX_GROUPS, own);

    for (size_t i = 0; i < spec->group_count; i++) {
        bool found = spec->groups[i] == getgid();
        for (int j = 0; j < count && !found; j++)
            found = own[j] == spec->groups[i];
        errno = EPERM;
        if (!found)
            give_up(pipe, "identity", "not a member of group %u", spec->groups[i]);
    }
}

static bool is_named(const char *variable, const char *name)
{
    size_t length = strlen(name);

    return strncmp(variable, name, length) == 0 && variable[length] == '=';
}

/* Whether something of more weight says what this variable is. */
static bool is_overridden(const struct spec *spec, const char *variable, const char *share)
{
    for (size_t i = 0; i < spec->unmounted_count; i++) {
        size_t length = strcspn(spec->unmounted[i], "=") + 1;
        if (strncmp(variable, spec->unmounted[i], length) == 0)
            return true;
    }
    return is_named(variable, "GPUPOOL_JOB") || (share && is_named(variable, "GPUPOOL_SHARE"));
}

/* Exactly what was asked, and the two variables that are the supervisor's to say. */
static void set_environment(struct spec *spec, const char *share, int pipe)
{
    size_t kept = 0;
    char *name = NULL, *place = NULL;

    for (size_t i = 0; i < spec->environment_count; i++)
        if (!is_overridden(spec, spec->environment[i], share))
            spec->environment[kept++] = spec->environment[i];
    for (size_t i = 0; i < spec->unmounted_count; i++)
        spec->environment[kept++] = spec->unmounted[i];
    if (asprintf(&name, "GPUPOOL_JOB=%s", spec->job) < 0 || (share && asprintf(&place, "GPUPOOL_SHARE=%s", share) < 0))
        give_up(pipe, "environment", "no memory");
    spec->environment[kept++] = name;
    if (share)
        spec->environment[kept++] = place;
    spec->environment[kept] = NULL;
    environ = spec->environment;
}

/* Nothing of the supervisor's is inherited. Marked instead of closed: the report pipe must last until exec. */
static void close_all_at_exec(int pipe)
{
    if (syscall(SYS_close_range, 3u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */) == 0)
        return;
    DIR *open_files = opendir("/proc/self/fd");
    if (!open_files)
        give_up(pipe, "descriptors", "cannot list open descriptors");
    for (struct dirent *entry; (entry = readdir(open_files));) {
        int fd = atoi(entry->d_name);
        if (fd > 2)
            fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    closedir(open_files);
}

/* Moves the report pipe away from the descriptor of the tap. */
static int make_room_for_tap(int pipe)
{
    int moved = pipe == TAP_DESCRIPTOR ? fcntl(pipe, F_DUPFD_CLOEXEC, TAP_DESCRIPTOR + 1) : pipe;

    if (moved < 0)
        give_up(pipe, "network", "cannot move a descriptor");
    return moved;
}

static int open_tap(const struct spec *spec, int pipe)
{
    int tap = tap_open(spec->tap_namespace, spec->tap);

    if (tap < 0)
        give_up(pipe, "network", "cannot open the tap %s in %.130s", spec->tap, spec->tap_namespace);
    return tap;
}

/* Before the mounts, which may lie over the name of the namespace, and while the rights for it are there. */
static void enter_network(const struct spec *spec, int pipe)
{
    int namespace = open(spec->network_namespace, O_RDONLY | O_CLOEXEC);

    if (namespace < 0 || setns(namespace, CLONE_NEWNET) < 0)
        give_up(pipe, "network", "cannot enter the network namespace %.150s", spec->network_namespace);
    close(namespace);
}

__attribute__((noreturn)) static void run_command(struct job *job, const struct streams *streams, pid_t supervisor,
                                                  int pipe)
{
    struct spec *spec = &job->spec;
    const char *share = NULL;
    int tap = -1;
    sigset_t none;

    die_with(supervisor, pipe);
    setsid();
    reset_signals();
    if (!cgroups_enter(&job->cgroups))
        give_up(pipe, "cgroup", "cannot enter the job's cgroup");
    connect_streams(streams, pipe);
    if (spec->tap) {
        pipe = make_room_for_tap(pipe);
        tap = open_tap(spec, pipe);
    }
    if (spec->network_namespace)
        enter_network(spec, pipe);
    if (spec->share_directory)
        share = show_share(job, pipe);
    umask(spec->umask);
    set_limits(spec, pipe);
    stay_near(spec, pipe);
    if (geteuid() == 0)
        become(spec, pipe);
    else
        check_groups(spec, pipe);
    die_with(supervisor, pipe);
    if (share && access(share, R_OK | X_OK) < 0)
        give_up(pipe, "share", "the share at %.150s cannot be read by the job", share);
    if (chdir(spec->directory) < 0)
        give_up(pipe, "cwd", "cannot enter the directory %.180s", spec->directory);
    set_environment(spec, share, pipe);
    close_all_at_exec(pipe);
    if (spec->tap && !tap_hand_over(tap))
        give_up(pipe, "network", "cannot hand the tap over");
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(spec->arguments[0], spec->arguments);
    give_up(pipe, "exec", "cannot run '%.180s'", spec->arguments[0]);
}

bool launch(struct job *job, const struct streams *streams)
{
    int pipe[2];
    pid_t supervisor = getpid();

    if (pipe2(pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
        job_fail(job, errno, "supervisor", "pipe: %s", strerror(errno));
        return false;
    }
    if (!record_started(job)) {
        job_fail(job, errno, "started", "cannot write the file 'started': %s", strerror(errno));
        close(pipe[0]);
        close(pipe[1]);
        return false;
    }
    job->command = fork();
    if (job->command == 0)
        run_command(job, streams, supervisor, pipe[1]);
    close(pipe[1]);
    job->report = pipe[0];
    if (job->command < 0) {
        job->command = 0;
        job_fail(job, errno, "fork", "cannot fork: %s", strerror(errno));
        return false;
    }
    job->command_was = job->command;
    record_command(job);
    job->phase = PHASE_STARTING;
    job->attach_by = NEVER; /* the launching client has attached */
    if (job->spec.max_seconds)
        job->terminate_at = clock_ns(CLOCK_MONOTONIC) + job->spec.max_seconds * 1000000000u;
    return true;
}

int open_terminal(const struct job *job, unsigned rows, unsigned columns, int *slave)
{
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    char name[64];
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);

    *slave = -1;
    if (master < 0)
        return -1;
    if (unlockpt(master) == 0 && ptsname_r(master, name, sizeof name) == 0)
        *slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*slave >= 0 && ioctl(master, TIOCSWINSZ, &size) == 0 &&
        (geteuid() != 0 || fchown(*slave, job->spec.uid, (gid_t)-1) == 0))
        return master;
    int error = errno;
    close(master);
    if (*slave >= 0)
        close(*slave);
    *slave = -1;
    errno = error;
    return -1;
}
