#define _GNU_SOURCE
#include "attach.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool.h"

enum { PROTOCOL_MIN = 1, PROTOCOL_MAX = 1, ANSWER_SECONDS = 30, CHUNK = 8192, LINES_MAX = 1 << 20 };

#define JUST_ENDED "the job can no longer be attached to: it has just ended"

/* Moves the next whole line out; false when there is none. The line is good until more is read. */
static bool take_line(struct channel *channel, struct text *line)
{
    char *end = channel->in.length ? memchr(channel->in.at, '\n', channel->in.length) : NULL;

    if (!end)
        return false;
    line->length = 0;
    text_add(line, channel->in.at, (size_t)(end - channel->in.at));
    text_remove(&channel->in, line->length + 1);
    return true;
}

/* More bytes; 0 when the other side has closed or says more than it could have to, -1 when nothing came in time. */
static int receive(struct channel *channel)
{
    char *room = channel->in.length < LINES_MAX ? text_reserve(&channel->in, CHUNK) : NULL;
    ssize_t got = 0;

    if (room)
        do
            got = recv(channel->socket, room, CHUNK, 0);
        while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == EAGAIN ? -1 : 0;
    channel->in.length += (size_t)got;
    return got > 0;
}

static void send_bytes(struct channel *channel, const char *bytes, const int *descriptors, size_t count)
{
    struct iovec text = {(void *)(uintptr_t)bytes, strlen(bytes)};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(3 * sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1};

    if (count) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        control.header = (struct cmsghdr){CMSG_LEN(count * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), descriptors, count * sizeof(int));
    }
    while (sendmsg(channel->socket, &message, MSG_NOSIGNAL) < 0 && errno == EINTR)
        continue;
}

void channel_send(struct channel *channel, const char *format, ...)
{
    char line[128];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    send_bytes(channel, line, NULL, 0);
}

static struct slice rest_of(struct slice line, size_t length)
{
    size_t skipped = line.length > length ? length + 1 : line.length;

    return (struct slice){line.at + skipped, line.length - skipped};
}

static bool begins(struct slice line, const char *word)
{
    size_t length = strlen(word);

    return line.length >= length && memcmp(line.at, word, length) == 0 &&
           (line.length == length || line.at[length] == ' ');
}

/* The next answer that begins with a word; others are passed over. */
static enum outcome expect(struct channel *channel, const char *wanted, struct failure *failure)
{
    struct text line = {0};
    enum outcome outcome = FAILED;
    int came = 1;

    while (came > 0) {
        if (!take_line(channel, &line)) {
            came = receive(channel);
            continue;
        }
        struct slice words = text_slice(&line);
        if (begins(words, "error")) {
            words = rest_of(words, 5);
            fail(failure, "GP-2007", "", "the job's supervisor refused: %.*s", (int)words.length, words.at);
            break;
        }
        if (begins(words, wanted)) {
            outcome = DONE;
            break;
        }
    }
    if (came < 0)
        fail(failure, "GP-5000", "", "the job's supervisor did not answer within %d s", ANSWER_SECONDS);
    else if (came == 0)
        fail(failure, "GP-2007", "", JUST_ENDED);
    text_free(&line);
    return outcome;
}

static enum outcome cannot_attach(struct failure *failure, int error)
{
    return fail(failure, "GP-2007", "see how it ended with  gpupool ps --all",
                "the job can no longer be attached to: %s", strerror(error));
}

enum outcome channel_attach(struct channel *channel, struct slice path, struct failure *failure)
{
    /* One answer takes microseconds; a supervisor that was stopped by hand must not hang us for good. */
    static const struct timeval PATIENCE = {.tv_sec = ANSWER_SECONDS};
    static const int OURS[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
    struct text name = {0};

    *channel = (struct channel){.socket = -1};
    text_slice_add(&name, path);
    channel->socket = unix_connect(text_c(&name));
    int error = errno;
    text_free(&name);
    if (channel->socket < 0)
        return cannot_attach(failure, error);
    setsockopt(channel->socket, SOL_SOCKET, SO_RCVTIMEO, &PATIENCE, sizeof PATIENCE);
    channel_send(channel, "hello %d %d\nwait\n", PROTOCOL_MIN, PROTOCOL_MAX);
    enum outcome outcome = expect(channel, "hello", failure);
    if (outcome == DONE)
        outcome = expect(channel, "ok", failure);
    if (outcome != DONE)
        return outcome;
    /* Not together with the lines before: descriptors belong to the line they come with. */
    send_bytes(channel, "attach fds\n", OURS, 3);
    return expect(channel, "attached", failure);
}

/* The value of a `key=value` word; what follows `message=` is no word. */
static struct slice word_of(struct slice line, const char *key)
{
    size_t length = strlen(key);
    const char *at = line.at, *end = line.at + line.length;

    for (const char *stop; at < end; at = stop + (stop < end)) {
        stop = memchr(at, ' ', (size_t)(end - at));
        if (!stop)
            stop = end;
        size_t left = (size_t)(end - at);
        bool message = left >= 8 && memcmp(at, "message=", 8) == 0;
        if (left > length && memcmp(at, key, length) == 0 && at[length] == '=' && (message || at + length < stop))
            return (struct slice){at + length + 1, (size_t)((message ? end : stop) - at) - length - 1};
        if (message)
            break;
    }
    return (struct slice){NULL, 0};
}

static int number_of(struct slice word)
{
    char digits[16] = "";

    if (word.at && word.length < sizeof digits)
        memcpy(digits, word.at, word.length);
    return (int)strtol(digits, NULL, 10);
}

static enum outcome not_started(struct slice line, struct failure *failure)
{
    struct slice message = word_of(line, "message"), stage = word_of(line, "stage");

    if (!message.at)
        message = slice_of("the program could not be started");
    if (slice_is(stage, "exec") && number_of(word_of(line, "errno")) == ENOENT)
        return fail_with(failure, slice_of("GP-1006"), message,
                         slice_of("give the program's path, or one that is in PATH"));
    return fail_with(failure, slice_of("GP-1000"), message, slice_of(""));
}

static enum outcome take_end(struct channel *channel, struct slice line, struct failure *failure)
{
    struct slice code = word_of(line, "exit_code");

    channel->ended = true;
    if (slice_is(word_of(line, "state"), "failed_to_start"))
        return not_started(line, failure);
    channel->exit_code = code.at ? number_of(code) : 128 + number_of(word_of(line, "signal"));
    return DONE;
}

enum outcome channel_heard(struct channel *channel, struct failure *failure)
{
    struct text line = {0};
    enum outcome outcome = DONE;

    while (!channel->ended && take_line(channel, &line))
        if (begins(text_slice(&line), "exited"))
            outcome = take_end(channel, text_slice(&line), failure);
    text_free(&line);
    return outcome;
}

enum outcome channel_listen(struct channel *channel, struct failure *failure)
{
    bool open = receive(channel) != 0;
    enum outcome outcome = channel_heard(channel, failure);

    if (open || channel->ended)
        return outcome;
    return fail(failure, "GP-5000", "see  gpupool ps --all  for its state",
                "the job's supervisor is gone, and the program with it");
}

void channel_close(struct channel *channel)
{
    if (channel->socket >= 0)
        close(channel->socket);
    channel->socket = -1;
    text_free(&channel->in);
}
