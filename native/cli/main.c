/* The command `gpupool`: takes the plain cases of `run` and `submit` itself, hands everything else to Python.
 *
 * Python is the one truth of what a command line means; the front door gives the identical result where it is sure
 * to, and decides that before anything is sent. docs/decisions/0003-native-front-door.md says why it is here. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "options.h"
#include "pool/api.h"
#include "pool/pool.h"
#include "run.h"
#include "submission.h"
#include "submit.h"

#define PYTHON_COMMAND "gpupool-cli"

extern char **environ;

/* Becomes the Python command beside `program`; returns if there is none, or if it is this very program: whether it is
 * there and this account may not run it, or the interpreter that its first line names. */
static bool become(const char *program, char **argv)
{
    char path[PATH_MAX];
    struct stat own, other;
    const char *slash = strrchr(program, '/');

    if (!slash || (size_t)(slash - program) + sizeof "/" PYTHON_COMMAND > sizeof path)
        return false;
    snprintf(path, sizeof path, "%.*s/" PYTHON_COMMAND, (int)(slash - program), program);
    if (stat("/proc/self/exe", &own) == 0 && stat(path, &other) == 0 && own.st_dev == other.st_dev &&
        own.st_ino == other.st_ino)
        return false;
    execve(path, argv, environ);
    return errno == EACCES || errno == EPERM;
}

static int fall_back(char **argv)
{
    static const char INCOMPLETE[] = "gpupool: GP-5009: this installation is not whole: " PYTHON_COMMAND
                                     " is not beside gpupool, or cannot be run\n"
                                     "  install it again: pip install --force-reinstall gpupool gpupool-native\n";
    static const char CLOSED[] = "gpupool: GP-5009: this account may not run the Python that gpupool is installed for\n"
                                 "  open it to all, or install gpupool for a Python that is: the first line of "
                                 PYTHON_COMMAND " beside gpupool names it\n";
    char program[PATH_MAX] = "";
    bool closed = false;
    const char *started_as = (const char *)getauxval(AT_EXECFN);

    if (readlink("/proc/self/exe", program, sizeof program - 1) > 0)
        closed = become(program, argv);
    if (started_as) /* by a link: what it belongs to may lie beside the link */
        closed = become(started_as, argv) || closed;
    write_all(STDERR_FILENO, closed ? slice_of(CLOSED) : slice_of(INCOMPLETE));
    return 7;
}

static bool has_descriptors(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            return false;
    return true;
}

/* A job with a terminal of its own is Python's: raw mode, resizing, re-attaching. */
static bool wants_terminal(const struct options *options)
{
    return options->command == COMMAND_RUN && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

/* Whether Chinese is chosen, as terminal/language.py reads the environment: this program speaks English alone. */
static bool speaks_chinese(void)
{
    static const char *const VARIABLES[] = {"GPUPOOL_LANG", "LC_ALL", "LC_MESSAGES", "LANG"};

    for (size_t i = 0; i < sizeof VARIABLES / sizeof *VARIABLES; i++) {
        const char *value = getenv(VARIABLES[i]);
        if (value && *value)
            return strncasecmp(value, "zh", 2) == 0;
    }
    return false;
}

static bool is_plain_output(const char *output)
{
    return !output || strcmp(output, "text") == 0 || strcmp(output, "json") == 0;
}

static int serve(const struct options *options, struct pool *pool, int socket, struct slice body, const char *key)
{
    struct failure failure = {0};
    struct signals signals;
    struct api api = {.pool = pool, .signals = &signals, .failure = &failure, .socket = socket};

    void (*before)(int) = signal(SIGPIPE, SIG_IGN); /* a reader that has gone is an error to be looked at */
    signals_begin_ending(&signals, options->command == COMMAND_RUN);
    int code = options->command == COMMAND_RUN ? run(options, &api, body, key) : submit(options, &api, body, key);
    if (code == TO_PYTHON) { /* what is blocked or ignored stays so in the program that this process becomes */
        signals_end(&signals);
        signal(SIGPIPE, before);
    }
    api_close(&api);
    text_free(&api.in);
    failure_free(&failure);
    return code;
}

int main(int argc, char **argv)
{
    struct options options;
    struct text body = {0};
    struct pool pool;
    char key[KEY_BYTES];

    if (speaks_chinese() || !options_read(argc, argv, &options) || !has_descriptors() || wants_terminal(&options) ||
        !is_plain_output(options.output) || !build_submission(&options, environ, &body) || !make_key(key))
        return fall_back(argv);
    int socket = pool_find(options.state_dir, &pool);
    if (socket < 0)
        return fall_back(argv);
    int code = serve(&options, &pool, socket, text_slice(&body), key);
    text_free(&body);
    text_free(&pool.path);
    text_free(&pool.directory);
    return code == TO_PYTHON ? fall_back(argv) : code;
}
