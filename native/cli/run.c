#define _GNU_SOURCE
#include "run.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "pool/attach.h"
#include "pool/job.h"
#include "pool/lease.h"
#include "submit.h"

enum {
    SETTLE_TENTHS = 20, /* a job that is placed within this time has not waited */
    POLL_TENTHS = 200,
    GRACE_MS = 15000, /* a poll's answer may take that much longer than the poll */
    AWAY_PAUSE_MS = 200,
    RELEASE_MS = 15000,
    SECOND_INTERRUPT_MS = 2000,
};

/* One run of one job, and what has been said of it. */
struct attended {
    struct api *api;
    struct slice body;
    const char *key;
    struct job job;
    bool exists; /* the pool has answered with it */
    bool quiet, chatty, away;
    struct text printed_reason;
};

static void say_of(const struct attended *run, const char *words, struct slice more)
{
    struct text line = {0};

    text_slice_add(&line, run->job.name);
    text_string(&line, words);
    text_slice_add(&line, more);
    say(&line);
    text_free(&line);
}

static void tell_hint(struct json *json, struct slice name, void *context)
{
    struct text line = {0};
    struct slice hint;

    (void)name;
    (void)context;
    if (json_peek(json) != JSON_STRING)
        json_skip(json);
    else if (json_string(json, &hint)) {
        text_slice_add(&line, hint);
        say(&line);
    }
    text_free(&line);
}

static void explain_member(struct json *json, struct slice name, void *context)
{
    if (slice_is(name, "hints") && json_peek(json) == JSON_ARRAY)
        json_array(json, tell_hint, context);
    else
        json_skip(json);
}

/* Prints what would let the job start, as `explain` does. The wait itself reports a pool that does not answer. */
static enum outcome tell_hints(struct attended *run)
{
    struct request request = {.method = "GET", .timeout_ms = ANSWER_MS};
    struct answer answer = {0};

    text_string(&request.target, "/api/v1/jobs/");
    api_add_segment(&request.target, run->job.id);
    text_string(&request.target, "/explain");
    enum outcome outcome = api_request(run->api, &request, &answer);
    if (outcome == DONE) {
        struct json json = json_over(&answer.body);
        json_object(&json, explain_member, NULL);
    } else if (outcome == FAILED) {
        failure_free(run->api->failure);
        *run->api->failure = (struct failure){0};
        outcome = DONE;
    }
    text_free(&request.target);
    text_free(&answer.body);
    return outcome;
}

static enum outcome tell_waiting(struct attended *run)
{
    struct slice reason = run->job.reason.length ? run->job.reason : slice_of("waiting to be placed");
    struct slice before = text_slice(&run->printed_reason);

    if (run->quiet || (!run->chatty && !run->job.reason.length))
        return DONE;
    if (before.length == reason.length && memcmp(before.at, reason.at, reason.length) == 0)
        return DONE;
    run->printed_reason.length = 0;
    text_slice_add(&run->printed_reason, reason);
    say_of(run, " waits: ", reason);
    return run->chatty && run->job.reason.length ? tell_hints(run) : DONE;
}

static void tell_granted(const struct attended *run)
{
    struct text line = {0};

    if (!run->chatty)
        return;
    job_grant_line(&run->job, &line);
    say(&line);
    text_free(&line);
}

static void tell_away(struct attended *run, bool away)
{
    struct text line = {0};

    if (run->away != away && run->chatty) {
        if (away) {
            text_string(&line, "the pool does not answer; ");
            text_slice_add(&line, run->job.name);
            text_string(&line, " is not affected, waiting for the pool to come back");
        } else
            text_string(&line, "the pool is back");
        say(&line);
        text_free(&line);
    }
    run->away = away;
}

/* Ends that the program did not choose are told always, its own only to a terminal. */
static void tell_ended(const struct attended *run)
{
    const struct job *job = &run->job;
    bool failed = slice_is(job->state, "failed") && !job->has_exit_code;
    struct text line = {0};

    if (!job_has_ended(job))
        say_of(run, " has ended; the pool does not answer, its share is freed when it is back", slice_of(""));
    else if (slice_is(job->state, "stopped") || slice_is(job->state, "lost") || failed) {
        text_slice_add(&line, job->state);
        text_string(&line, job->reason.length ? ": " : "");
        text_slice_add(&line, job->reason);
        if (!run->quiet)
            say_of(run, " ", text_slice(&line));
    } else if (run->chatty && job->started_ns && job->ended_ns) {
        job_end_line(job, &line);
        say_of(run, " ", text_slice(&line));
    }
    text_free(&line);
}

