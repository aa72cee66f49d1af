#include "lease.h"

#include <inttypes.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api.h"

enum {
    FIRST_RENEWAL_MS = 5000, /* a submission brings a lease of 15 s; commands shorter than this never renew it */
    POLL_TENTHS = 200,
    ANSWER_WITHIN_MS = 35000,
    BETWEEN_MS = 10,
    AWAY_MS = 1000,
    CHUNK = 1 << 16,
    NEVER_MS = 1 << 30,
};

void job_news_target(struct text *target, struct slice id, int64_t generation, int64_t tenths, bool lease)
{
    text_string(target, "/api/v1/jobs/");
    api_add_segment(target, id);
    text_format(target, "?generation=%" PRId64 "&wait_seconds=%" PRId64 ".%" PRId64 "&lease=%s", generation,
                tenths / 10, tenths % 10, lease ? "true" : "false");
}

void lease_begin(struct lease *lease, const struct pool *pool, const struct job *job)
{
    *lease = (struct lease){.pool = pool, .generation = job->generation, .socket = -1};
    text_slice_add(&lease->job, job->id);
    lease->next_ms = now_ms() + FIRST_RENEWAL_MS;
}

static void hang_up(struct lease *lease, int64_t pause_ms)
{
    if (lease->socket >= 0)
        close(lease->socket);
    lease->socket = -1;
    lease->in.length = 0;
    lease->next_ms = now_ms() + pause_ms;
}

static void ask(struct lease *lease)
{
    struct request request = {.method = "GET"};
    struct text path = {0}, bytes = {0};

    text_slice_add(&path, text_slice(&lease->pool->path));
    job_news_target(&request.target, text_slice(&lease->job), lease->generation, POLL_TENTHS, true);
    api_write_request(&request, &bytes);
    lease->socket = unix_connect(text_c(&path));
    ssize_t put = lease->socket < 0 ? -1 : send(lease->socket, bytes.at, bytes.length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (bytes.failed || put != (ssize_t)bytes.length)
        hang_up(lease, AWAY_MS);
    else
        lease->next_ms = now_ms() + ANSWER_WITHIN_MS;
    text_free(&request.target);
    text_free(&path);
    text_free(&bytes);
}

/* The pool's answer: the job once more, or a problem. A pool that is away is asked again; any other says no for good. */
static void judge(struct lease *lease, struct answer *answer)
{
    struct failure failure = {0};
    struct job job = {0};

    if (api_judge(lease->pool, answer, &failure) != DONE) {
        lease->over = !failure.unavailable;
        hang_up(lease, AWAY_MS);
    } else if (job_read(&job, &answer->body))
        hang_up(lease, AWAY_MS);
    else {
        lease->generation = job.generation;
        lease->over = job_has_ended(&job);
        hang_up(lease, BETWEEN_MS);
    }
    job_free(&job);
    failure_free(&failure);
}

static void receive(struct lease *lease)
{
    struct answer answer = {0};
    char *room = text_reserve(&lease->in, CHUNK);
    ssize_t got = room ? recv(lease->socket, room, CHUNK, MSG_DONTWAIT) : 0;

    if (got > 0)
        lease->in.length += (size_t)got;
    enum http state = got < 0 ? HTTP_BROKEN : http_take(&lease->in, got == 0, &answer);
    if (state == HTTP_WHOLE)
        judge(lease, &answer);
    else if (state == HTTP_BROKEN || got == 0)
        hang_up(lease, AWAY_MS);
    text_free(&answer.body);
}

void lease_step(struct lease *lease, bool readable)
{
    if (!lease->over && readable && lease->socket >= 0)
        receive(lease);
    if (!lease->over && now_ms() >= lease->next_ms) {
        if (lease->socket >= 0)
            hang_up(lease, AWAY_MS);
        else
            ask(lease);
    }
    if (lease->over)
        hang_up(lease, NEVER_MS);
}

void lease_end(struct lease *lease)
{
    hang_up(lease, 0);
    text_free(&lease->job);
    text_free(&lease->in);
}
