#define _GNU_SOURCE
#include "launch.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/json.h"

enum { VARIABLES_MAX = 1024, ENVIRONMENT_MAX = 8 << 20 };

static bool is_program(const char *path)
{
    struct stat found;

    return stat(path, &found) == 0 && S_ISREG(found.st_mode) && access(path, X_OK) == 0;
}

/* Looks as submission.check_command does: as it is if it names a directory, else in PATH, of which "" means here. */
static bool is_there(const char *command, const char *path)
{
    char place[PATH_MAX + NAME_MAX + 2];
    size_t length = strlen(command);

    if (length == 0 || length >= PATH_MAX)
        return false;
    if (strchr(command, '/'))
        return is_program(command);
    for (;;) {
        size_t folder = strcspn(path, ":");
        if (folder + length + 2 > sizeof place)
            return false;
        memcpy(place, path, folder);
        if (folder)
            place[folder] = '/';
        memcpy(place + folder + (folder > 0), command, length + 1);
        if (is_program(place))
            return true;
        if (path[folder] == '\0')
            return false;
        path += folder + 1;
    }
}

static bool add_words(struct text *body, char **words, size_t count)
{
    text_string(body, "{\"argv\":[");
    for (size_t i = 0; i < count; i++) {
        text_string(body, i ? "," : "");
        json_quote_ascii(body, slice_of(words[i]));
    }
    text_string(body, "]");
    return !body->failed;
}

static bool add_directory(struct text *body)
{
    char folder[PATH_MAX];

    if (!getcwd(folder, sizeof folder) || folder[0] != '/')
        return false;
    text_string(body, ",\"cwd\":");
    json_quote_ascii(body, slice_of(folder));
    return !body->failed;
}

static bool is_repeated(char **environment, size_t index, size_t name)
{
    for (size_t i = 0; i < index; i++)
        if (strncmp(environment[i], environment[index], name + 1) == 0) /* with its `=` */
            return true;
    return false;
}

static bool add_environment(struct text *body, char **environment)
{
    text_string(body, ",\"env\":{");
    for (size_t i = 0; environment[i]; i++) {
        size_t name = strcspn(environment[i], "=");
        /* A word without a name or `=`, or a name twice: readers differ in what they make of it. */
        if (i == VARIABLES_MAX || name == 0 || environment[i][name] != '=' || is_repeated(environment, i, name) ||
            body->length > ENVIRONMENT_MAX)
            return false;
        text_string(body, i ? "," : "");
        json_quote_ascii(body, (struct slice){environment[i], name});
        text_string(body, ":");
        json_quote_ascii(body, slice_of(environment[i] + name + 1));
    }
    text_string(body, "}");
    return !body->failed;
}

static void add_umask(struct text *body)
{
    mode_t mask = umask(0); /* no file is created in between: the process has one thread */

    umask(mask);
    text_format(body, ",\"umask\":%u", (unsigned)mask);
}

static void add_limits(struct text *body)
{
    /* Names and order as in submission.py; RLIMIT_LOCKS is none that Python knows. */
    static const struct {
        const char *name;
        int number;
    } LIMITS[] = {
        {"as", RLIMIT_AS},           {"core", RLIMIT_CORE},       {"cpu", RLIMIT_CPU},       {"data", RLIMIT_DATA},
        {"fsize", RLIMIT_FSIZE},     {"memlock", RLIMIT_MEMLOCK}, {"msgqueue", RLIMIT_MSGQUEUE}, {"nice", RLIMIT_NICE},
        {"nofile", RLIMIT_NOFILE},   {"nproc", RLIMIT_NPROC},     {"rss", RLIMIT_RSS},       {"rtprio", RLIMIT_RTPRIO},
        {"rttime", RLIMIT_RTTIME},   {"sigpending", RLIMIT_SIGPENDING}, {"stack", RLIMIT_STACK},
    };
    const char *before = ",\"limits\":{";

    for (size_t i = 0; i < sizeof LIMITS / sizeof *LIMITS; i++, before = ",") {
        struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
        if (getrlimit(LIMITS[i].number, &limit) < 0)
            body->failed = true;
        text_format(body, "%s\"%s\":[%" PRId64 ",%" PRId64 "]", before, LIMITS[i].name, (int64_t)limit.rlim_cur,
                    (int64_t)limit.rlim_max); /* RLIM_INFINITY becomes -1 */
    }
    text_string(body, "}}");
}

static const char *search_path(char **environment)
{
    for (; *environment; environment++)
        if (strncmp(*environment, "PATH=", 5) == 0)
            return *environment + 5;
    return "/bin:/usr/bin";
}

bool capture_launch(char **words, size_t count, char **environment, struct text *body)
{
    if (!is_there(words[0], search_path(environment)))
        return false;
    if (!add_words(body, words, count) || !add_directory(body) || !add_environment(body, environment))
        return false;
    add_umask(body);
    add_limits(body);
    return !body->failed;
}
