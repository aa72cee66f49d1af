#define _GNU_SOURCE
#include "share.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "text.h"

static bool fail(char *why, size_t size, const char *what)
{
    snprintf(why, size, "%s: %s", what, strerror(errno));
    return false;
}

/* A directory that only we (or root) can have put there: /tmp is open to everybody. */
static int open_own(int parent, const char *name)
{
    struct stat status;
    int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return -1;
    if (fstat(fd, &status) == 0 && (status.st_uid == geteuid() || status.st_uid == 0) && !(status.st_mode & 022))
        return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

/* The mount point's parent, made when missing; `name` becomes the last component. */
static int open_parent(const char *mount, char parent[4096], const char **name)
{
    const char *slash = strrchr(mount, '/');

    if (slash == mount || slash[1] == '\0' || (size_t)(slash - mount) >= 4096) {
        errno = EINVAL;
        return -1;
    }
    memcpy(parent, mount, (size_t)(slash - mount));
    parent[slash - mount] = '\0';
    *name = slash + 1;
    umask(022);
    if (mkdir(parent, 0755) < 0 && errno != EEXIST)
        return -1;
    return open_own(AT_FDCWD, parent);
}

static bool write_map(const char *file, unsigned id)
{
    char line[64];

    snprintf(line, sizeof line, "%u %u 1", id, id);
    return write_small(AT_FDCWD, file, line) == 0;
}

static bool enter_namespaces(char *why, size_t size)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();

    if (unshare(uid == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return fail(why, size, uid == 0 ? "private mount namespace" : "private user and mount namespace");
    if (uid != 0 && (write_small(AT_FDCWD, "/proc/self/setgroups", "deny") < 0 ||
                     !write_map("/proc/self/uid_map", uid) || !write_map("/proc/self/gid_map", gid)))
        return fail(why, size, "user namespace map");
    if (mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return fail(why, size, "mount propagation");
    return true;
}

/* Flags that a mount made by somebody more privileged carries may not be dropped by a remount. */
static unsigned long kept_flags(int fd)
{
    struct statvfs status;
    unsigned long flags = MS_NOSUID | MS_NODEV | MS_RDONLY;

    if (fstatvfs(fd, &status) == 0) {
        flags |= status.f_flag & ST_NOEXEC ? MS_NOEXEC : 0;
        flags |= status.f_flag & ST_NOATIME ? MS_NOATIME : 0;
        flags |= status.f_flag & ST_NODIRATIME ? MS_NODIRATIME : 0;
        flags |= status.f_flag & ST_RELATIME ? MS_RELATIME : 0;
    }
    return flags;
}

static bool bind_read_only(const char *directory, int parent, const char *name, char *why, size_t size)
{
    char target[64];
    int point = open_own(parent, name);

    if (point < 0)
        return fail(why, size, "mount point");
    snprintf(target, sizeof target, "/proc/self/fd/%d", point);
    if (mount(directory, target, NULL, MS_BIND, NULL) < 0)
        return fail(why, size, "bind mount");
    /* The descriptor names what lies under the new mount; the path through the parent names the mount itself. */
    int top = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (top < 0)
        return fail(why, size, "mounted share");
    snprintf(target, sizeof target, "/proc/self/fd/%d", top);
    if (mount(NULL, target, NULL, MS_REMOUNT | MS_BIND | kept_flags(top), NULL) < 0) {
        fail(why, size, "read-only remount");
        umount2(target, MNT_DETACH);
        return false;
    }
    return true;
}

bool share_mount(const char *directory, const char *mount, char *why, size_t size)
{
    char path[4096];
    const char *name;
    int parent = open_parent(mount, path, &name);

    if (parent < 0)
        return fail(why, size, "mount point's directory");
    if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
        return fail(why, size, "mount point");
    /* Namespaces come last: a job must not lose sudo for a share that could not be mounted anyway. */
    if (!enter_namespaces(why, size))
        return false;
    /* The old descriptor still belongs to the namespace we left. */
    close(parent);
    parent = open_own(AT_FDCWD, path);
    if (parent < 0)
        return fail(why, size, "mount point's directory");
    return bind_read_only(directory, parent, name, why, size);
}
