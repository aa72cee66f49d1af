#include "submit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

bool make_key(char key[KEY_BYTES])
{
    unsigned char random[(KEY_BYTES - 1) / 2];

    if (getrandom(random, sizeof random, 0) != sizeof random)
        return false;
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(key + 2 * i, 3, "%02x", random[i]);
    return true;
}

static enum outcome misread(struct api *api, const char *fault)
{
    char exception[64];

    if (!*fault)
        return api_broken_json(api);
    snprintf(exception, sizeof exception, "KeyError: '%s'", fault);
    return fail_defect(api->failure, exception);
}

enum outcome send_job(struct api *api, struct slice body, const char *key, struct submitted *submitted,
                      struct text *answer_text)
{
    struct request request = {.method = "POST", .body = body, .key = key, .timeout_ms = ANSWER_MS};
    struct answer answer = {0};

    text_string(&request.target, "/api/v1/jobs");
    enum outcome outcome = api_request(api, &request, &answer);
    if (outcome == DONE && answer_text)
        text_slice_add(answer_text, text_slice(&answer.body));
    if (outcome == DONE) {
        const char *fault = submitted_read(submitted, &answer.body);
        if (fault)
            outcome = misread(api, fault);
    }
    text_free(&request.target);
    text_free(&answer.body);
    return outcome;
}

static void write_id(const struct submitted *submitted, struct text *out)
{
    text_slice_add(out, submitted->array.length ? submitted->array : submitted->first.id);
    text_string(out, "\n");
}

static void tell(const struct submitted *submitted)
{
    struct text line = {0};

    if (submitted->array.length) {
        text_format(&line, "%" PRId64 " jobs ", submitted->count);
        text_slice_add(&line, submitted->array);
        text_string(&line, ".0 ..., each ");
    } else {
        text_slice_add(&line, submitted->first.name);
        text_string(&line, ": ");
    }
    text_slice_add(&line, submitted->first.share);
    text_string(&line, "; gpupool ps  lists them");
    say(&line);
    text_free(&line);
}

/* As Python ends when what it prints cannot be written. */
static int unwritten(struct api *api, int error)
{
    char exception[256];

    if (error == EPIPE)
        return EXIT_BROKEN_PIPE;
    snprintf(exception, sizeof exception, "OSError: [Errno %d] %s", error, strerror(error));
    fail_defect(api->failure, exception);
    return failure_print(api->failure);
}

static int show(const struct options *options, struct api *api, const struct submitted *submitted,
                struct text *answer)
{
    struct text out = {0};
    bool json = options->output && strcmp(options->output, "json") == 0;

    if (json) {
        struct json again = json_over(answer);
        json_pretty(&again, &out);
        text_string(&out, "\n");
    } else
        write_id(submitted, &out);
    bool written = write_all(STDOUT_FILENO, text_slice(&out));
    int error = errno;
    text_free(&out);
    if (!json && isatty(STDERR_FILENO))
        tell(submitted);
    return written ? 0 : unwritten(api, error);
}

bool may_be_gang(const struct failure *failure)
{
    return failure_is(failure, "GP-2004");
}

int submit(const struct options *options, struct api *api, struct slice body, const char *key)
{
    struct submitted submitted = {0};
    struct text answer = {0};
    bool json = options->output && strcmp(options->output, "json") == 0;
    enum outcome outcome = send_job(api, body, key, &submitted, json ? &answer : NULL);
    int code = outcome == DONE          ? show(options, api, &submitted, &answer)
               : outcome == INTERRUPTED ? EXIT_INTERRUPTED
               : !json && may_be_gang(api->failure) ? TO_PYTHON
                                                    : failure_print(api->failure);

    job_free(&submitted.first);
    text_free(&answer);
    return code;
}
