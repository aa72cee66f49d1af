/* Identities of processes and threads, made so that a number used again is not mistaken for its earlier owner. */
#include "machine_internal.h"

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

#include "common/proc_stat.h"

static bool stat_of(pid_t id, struct proc_stat *line)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", id);
    return proc_stat_read(AT_FDCWD, path, line) == 0;
}

static uint64_t start_of(pid_t id)
{
    struct proc_stat line;
    return stat_of(id, &line) ? line.start_ticks : 0;
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
    struct proc_stat line;
    if (!stat_of(id, &line))
        return kill(id, 0) != 0 && errno == ESRCH;
    if (proc_stat_has_ended(&line))
        return true;
    return (line.start_ticks & mask) != start;
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
    struct proc_stat line;
    bool asleep = true;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (!tasks)
        return errno == ENOENT;
    for (struct dirent *task; asleep && (task = readdir(tasks));) {
        if (task->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/stat", pid, task->d_name);
        asleep = proc_stat_read(AT_FDCWD, path, &line) != 0 || line.state != 'R';
    }
    closedir(tasks);
    return asleep;
}