static enum outcome submit_job(struct attended *run)
{
    struct submitted submitted = {0};
    enum outcome outcome = send_job(run->api, run->body, run->key, &submitted, NULL);

    if (outcome == DONE) {
        job_free(&run->job);
        run->job = submitted.first;
        run->exists = true;
    }
    return outcome;
}

static enum outcome read_job(struct attended *run, struct answer *answer)
{
    const char *fault = job_read(&run->job, &answer->body);

    if (!fault)
        return DONE;
    return *fault ? fail_defect(run->api->failure, "KeyError: a field of the job") : api_broken_json(run->api);
}

static enum outcome pause_away(struct attended *run)
{
    tell_away(run, true);
    return signals_wait(run->api->signals, -1, 0, AWAY_PAUSE_MS) == SIGNALLED ? INTERRUPTED : DONE;
}

/* The job once it has changed, or after so many tenths of a second. DONE as well while the pool is away. */
static enum outcome await_news(struct attended *run, int64_t tenths, bool lease)
{
    struct request request = {.method = "GET", .timeout_ms = tenths * 100 + GRACE_MS};
    struct answer answer = {0};

    job_news_target(&request.target, run->job.id, run->job.generation, tenths, lease);
    enum outcome outcome = api_request(run->api, &request, &answer);
    if (outcome == DONE)
        outcome = read_job(run, &answer);
    text_free(&request.target);
    text_free(&answer.body);
    if (outcome == FAILED && run->api->failure->unavailable)
        return pause_away(run);
    if (outcome == DONE)
        tell_away(run, false);
    return outcome;
}

static enum outcome until_attachable(struct attended *run)
{
    enum outcome outcome = DONE;

    for (int64_t tenths = SETTLE_TENTHS; outcome == DONE; tenths = POLL_TENTHS) {
        if (run->job.attach_socket.length || job_has_ended(&run->job))
            break;
        outcome = await_news(run, tenths, true);
        if (outcome == DONE && slice_is(run->job.state, "pending"))
            outcome = tell_waiting(run);
    }
    return outcome;
}

/* See the job end, which frees its share; give up when the pool stays away. */
static enum outcome until_ended(struct attended *run)
{
    int64_t deadline = now_ms() + RELEASE_MS;
    enum outcome outcome = DONE;

    while (outcome == DONE && !job_has_ended(&run->job)) {
        int64_t left = deadline - now_ms();
        if (left <= 0)
            break;
        outcome = await_news(run, left >= 5000 ? 50 : (left + 50) / 100, false);
    }
    return outcome;
}

/* End the job if it exists, also when the answer to the submission was interrupted. */
static enum outcome stop(struct attended *run)
{
    struct request request = {.method = "POST", .body = slice_of("{}"), .timeout_ms = ANSWER_MS};
    struct answer answer = {0};
    enum outcome outcome = DONE;

    if (!run->exists) {
        api_close(run->api);
        outcome = submit_job(run);
    }
    if (outcome == DONE) {
        text_string(&request.target, "/api/v1/jobs/");
        api_add_segment(&request.target, run->job.id);
        text_string(&request.target, "/stop");
        outcome = api_request(run->api, &request, &answer);
        text_free(&request.target);
        text_free(&answer.body);
    }
    if (outcome == DONE)
        outcome = until_ended(run);
    /* The lease is renewed no longer: a pool that is away now ends the job when it is back. */
    return outcome == FAILED && run->api->failure->unavailable ? DONE : outcome;
}

/* The program is alone in its session, where the kernel ignores the polite stop: it gets the other one. */
static void stop_both(struct channel *channel)
{
    channel_send(channel, "signal %d\n", SIGSTOP);
    kill(getpid(), SIGSTOP);
    channel_send(channel, "signal %d\n", SIGCONT);
}

