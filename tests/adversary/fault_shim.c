/* Makes the n-th system call of a kind fail, in one process, when a test asks for it. Preloaded; tests/adversary.
 *
 * The file in GPUPOOL_FAULT_CONTROL is mapped by the process and by the test. The test writes a kind, an errno and a
 * count of calls to let pass; then so many calls fail. Only the process whose pid stands there is touched, so programs
 * that it starts, which inherit the environment, are not. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { NONE, OPEN, WRITE, FSYNC, SOCKET, FORK, MEMORY, MKDIR };

struct control {
    _Atomic int pid;   /* whose calls fail; 0: nobody's */
    _Atomic int kind;  /* one of the above */
    _Atomic int error; /* errno; 0: the call hangs until the test says otherwise */
    _Atomic int pass;  /* so many calls pass first */
    _Atomic int fail;  /* then so many fail */
    _Atomic int hits;  /* so many have failed */
    _Atomic int seen;  /* so many of the kind were made since the test armed it */
};

static struct control *control;

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

__attribute__((constructor)) static void attach(void)
{
    const char *path = getenv("GPUPOOL_FAULT_CONTROL");
    if (!path)
        return;
    int (*really_open)(const char *, int, ...) = next("open");
    int fd = really_open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *page = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED)
        control = page;
}

static int fails(int kind)
{
    if (!control || atomic_load(&control->kind) != kind || atomic_load(&control->pid) != getpid())
        return 0;
    atomic_fetch_add(&control->seen, 1);
    if (atomic_fetch_sub(&control->pass, 1) > 0)
        return 0;
    if (atomic_fetch_sub(&control->fail, 1) <= 0)
        return 0;
    atomic_fetch_add(&control->hits, 1);
    while (!atomic_load(&control->error) && atomic_load(&control->pid) == getpid())
        usleep(10000);
    errno = atomic_load(&control->error);
    return errno != 0;
}

#define OPENER(name, ...)                                            \
    {                                                                \
        static int (*really)();                                      \
        mode_t mode = 0;                                             \
        if (flags & (O_CREAT | O_TMPFILE)) {                         \
            va_list rest;                                            \
            va_start(rest, flags);                                   \
            mode = va_arg(rest, mode_t);                             \
            va_end(rest);                                            \
        }                                                            \
        if (!really)                                                 \
            really = next(#name);                                    \
        return fails(OPEN) ? -1 : really(__VA_ARGS__, flags, mode);  \
    }

int open(const char *path, int flags, ...) OPENER(open, path)
int open64(const char *path, int flags, ...) OPENER(open64, path)
int openat(int at, const char *path, int flags, ...) OPENER(openat, at, path)
int openat64(int at, const char *path, int flags, ...) OPENER(openat64, at, path)

#define CALL(kind, type, failed, name, parameters, arguments)  \
    type name parameters                                       \
    {                                                          \
        static type(*really) parameters;                       \
        if (!really)                                           \
            really = next(#name);                              \
        return fails(kind) ? (failed) : really arguments;      \
    }

CALL(WRITE, ssize_t, -1, write, (int fd, const void *data, size_t size), (fd, data, size))
CALL(WRITE, ssize_t, -1, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
CALL(WRITE, ssize_t, -1, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
CALL(WRITE, int, -1, ftruncate, (int fd, off_t size), (fd, size))
CALL(WRITE, int, -1, ftruncate64, (int fd, off64_t size), (fd, size))
/* Counted as a write, and by itself: the agent makes a directory for each job. */
int mkdir(const char *path, mode_t mode)
{
    static int (*really)(const char *, mode_t);
    if (!really)
        really = next("mkdir");
    return fails(WRITE) || fails(MKDIR) ? -1 : really(path, mode);
}
CALL(WRITE, int, -1, rename, (const char *from, const char *to), (from, to))
CALL(FSYNC, int, -1, fsync, (int fd), (fd))
CALL(FSYNC, int, -1, fdatasync, (int fd), (fd))
CALL(SOCKET, int, -1, socket, (int domain, int type, int protocol), (domain, type, protocol))
CALL(SOCKET, int, -1, accept4, (int fd, struct sockaddr *from, socklen_t *size, int flags), (fd, from, size, flags))
CALL(SOCKET, int, -1, connect, (int fd, const struct sockaddr *to, socklen_t size), (fd, to, size))
CALL(SOCKET, int, -1, pipe2, (int ends[2], int flags), (ends, flags))
CALL(FORK, pid_t, -1, fork, (void), ())
/* A function cannot return from vfork(2) in its caller's stead; fork(2) does all that callers may rely on. */
pid_t vfork(void)
{
    return fork();
}

CALL(FORK, int, errno, pthread_create,
     (pthread_t *thread, const pthread_attr_t *how, void *(*body)(void *), void *given), (thread, how, body, given))
/* By the names that glibc keeps for it: dlsym(3) needs memory itself. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

void *malloc(size_t size)
{
    return fails(MEMORY) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails(MEMORY) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return fails(MEMORY) ? NULL : __libc_realloc(old, size);
}
