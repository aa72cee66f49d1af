/* Preloaded into a pool: writes down, in their order, everything it changes below $POWER_ROOT, with the bytes. A record is
   one header and its data, appended in one write, so that those of several processes keep one order; it is made after the
   call returned, and for a flush this is what counts. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

struct header {
    char kind;
    uint32_t first, second, data;
    uint64_t at;
} __attribute__((packed));

static const char *root, *journal;
static size_t root_length;
static int out = -1;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void)
{
    root = getenv("POWER_ROOT");
    journal = getenv("POWER_JOURNAL");
    if (!root || !journal)
        return;
    root_length = strlen(root);
    int fd = REAL(open)(journal, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        out = fcntl(fd, F_DUPFD_CLOEXEC, 700); /* out of the way of programs that count on low numbers */
    if (fd >= 0)
        REAL(close)(fd);
}

static int ours(const char *path)
{
    return root && strncmp(path, root, root_length) == 0 && path[root_length] == '/';
}

static int path_of(int fd, char path[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length <= 0)
        return 0;
    path[length] = '\0';
    return ours(path) || (root && strcmp(path, root) == 0);
}

static void resolve(int directory, const char *name, char path[PATH_MAX])
{
    char base[PATH_MAX] = "";
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
        if (strncmp(name, "/proc/self/fd/", 14) != 0)
            return;
        char *rest = strchr(name + 14, '/');
        char link[64];
        snprintf(link, sizeof link, "%.*s", (int)(rest ? rest - name : (long)strlen(name)), name);
        ssize_t length = readlink(link, base, sizeof base - 1);
        if (length > 0)
            snprintf(path, PATH_MAX, "%.*s%s", (int)length, base, rest ? rest : "");
        return;
    }
    if (directory == AT_FDCWD) {
        if (!getcwd(base, sizeof base))
            base[0] = '\0';
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
        ssize_t length = readlink(link, base, sizeof base - 1);
        base[length > 0 ? length : 0] = '\0';
    }
    snprintf(path, PATH_MAX, "%.2000s/%.2000s", base, name);
}

static void put(char kind, const char *first, const char *second, const void *data, size_t size, uint64_t at)
{
    int error = errno;
    struct header head = {kind, (uint32_t)strlen(first), (uint32_t)strlen(second), (uint32_t)size, at};
    struct iovec parts[] = {
        {&head, sizeof head}, {(void *)first, head.first}, {(void *)second, head.second}, {(void *)data, size}};
    if (out >= 0 && REAL(writev)(out, parts, 4) < 0)
        abort();
    errno = error;
}

static void wrote(int fd, const void *data, ssize_t size, off_t at)
{
    char path[PATH_MAX];
    if (size > 0 && out >= 0 && fd != out && path_of(fd, path))
        put('w', path, "", data, (size_t)size, (uint64_t)at);
}

ssize_t write(int fd, const void *data, size_t size)
{
    ssize_t done = REAL(write)(fd, data, size);
    if (done > 0 && out >= 0 && fd != out) {
        off_t at = lseek(fd, 0, SEEK_CUR);
        if (at >= done)
            wrote(fd, data, done, at - done);
    }
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    ssize_t done = REAL(pwrite)(fd, data, size, at);
    wrote(fd, data, done, at);
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t at)
{
    ssize_t done = REAL(pwrite64)(fd, data, size, at);
    wrote(fd, data, done, at);
    return done;
}

static void sized(int fd, off_t size)
{
    char path[PATH_MAX];
    if (out >= 0 && path_of(fd, path))
        put('t', path, "", "", 0, (uint64_t)size);
}

int ftruncate(int fd, off_t size)
{
    int done = REAL(ftruncate)(fd, size);
    if (done == 0)
        sized(fd, size);
    return done;
}

int ftruncate64(int fd, off_t size)
{
    int done = REAL(ftruncate64)(fd, size);
    if (done == 0)
        sized(fd, size);
    return done;
}

static void synced(int fd)
{
    char path[PATH_MAX];
    if (out >= 0 && path_of(fd, path))
        put('s', path, "", "", 0, 0);
}

int fsync(int fd)
{
    int done = REAL(fsync)(fd);
    if (done == 0)
        synced(fd);
    return done;
}

int fdatasync(int fd)
{
    int done = REAL(fdatasync)(fd);
    if (done == 0)
        synced(fd);
    return done;
}

/* An entry: 'c' a file that was not there, 'z' one that was emptied, 'm' a directory, 'r' a rename, 'u' a removal. */
static void entry(char kind, int directory, const char *name, int to, const char *other)
{
    char first[PATH_MAX], second[PATH_MAX] = "";
    if (out < 0)
        return;
    resolve(directory, name, first);
    if (other)
        resolve(to, other, second);
    if (ours(first) || ours(second))
        put(kind, first, second, "", 0, 0);
}

static int opened(int (*real)(int, const char *, int, ...), int directory, const char *name, int flags, mode_t mode)
{
    int was = (flags & (O_CREAT | O_TRUNC)) && out >= 0 ? faccessat(directory, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 : 1;
    int fd = real(directory, name, flags, mode);
    if (fd >= 0 && !was)
        entry('c', directory, name, 0, NULL);
    else if (fd >= 0 && (flags & O_TRUNC) && (flags & O_ACCMODE) != O_RDONLY)
        entry('z', directory, name, 0, NULL);
    return fd;
}

#define MODE(flags)                                                                                                     \
    mode_t mode = 0;                                                                                                    \
    if ((flags) & O_CREAT) {                                                                                            \
        va_list list;                                                                                                   \
        va_start(list, flags);                                                                                          \
        mode = va_arg(list, mode_t);                                                                                    \
        va_end(list);                                                                                                   \
    }

int open(const char *name, int flags, ...)
{
    MODE(flags)
    return opened(REAL(openat), AT_FDCWD, name, flags, mode);
}

int open64(const char *name, int flags, ...)
{
    MODE(flags)
    return opened(REAL(openat64), AT_FDCWD, name, flags, mode);
}

int openat(int directory, const char *name, int flags, ...)
{
    MODE(flags)
    return opened(REAL(openat), directory, name, flags, mode);
}

int openat64(int directory, const char *name, int flags, ...)
{
    MODE(flags)
    return opened(REAL(openat64), directory, name, flags, mode);
}

int rename(const char *from, const char *to)
{
    int done = REAL(rename)(from, to);
    if (done == 0)
        entry('r', AT_FDCWD, from, AT_FDCWD, to);
    return done;
}

int renameat(int one, const char *from, int two, const char *to)
{
    int done = REAL(renameat)(one, from, two, to);
    if (done == 0)
        entry('r', one, from, two, to);
    return done;
}

int unlink(const char *name)
{
    int done = REAL(unlink)(name);
    if (done == 0)
        entry('u', AT_FDCWD, name, 0, NULL);
    return done;
}

int unlinkat(int directory, const char *name, int flags)
{
    int done = REAL(unlinkat)(directory, name, flags);
    if (done == 0)
        entry('u', directory, name, 0, NULL);
    return done;
}

int rmdir(const char *name)
{
    int done = REAL(rmdir)(name);
    if (done == 0)
        entry('u', AT_FDCWD, name, 0, NULL);
    return done;
}

int mkdir(const char *name, mode_t mode)
{
    int done = REAL(mkdir)(name, mode);
    if (done == 0)
        entry('m', AT_FDCWD, name, 0, NULL);
    return done;
}