static void pass_on(struct channel *channel, int number, int64_t *last_interrupt)
{
    int64_t before = *last_interrupt;

    if (number == SIGINT)
        *last_interrupt = now_ms();
    if (number == SIGTSTP)
        stop_both(channel);
    else if (number == SIGINT && before && *last_interrupt - before < SECOND_INTERRUPT_MS)
        channel_send(channel, "stop 0\n");
    else if (number != SIGWINCH)
        channel_send(channel, "signal %d\n", number);
}

static enum outcome serve(struct channel *channel, struct lease *lease, struct signals *signals,
                          struct failure *failure)
{
    enum outcome outcome = channel_heard(channel, failure);
    int64_t last_interrupt = 0;

    while (outcome == DONE && !channel->ended) {
        struct pollfd watched[] = {{channel->socket, POLLIN, 0}, {signals->fd, POLLIN, 0}, {lease->socket, POLLIN, 0}};
        int64_t left = lease->next_ms - now_ms();
        if (poll(watched, 3, lease->over ? -1 : left > 0 ? (int)left : 0) < 0 && errno != EINTR)
            break;
        for (int number; watched[1].revents && (number = signals_take(signals)); )
            pass_on(channel, number, &last_interrupt);
        if (watched[0].revents)
            outcome = channel_listen(channel, failure);
        lease_step(lease, watched[2].revents != 0);
    }
    return outcome;
}

/* From before the program has our descriptors to its end signals are kept for it, and the lease is renewed. */
static enum outcome attach(struct attended *run, int *code)
{
    static const int PASSED_ON[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH};
    struct failure *failure = run->api->failure;
    struct channel channel;
    struct signals signals;
    struct lease lease;

    signals_begin(&signals, PASSED_ON, sizeof PASSED_ON / sizeof *PASSED_ON);
    lease_begin(&lease, run->api->pool, &run->job);
    enum outcome outcome = channel_attach(&channel, run->job.attach_socket, failure);
    if (outcome == DONE)
        outcome = serve(&channel, &lease, &signals, failure);
    *code = channel.exit_code;
    channel_close(&channel);
    lease_end(&lease);
    signals_end(&signals);
    return outcome;
}

/* The failure of the attachment outlives what is asked meanwhile. */
static enum outcome after_failure(struct attended *run, int *code)
{
    struct failure *failure = run->api->failure, kept = *failure;
    bool pool_knows = kept.unavailable || failure_is(&kept, "GP-2007");

    *failure = (struct failure){0};
    enum outcome outcome = until_ended(run);
    if (outcome != DONE) {
        failure_free(&kept);
        return outcome;
    }
    failure_free(failure);
    *failure = kept;
    if (!pool_knows || !job_has_ended(&run->job))
        return FAILED;
    /* Stopped before it could be attached to, or its supervisor is gone: the pool knows how it ended. */
    *code = job_exit_code(&run->job);
    return DONE;
}

static enum outcome to_the_end(struct attended *run, int *code)
{
    enum outcome outcome = submit_job(run);

    if (outcome == DONE)
        outcome = until_attachable(run);
    if (outcome != DONE)
        return outcome;
    if (job_has_ended(&run->job)) {
        *code = job_exit_code(&run->job);
        return DONE;
    }
    tell_granted(run);
    outcome = attach(run, code);
    return outcome == DONE ? until_ended(run) : outcome == FAILED ? after_failure(run, code) : outcome;
}

int run(const struct options *options, struct api *api, struct slice body, const char *key)
{
    struct attended attended = {.api = api, .body = body, .key = key, .quiet = options->quiet};
    int code = 0;

    attended.chatty = !options->quiet && (options->verbose || isatty(STDERR_FILENO));
    enum outcome outcome = to_the_end(&attended, &code);
    if (outcome == INTERRUPTED) {
        code = EXIT_INTERRUPTED;
        while (signals_take(api->signals)) /* these have been heard */
            continue;
        if (stop(&attended) == FAILED)
            code = failure_print(api->failure);
    } else if (outcome == FAILED)
        code = !attended.exists && may_be_gang(api->failure) ? TO_PYTHON : failure_print(api->failure);
    else
        tell_ended(&attended);
    text_free(&attended.printed_reason);
    job_free(&attended.job);
    return code;
}
