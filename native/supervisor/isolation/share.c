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

#include "common/small_file.h"

#define PATH_BYTES 4096

/* The directory above the share's mount point. What lies directly below it is made when missing; every other
   target must be there and is bound over. */
struct base {
    char path[PATH_BYTES];
    size_t length;
};

static bool fail(char *why, size_t size, const char *what)
{
    snprintf(why, size, "%s: %s", what, strerror(errno));
    return false;
}

static bool fail_at(char *why, size_t size, const char *what, const char *path)
{
    snprintf(why, size, "%s %.70s: %s", what, path, strerror(errno));
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

static bool find_base(struct base *base, const char *mount)
{
    const char *slash = strrchr(mount, '/');

    if (slash == mount || slash[1] == '\0' || slash - mount >= PATH_BYTES) {
        errno = EINVAL;
        return false;
    }
    base->length = (size_t)(slash - mount);
    memcpy(base->path, mount, base->length);
    base->path[base->length] = '\0';
    return true;
}

/* The last component of a target directly below the base, else NULL. */
static const char *name_below(const struct base *base, const char *target)
{
    if (strncmp(target, base->path, base->length) != 0 || target[base->length] != '/')
        return NULL;
    const char *name = target + base->length + 1;
    return *name && !strchr(name, '/') ? name : NULL;
}

static bool make_point(int base, const char *name)
{
    return !name || mkdirat(base, name, 0755) == 0 || errno == EEXIST;
}

/* Mount points are the host's, empty directories for everybody else; made before we leave for a namespace of our own. */
static bool make_points(const struct spec *spec, const struct base *base, char *why, size_t size)
{
    umask(022);
    if (mkdir(base->path, 0755) < 0 && errno != EEXIST)
        return fail(why, size, "mount point's directory");
    int fd = open_own(AT_FDCWD, base->path);
    if (fd < 0)
        return fail(why, size, "mount point's directory");
    bool made = make_point(fd, name_below(base, spec->share_mount));
    for (size_t i = 0; made && i < spec->bind_count; i++)
        made = make_point(fd, name_below(base, spec->binds[i].target));
    int error = errno;
    close(fd);
    errno = error;
    return made || fail(why, size, "mount point");
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

/* A remount may not drop the flags of a mount that a more privileged user made. */
static unsigned long kept_flags(int fd)
{
    struct statvfs status;
    unsigned long flags = MS_NOSUID | MS_NODEV;

    if (fstatvfs(fd, &status) == 0) {
        flags |= status.f_flag & ST_RDONLY ? MS_RDONLY : 0;
        flags |= status.f_flag & ST_NOEXEC ? MS_NOEXEC : 0;
        flags |= status.f_flag & ST_NOATIME ? MS_NOATIME : 0;
        flags |= status.f_flag & ST_NODIRATIME ? MS_NODIRATIME : 0;
        flags |= status.f_flag & ST_RELATIME ? MS_RELATIME : 0;
    }
    return flags;
}

/* A mount point as it is now: below the base only what is ours, elsewhere what the path names and no link. */
static int open_target(const struct base *base, const char *target)
{
    const char *name = name_below(base, target);

    if (!name)
        return open(target, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    int parent = open_own(AT_FDCWD, base->path);
    int fd = parent < 0 ? -1 : open_own(parent, name);
    int error = errno;
    if (parent >= 0)
        close(parent);
    errno = error;
    return fd;
}

/* The top of what was just mounted; its owner is the owner of the source, so only the way to it is checked. */
static int open_mounted(const struct base *base, const char *target)
{
    const char *name = name_below(base, target);
    int parent = name ? open_own(AT_FDCWD, base->path) : AT_FDCWD;

    if (parent == -1)
        return -1;
    int fd = openat(parent, name ? name : target, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (parent >= 0)
        close(parent);
    return fd;
}

static bool mount_at(const char *source, int point)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", point);
    return mount(source, path, NULL, MS_BIND, NULL) == 0;
}

static bool protect(int top, bool writable)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", top);
    unsigned long flags = kept_flags(top) | (writable ? MS_NOEXEC : MS_RDONLY);
    return mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | flags, NULL) == 0;
}

static void detach(const struct base *base, const char *target)
{
    char path[64];
    int top = open_mounted(base, target);

    if (top < 0)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", top);
    umount2(path, MNT_DETACH);
    close(top);
}

static bool bind_one(const struct base *base, const struct bind *bind, char *why, size_t size)
{
    int point = open_target(base, bind->target);

    if (point < 0)
        return fail_at(why, size, "mount point", bind->target);
    bool mounted = mount_at(bind->source, point);
    int error = errno;
    close(point);
    errno = error;
    if (!mounted)
        return fail_at(why, size, "bind mount at", bind->target);
    /* The descriptor named what lies under the new mount; the path names the mount itself. */
    int top = open_mounted(base, bind->target);
    if (top >= 0 && protect(top, bind->writable)) {
        close(top);
        return true;
    }
    fail_at(why, size, "remount of", bind->target);
    if (top >= 0)
        close(top);
    detach(base, bind->target);
    return false;
}

bool share_mount(const struct spec *spec, char *why, size_t size)
{
    const struct bind share = {spec->share_directory, spec->share_mount, false};
    struct base base;

    if (!find_base(&base, spec->share_mount))
        return fail(why, size, "mount point's directory");
    /* Namespaces come last: a job must not lose sudo for a share that could not be mounted anyway. */
    if (!make_points(spec, &base, why, size) || !enter_namespaces(why, size))
        return false;
    if (!bind_one(&base, &share, why, size))
        return false;
    for (size_t i = 0; i < spec->bind_count; i++)
        if (!bind_one(&base, &spec->binds[i], why, size)) {
            /* Half a fence would promise what it does not hold. */
            while (i-- > 0)
                detach(&base, spec->binds[i].target);
            detach(&base, spec->share_mount);
            return false;
        }
    return true;
}
