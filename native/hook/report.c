#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "bundle.h"
#include "common/json.h"

/* Less than the runtime gives a hook (HOOK_SECONDS of node/cdi.py): the container starts without an answer too. */
enum { ANSWER_SECONDS = 8, LONGEST_ANSWER = 2000 };

static int open_of_process(int64_t pid, const char *name)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%lld/%s", (long long)pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* A container that has a cgroup namespace of its own sees other paths than the host. */
static bool has_own_namespace(int64_t pid)
{
    struct stat own, other;
    int file = open_of_process(pid, "ns/cgroup");
    bool known = file >= 0 && fstat(file, &other) == 0 && stat("/proc/self/ns/cgroup", &own) == 0;

    if (file >= 0)
        close(file);
    return !known || own.st_ino != other.st_ino;
}

/* One line; the agent answers with one. */
static bool write_question(struct text *question, const char *allocation, int64_t pid)
{
    struct text groups = {0};
    int file = open_of_process(pid, "cgroup");
    bool whole = file >= 0 && read_whole(file, &groups);

    if (file >= 0)
        close(file);
    text_string(question, "{\"container\": ");
    json_quote_ascii(question, slice_of(allocation));
    text_string(question, ", \"groups\": ");
    json_quote_ascii(question, text_slice(&groups));
    text_format(question, ", \"own_namespace\": %s}\n", has_own_namespace(pid) ? "true" : "false");
    whole = whole && !groups.failed && !question->failed;
    text_free(&groups);
    return whole;
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = ANSWER_SECONDS};

    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (door < 0)
        return -1;
    if (setsockopt(door, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) ||
        setsockopt(door, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) ||
        connect(door, (const struct sockaddr *)&address, sizeof address)) {
        int problem = errno;
        close(door);
        errno = problem;
        return -1;
    }
    return door;
}

static bool send_all(int door, struct slice rest)
{
    while (rest.length) {
        ssize_t sent = send(door, rest.at, rest.length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        rest.at += sent;
        rest.length -= (size_t)sent;
    }
    return true;
}

static bool await_answer(int door, struct text *answer)
{
    char byte = 0;

    for (;;) {
        ssize_t got = recv(door, &byte, 1, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || byte == '\n' || answer->length >= LONGEST_ANSWER)
            return got > 0 && byte == '\n';
        text_add(answer, &byte, 1);
    }
}

static void unlimited_member(struct json *json, struct slice name, void *reason)
{
    if (slice_is(name, "unlimited"))
        json_string(json, reason);
    else
        json_skip(json);
}

/* Why the limits are not in force by the agent's answer; NULL where they are. */
static const char *read_answer(struct text *answer)
{
    static char said[LONGEST_ANSWER + 1];
    struct slice reason = {0};
    struct json json = json_over(answer);

    if (answer->failed || !json_object(&json, unlimited_member, &reason) || !json_end(&json))
        return "the agent's answer cannot be read";
    if (!reason.length)
        return NULL;
    memcpy(said, reason.at, reason.length);
    said[reason.length] = 0;
    return said;
}

const char *report_container(const char *socket_path, const char *allocation, int64_t pid)
{
    struct text question = {0};
    struct text answer = {0};
    const char *problem = NULL;

    if (!write_question(&question, allocation, pid))
        problem = "its cgroups cannot be read";
    int door = problem ? -1 : connect_to(socket_path);
    if (!problem && door < 0)
        problem = strerror(errno);
    else if (!problem && (!send_all(door, text_slice(&question)) || !await_answer(door, &answer)))
        problem = "the agent does not answer";
    else if (!problem)
        problem = read_answer(&answer);
    if (door >= 0)
        close(door);
    text_free(&question);
    text_free(&answer);
    return problem;
}
