/* Who is who: processes and threads named so that a number used again is not mistaken; proc_pid_stat(5). */
#include "model_inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
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

static uint64_t start_of(pid_t id)
{
    struct stat_line line;
    return stat_of(id, &line) ? line.start : 0;
}

static __thread uint64_t own_thread;
static uint64_t own_process, own_namespace;

static void forget_in_child(void)
{
    own_thread = own_process = own_namespace = 0;
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

uint64_t sim_own_namespace(void)
{
    struct stat file;
    uint64_t known = __atomic_load_n(&own_namespace, __ATOMIC_RELAXED);
    if (!known && !stat("/proc/self/ns/pid", &file))
        __atomic_store_n(&own_namespace, known = file.st_ino, __ATOMIC_RELAXED);
    return known;
}

static uint64_t thread_word(pid_t id, uint64_t start, uint64_t namespace)
{
    return (uint64_t)(uint32_t)id << 32 | (start & 0xfffff) << 12 | (namespace & 0xfff);
}

/* Without /proc start time and namespace stay unknown, on all sides alike. */
uint64_t sim_own_thread(void)
{
    if (!own_thread) {
        pid_t id = (pid_t)syscall(SYS_gettid);
        watch_forks_once();
        own_thread = thread_word(id, start_of(id), sim_own_namespace());
    }
    return own_thread;
}

uint64_t sim_own_process(void)
{
    uint64_t known = __atomic_load_n(&own_process, __ATOMIC_RELAXED);
    if (!known) {
        watch_forks_once();
        known = (uint64_t)(uint32_t)getpid() << 32 | (uint32_t)start_of(getpid());
        __atomic_store_n(&own_process, known, __ATOMIC_RELAXED);
    }
    return known;
}

/* Whether `id` is not there, or did not start at what `mask` lets see of `start`. */
static bool is_gone(pid_t id, uint64_t start, uint64_t mask)
{
    struct stat_line line;
    if (!stat_of(id, &line))
        return kill(id, 0) != 0 && errno == ESRCH;
    if ((line.state == 'Z' || line.state == 'X') && line.threads <= 1)
        return true;
    return (line.start & mask) != start;
}

bool sim_process_is_gone(const struct sim_process *process)
{
    uint64_t owner = atomic_load(&process->owner);
    if (!owner || process->pid_namespace != sim_own_namespace())
        return false;
    return is_gone((pid_t)(owner >> 32), owner & 0xffffffff, 0xffffffff);
}

bool sim_thread_is_foreign(uint64_t thread)
{
    return (thread & 0xfff) != (sim_own_namespace() & 0xfff);
}

bool sim_thread_is_gone(uint64_t thread)
{
    return !sim_thread_is_foreign(thread) && is_gone((pid_t)(thread >> 32 & 0x7fffffff), thread >> 12 & 0xfffff, 0xfffff);
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
