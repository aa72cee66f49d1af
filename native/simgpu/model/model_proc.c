/* Who is who: processes and threads named so that a number used again is not mistaken; proc_pid_stat(5). */
#include "model_inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct stat_line {
    char state;
    long threads;
    uint64_t start;
};

/* The name in parentheses may hold anything, so fields are counted from the last one. */
static bool parse_stat(char *text, struct stat_line *line)
{
    char *rest = strrchr(text, ')');
    unsigned long long start;
    if (!rest)
        return false;
    if (sscanf(rest + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu", &line->state,
               &line->threads, &start) != 3)
        return false;
    line->start = start;
    return true;
}

static bool read_stat(const char *path, struct stat_line *line)
{
    char text[1024];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0)
        return false;
    text[got] = 0;
    return parse_stat(text, line);
}

static bool stat_of(pid_t id, struct stat_line *line)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", id);
    return read_stat(path, line);
}

static uint64_t word(pid_t id, uint64_t start)
{
    return (uint64_t)(uint32_t)id << 32 | (uint32_t)start;
}

uint64_t sim_identity_of(pid_t id)
{
    struct stat_line line;
    return stat_of(id, &line) ? word(id, line.start) : 0;
}

static __thread uint64_t own_thread;
static uint64_t own_process;

static void forget_in_child(void)
{
    own_thread = own_process = 0;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_in_child);
}

static void watch_forks_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
}

/* Without /proc the start time stays unknown, on all sides alike. */
uint64_t sim_own_thread(void)
{
    if (!own_thread) {
        pid_t id = (pid_t)syscall(SYS_gettid);
        watch_forks_once();
        own_thread = sim_identity_of(id);
        own_thread = own_thread ? own_thread : word(id, 0);
    }
    return own_thread;
}

uint64_t sim_own_process(void)
{
    if (!own_process) {
        watch_forks_once();
        own_process = sim_identity_of(getpid());
        own_process = own_process ? own_process : word(getpid(), 0);
    }
    return own_process;
}

bool sim_is_gone(uint64_t identity)
{
    pid_t id = (pid_t)(identity >> 32 & 0x7fffffff);
    struct stat_line line;
    if (!stat_of(id, &line))
        return kill(id, 0) != 0 && errno == ESRCH;
    if ((line.state == 'Z' || line.state == 'X') && line.threads <= 1)
        return true;
    return (uint32_t)line.start != (uint32_t)identity;
}

bool sim_is_asleep(pid_t pid)
{
    char path[320];
    struct stat_line line;
    bool asleep = true;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (!tasks)
        return errno == ENOENT;
    for (struct dirent *task; asleep && (task = readdir(tasks));) {
        if (task->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/stat", pid, task->d_name);
        asleep = !read_stat(path, &line) || line.state != 'R';
    }
    closedir(tasks);
    return asleep;
}
