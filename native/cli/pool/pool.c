#define _GNU_SOURCE
#include "pool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET_NAME "gpupool.sock"
#define SYSTEM_STATE_DIR "/var/lib/gpupool"
#define SYSTEM_SOCKET "/run/gpupool/gpupool.sock"

enum { CONNECT_SECONDS = 10 };

static int connect_to(int fd, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);

    if (length >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, length + 1);
    return connect(fd, (struct sockaddr *)&address, sizeof address);
}

/* sockaddr_un has 108 bytes; a directory's descriptor is short. */
static int connect_far(int fd, const char *path)
{
    char folder[PATH_MAX], near[PATH_MAX];
    const char *name = strrchr(path, '/');

    if (!name || (size_t)(name - path) + 2 > sizeof folder) {
        errno = ENAMETOOLONG;
        return -1;
    }
    snprintf(folder, sizeof folder, "%.*s/", (int)(name - path), path);
    int directory = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return -1;
    snprintf(near, sizeof near, "/proc/self/fd/%d/%s", directory, name + 1);
    int result = connect_to(fd, near), error = errno;
    close(directory);
    errno = error;
    return result;
}

int unix_connect(const char *path)
{
    struct timeval patience = {.tv_sec = CONNECT_SECONDS}; /* for a listener that is stopped and its queue full */
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    bool near = strlen(path) < sizeof((struct sockaddr_un *)0)->sun_path;
    if ((near ? connect_to(fd, path) : connect_far(fd, path)) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Removes one directory from the end, never the root. */
static void step_up(struct text *path)
{
    while (path->length > 1 && path->at[path->length - 1] != '/')
        path->length--;
    if (path->length > 1)
        path->length--;
}

/* os.path.abspath: the text alone decides. False for what it treats in its own way (`//a`) or what has no directory. */
static bool absolute(const char *path, struct text *result)
{
    char here[PATH_MAX];

    if (path[0] == '/') {
        if (path[1] == '/')
            return false;
        text_string(result, "/");
    } else if (getcwd(here, sizeof here) && here[0] == '/')
        text_string(result, here);
    else
        return false;
    while (*path && !result->failed) {
        size_t length = strcspn(path, "/");
        if (length == 2 && memcmp(path, "..", 2) == 0)
            step_up(result);
        else if (length && !(length == 1 && *path == '.')) {
            text_string(result, result->length > 1 ? "/" : "");
            text_add(result, path, length);
        }
        path += length + (path[length] == '/');
    }
    return !result->failed;
}

/* os.path.join */
static void join(struct text *path, const char *name)
{
    if (path->length && path->at[path->length - 1] != '/')
        text_string(path, "/");
    text_string(path, name);
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

/* A directory of the user's: $variable, or ~/default. False without an absolute one. */
static bool own_place(const char *name, const char *usual, struct text *path)
{
    const char *base = variable(name), *home = getenv("HOME");

    text_string(path, base ? base : home ? home : "/");
    if (path->length == 0 || path->at[0] != '/')
        return false;
    if (!base)
        join(path, usual);
    return true;
}

static bool is_logged_in(void)
{
    struct text path = {0};
    bool absent = false;

    if (own_place("XDG_CONFIG_HOME", ".config", &path)) {
        join(&path, "gpupool/login.json");
        absent = access(text_c(&path), F_OK) < 0 && errno == ENOENT && !path.failed;
    }
    text_free(&path);
    return !absent;
}

static bool own_pool(struct pool *pool)
{
    if (getuid() == 0)
        text_string(&pool->directory, SYSTEM_STATE_DIR);
    else if (own_place("XDG_STATE_HOME", ".local/state", &pool->directory))
        join(&pool->directory, "gpupool");
    else
        return false;
    text_slice_add(&pool->path, text_slice(&pool->directory));
    join(&pool->path, SOCKET_NAME);
    return true;
}

static void system_pool(struct pool *pool)
{
    pool->path.length = pool->directory.length = 0;
    text_string(&pool->path, SYSTEM_SOCKET);
    text_add(&pool->directory, SYSTEM_SOCKET, sizeof SYSTEM_SOCKET - sizeof "/" SOCKET_NAME);
}

static bool named_pool(const char *state_dir, struct pool *pool)
{
    if (!absolute(state_dir, &pool->directory))
        return false;
    text_slice_add(&pool->path, text_slice(&pool->directory));
    join(&pool->path, SOCKET_NAME);
    return true;
}

static int reach(struct pool *pool)
{
    int fd = unix_connect(text_c(&pool->path));

    if (!pool->path.failed && !pool->directory.failed)
        return fd;
    if (fd >= 0)
        close(fd);
    errno = ENOMEM;
    return -1;
}

int pool_find(const char *state_dir, struct pool *pool)
{
    const char *chosen = state_dir ? state_dir : variable("GPUPOOL_STATE_DIR");

    *pool = (struct pool){0};
    if (chosen)
        return named_pool(chosen, pool) ? reach(pool) : -1;
    if (variable("GPUPOOL_URL") || is_logged_in())
        return -1;
    pool->implied = true;
    if (!own_pool(pool))
        return -1;
    int fd = reach(pool);
    if (fd >= 0 || (errno != ENOENT && errno != ECONNREFUSED && errno != ENOTDIR))
        return fd;
    system_pool(pool);
    return reach(pool);
}
