#define _GNU_SOURCE
#include "api.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/json.h"

enum { CHUNK = 1 << 16 };

/* How one attempt ended, when it did not end with an answer. */
struct attempt {
    enum { ANSWERED, STOPPED, LATE, BROKEN } end;
    const char *why;
};

static const struct attempt HUNG_UP = {BROKEN, "it closed the connection"};
static const struct attempt NO_HTTP = {BROKEN, "what answers there does not speak HTTP"};

static struct attempt broken_by(int error)
{
    return (struct attempt){BROKEN, strerror(error)};
}

void api_add_segment(struct text *target, struct slice segment)
{
    static const char SAFE[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:,";
    bool dots = slice_is(segment, ".") || slice_is(segment, "..");

    for (size_t i = 0; i < segment.length; i++)
        if (segment.at[i] && strchr(SAFE, segment.at[i]) && !dots)
            text_add(target, segment.at + i, 1);
        else
            text_format(target, "%%%02X", (unsigned)(unsigned char)segment.at[i]);
}

void api_write_request(const struct request *request, struct text *out)
{
    text_format(out, "%s ", request->method);
    text_slice_add(out, text_slice(&request->target));
    text_string(out, " HTTP/1.1\r\nHost: gpupool\r\nUser-Agent: gpupool/" GPUPOOL_VERSION "\r\n");
    if (request->body.at)
        text_format(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", request->body.length);
    if (request->key)
        text_format(out, "Idempotency-Key: %s\r\n", request->key);
    text_string(out, "\r\n");
    text_slice_add(out, request->body);
}

void api_close(struct api *api)
{
    if (api->socket >= 0)
        close(api->socket);
    api->socket = -1;
    api->in.length = 0;
}

/* Letters that a shell takes as they are; anything else goes between single quotes (shlex.quote). */
static void quote_for_shell(struct text *out, struct slice word)
{
    static const char SAFE[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
    bool safe = word.length > 0;

    for (size_t i = 0; safe && i < word.length; i++)
        safe = word.at[i] && strchr(SAFE, word.at[i]);
    if (safe) {
        text_slice_add(out, word);
        return;
    }
    text_string(out, "'");
    for (size_t i = 0; i < word.length; i++)
        if (word.at[i] == '\'')
            text_string(out, "'\"'\"'");
        else
            text_add(out, word.at + i, 1);
    text_string(out, "'");
}

static struct slice path_of(const struct pool *pool)
{
    return text_slice(&pool->path);
}

/* Why the pool that was there cannot be connected to any more. */
static enum outcome unreachable(struct api *api, int error)
{
    const struct pool *pool = api->pool;
    struct text message = {0}, hint = {0};
    const char *code = "GP-5001";

    if (error == ENOENT || error == ECONNREFUSED || error == ENOTDIR) {
        text_string(&message, "no pool is running at ");
        text_slice_add(&message, text_slice(&pool->directory));
        text_string(&hint, "start one: gpupool up");
        if (!pool->implied) {
            text_string(&hint, " --state-dir ");
            quote_for_shell(&hint, text_slice(&pool->directory));
        }
    } else if (error == EACCES || error == EPERM) {
        code = "GP-3002";
        text_string(&message, "the pool at ");
        text_slice_add(&message, path_of(pool));
        text_string(&message, " belongs to another user");
        text_string(&hint, "start your own: gpupool up");
    } else {
        text_string(&message, "cannot reach the pool at ");
        text_slice_add(&message, path_of(pool));
        text_format(&message, ": %s", strerror(error));
        text_string(&hint, "gpupool doctor");
    }
    fail_with(api->failure, slice_of(code), text_slice(&message), text_slice(&hint));
    text_free(&message);
    text_free(&hint);
    return FAILED;
}

/* A kept connection that the pool has closed, or on which it said something unasked, is given up. */
static enum outcome connected(struct api *api)
{
    struct pollfd watched = {api->socket, POLLIN, 0};

    if (api->socket >= 0 && (api->in.length || poll(&watched, 1, 0) > 0))
        api_close(api);
    if (api->socket >= 0)
        return DONE;
    struct text path = {0};
    text_slice_add(&path, path_of(api->pool));
    api->socket = unix_connect(text_c(&path));
    int error = errno;
    text_free(&path);
    return api->socket >= 0 ? DONE : unreachable(api, error);
}

static struct attempt send_all(struct api *api, struct slice bytes, int64_t timeout_ms)
{
    while (bytes.length) {
        ssize_t put = send(api->socket, bytes.at, bytes.length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put >= 0) {
            bytes.at += put;
            bytes.length -= (size_t)put;
        } else if (errno == EAGAIN) {
            enum readiness now = signals_wait(api->signals, api->socket, POLLOUT, timeout_ms);
            if (now != READY)
                return (struct attempt){now == SIGNALLED ? STOPPED : LATE, ""};
        } else if (errno != EINTR)
            return broken_by(errno);
    }
    return (struct attempt){ANSWERED, ""};
}

static struct attempt receive(struct api *api, int64_t timeout_ms, struct answer *answer)
{
    enum http state;
    ssize_t got;

    do {
        enum readiness now = signals_wait(api->signals, api->socket, POLLIN, timeout_ms);
        if (now != READY)
            return (struct attempt){now == SIGNALLED ? STOPPED : LATE, ""};
        char *room = text_reserve(&api->in, CHUNK);
        if (!room)
            return NO_HTTP;
        got = recv(api->socket, room, CHUNK, 0);
        if (got < 0)
            return broken_by(errno);
        api->in.length += (size_t)got;
        state = http_take(&api->in, got == 0, answer);
    } while (state == HTTP_MORE && got > 0);
    return state == HTTP_WHOLE ? (struct attempt){ANSWERED, ""} : state == HTTP_BROKEN ? NO_HTTP : HUNG_UP;
}

static struct attempt exchange(struct api *api, const struct request *request, struct slice bytes,
                               struct answer *answer)
{
    struct attempt sent = send_all(api, bytes, request->timeout_ms);

    /* A pool that refuses a large body answers and closes while we still write: read what it said. */
    if (sent.end != ANSWERED && !(sent.end == BROKEN && request->body.length))
        return sent;
    return receive(api, request->timeout_ms, answer);
}

static enum outcome lost(struct api *api, const char *why)
{
    struct slice path = path_of(api->pool);

    return fail(api->failure, "GP-5008", "look at it with: gpupool doctor", "the pool at %.*s stopped answering: %s",
                (int)path.length, path.at, why);
}

static enum outcome lost_late(struct api *api, int64_t timeout_ms)
{
    char why[64];

    snprintf(why, sizeof why, "no answer within %d s", (int)(timeout_ms / 1000));
    return lost(api, why);
}

static enum outcome ask(struct api *api, const struct request *request, struct slice bytes, struct answer *answer)
{
    bool again = request->key || strcmp(request->method, "GET") == 0;

    for (;; again = false) {
        if (connected(api) != DONE)
            return FAILED;
        struct attempt attempt = exchange(api, request, bytes, answer);
        if (attempt.end == ANSWERED)
            break;
        api_close(api);
        if (attempt.end == STOPPED)
            return INTERRUPTED;
        if (attempt.end == LATE)
            return lost_late(api, request->timeout_ms);
        if (!again)
            return lost(api, attempt.why);
    }
    if (answer->closes)
        api_close(api);
    return api_judge(api->pool, answer, api->failure);
}

enum outcome api_request(struct api *api, const struct request *request, struct answer *answer)
{
    struct text bytes = {0};

    api_write_request(request, &bytes);
    enum outcome outcome = bytes.failed || request->target.failed
                               ? fail_defect(api->failure, "MemoryError")
                               : ask(api, request, text_slice(&bytes), answer);
    text_free(&bytes);
    return outcome;
}

struct problem {
    struct slice code, detail, title, hint;
};

static void problem_member(struct json *json, struct slice name, void *context)
{
    struct problem *problem = context;
    struct slice *place = slice_is(name, "code")     ? &problem->code
                          : slice_is(name, "detail") ? &problem->detail
                          : slice_is(name, "title")  ? &problem->title
                          : slice_is(name, "hint")   ? &problem->hint
                                                     : NULL;

    if (place && json_peek(json) == JSON_STRING)
        json_string(json, place);
    else
        json_skip(json);
}

static enum outcome broken_json(const struct pool *pool, struct failure *failure)
{
    struct slice path = path_of(pool);

    return fail(failure, "GP-5008", "gpupool doctor", "the pool at %.*s answered with broken JSON", (int)path.length,
                path.at);
}

enum outcome api_broken_json(const struct api *api)
{
    return broken_json(api->pool, api->failure);
}

enum outcome api_judge(const struct pool *pool, struct answer *answer, struct failure *failure)
{
    struct problem problem = {0};
    struct slice path = path_of(pool);

    if (answer->status < 300)
        return DONE;
    if (answer->json && answer->body.length) {
        struct json json = json_over(&answer->body);
        bool whole = (json_peek(&json) == JSON_OBJECT ? json_object(&json, problem_member, &problem)
                                                      : json_skip(&json)) && json_end(&json);
        if (!whole)
            return broken_json(pool, failure);
    }
    if (!problem.code.at)
        return fail(failure, "GP-5008", "check the address: gpupool doctor", "%.*s answered %d and not as a pool does",
                    (int)path.length, path.at, answer->status);
    struct slice message = problem.detail.length ? problem.detail : problem.title;
    return fail_with(failure, problem.code, message.at ? message : slice_of("None"), problem.hint);
}
