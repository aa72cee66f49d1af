/* How a cgroup's directory becomes its name, and which names a process is in. */
#include "limit_groups.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mount {
    char root[SIM_GROUP_SIZE], point[SIM_GROUP_SIZE], options[512];
    bool v2;
};

/* A line of /proc/PID/mountinfo (proc(5)): "ID PARENT DEVICE ROOT POINT OPTIONS... - TYPE SOURCE SUPER-OPTIONS". */
static bool parse_mount(const char *line, struct mount *mount)
{
    char type[16];
    const char *end = strstr(line, " - ");
    if (!end || sscanf(line, "%*s %*s %*s %4095s %4095s", mount->root, mount->point) != 2)
        return false;
    if (sscanf(end, " - %15s %*s %511s", type, mount->options) != 2)
        return false;
    mount->v2 = !strcmp(type, "cgroup2");
    return mount->v2 || !strcmp(type, "cgroup");
}

/* The rest of a path below a directory, "" for the directory itself; NULL when it is elsewhere. */
static const char *below(const char *path, const char *directory)
{
    size_t length = strcmp(directory, "/") ? strlen(directory) : 0;
    if (strncmp(path, directory, length) || (path[length] && path[length] != '/'))
        return NULL;
    return path + length;
}

/* Of the mount that is deepest above the path; a later one hides an earlier one at the same place. */
static bool find_mount(const char *path, struct mount *found)
{
    struct mount one;
    size_t longest = 0, room = 0;
    char *line = NULL;
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    if (!mounts)
        return false;
    while (getline(&line, &room, mounts) > 0)
        if (parse_mount(line, &one) && below(path, one.point) && strlen(one.point) >= longest) {
            longest = strlen(one.point);
            *found = one;
        }
    free(line);
    fclose(mounts);
    return longest > 0;
}

/* Of a version 1 hierarchy's options, which begin with "rw" and may have flags that are no controllers. */
static void find_controller(char *options, char *controller, size_t size)
{
    static const char *const flags[] = {"rw", "ro", "xattr", "noprefix", "clone_children", "cpuset_v2_mode"};
    char *rest = NULL;
    *controller = '\0';
    for (char *word = strtok_r(options, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        bool flag = !strncmp(word, "release_agent=", 14);
        for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
            flag = flag || !strcmp(word, flags[i]);
        if (!flag) {
            snprintf(controller, size, "%s", word);
            return;
        }
    }
}

int sim_name_group(const char *directory, char name[SIM_GROUP_SIZE])
{
    struct mount mount;
    char path[PATH_MAX], controller[512] = "";
    if (!realpath(directory, path))
        return -errno;
    if (strchr(path, '\n') || !find_mount(path, &mount))
        return -ENOENT;
    if (!mount.v2)
        find_controller(mount.options, controller, sizeof controller);
    const char *root = strcmp(mount.root, "/") ? mount.root : "";
    const char *rest = below(path, mount.point);
    if (!*root && !*rest)
        return -ENOTSUP;
    int length = snprintf(name, SIM_GROUP_SIZE, "%s:%s%s", controller, root, rest);
    return length < SIM_GROUP_SIZE ? 0 : -ENAMETOOLONG;
}

bool sim_is_inside(const char *line, const char *name)
{
    const char *controllers = strchr(line, ':');
    const char *path = controllers ? strchr(++controllers, ':') : NULL;
    size_t length = strcspn(name, ":");
    if (!path || !name[length] || strncmp(controllers, name, length) ||
        (controllers[length] != ',' && controllers[length] != ':'))
        return false;
    return below(path + 1, name + length + 1) != NULL;
}
