/* For tests: the front door's readers without its doors.
 *
 *   probe units KIND       each line of stdin as a quantity: its numbers, or `no`
 *   probe fuzz SEED ROUNDS random command lines and random damage to JSON and HTTP: nothing may go wrong with memory,
 *                          and JSON that was read must read again to the same text once it is written */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/http.h"
#include "common/json.h"
#include "options.h"
#include "pool/job.h"
#include "submission.h"
#include "units.h"

static uint64_t state;

static uint32_t chance(uint32_t below) /* xorshift64* */
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (uint32_t)((state * UINT64_C(2685821657736338717)) >> 33) % below;
}

static int probe_units(const char *kind)
{
    char *line = NULL;
    size_t room = 0;

    for (ssize_t length; (length = getline(&line, &room, stdin)) > 0;) {
        int64_t one = 0, two = 0;
        line[length - 1] = '\0';
        bool good = strcmp(kind, "gpu") == 0      ? units_gpu(line, &one, &two)
                    : strcmp(kind, "memory") == 0 ? units_memory(line, &one)
                                                  : units_duration(line, &one);
        if (good)
            printf("%" PRId64 " %" PRId64 "\n", one, two);
        else
            puts("no");
    }
    free(line);
    return 0;
}

static void fuzz_options(void)
{
    static const char *const WORDS[] = {
        "run", "submit", "--", "-", "", "true", "--gpu", "--gpu=", "0.3", "1", "--memory", "--mem=1GiB", "8GiB", "-q", "-o",
        "json", "--array", "5", "--label", "--label=a=b", "a=b", "=", "--state-dir", "--state-dir=x", "--no-color", "-qv",
        "--name=n", "--name", "--max-time=1h30m", "--priority", "high", "\xff", "--model=\xc3\xa9", "--count=2",
        "--sharing=best-effort", "--tenant=t", "--no-wait", "--no-fence=1", "--output=text", "ps", "--gpu=0.30000000001",
        "--memory=99999999999999999999GiB", "--max-time=999999999w999999999w",
    };
    char *argv[64] = {"gpupool"}, *copies[64];
    char *environment[] = {"PATH=/bin:/usr/bin", "A=\"\\\x01\xc3\xa9\xf0\x9f\x98\x80", NULL};
    int argc = 1, count = 1 + (int)chance(50);
    struct options options;
    struct text body = {0};

    while (argc < count) { /* on the heap, so that a step too far is seen */
        copies[argc] = strdup(WORDS[chance(argc == 1 ? 2 : sizeof WORDS / sizeof *WORDS)]);
        argv[argc] = copies[argc];
        argc++;
    }
    argv[argc] = NULL;
    if (options_read(argc, argv, &options) && build_submission(&options, environment, &body)) {
        struct json json = json_over(&body);
        if (!json_skip(&json) || !json_end(&json))
            abort();
    }
    text_free(&body);
    while (--argc > 0)
        free(copies[argc]);
}

static void write_value(struct text *text, int depth)
{
    static const char *const LEAVES[] = {"0", "-1.5e+3", "true", "false", "null", "\"\"", "\"\\u00e9\\ud83d\\ude00\\n\\/\"",
                                         "12345678901234567890", "\"\xc3\xa9\x7f\"", "9223372036854775807", "{}", "[ ]"};
    static const char *const NAMES[] = {"first", "id", "name", "state", "reason", "generation", "seats", "device", "model",
                                        "exit_code", "signal", "attach_socket", "array", "count", "simulated", "\\u0041"};
    uint32_t kind = depth > 5 ? 2 : chance(3), members = chance(6);

    if (kind == 2) {
        text_string(text, LEAVES[chance(sizeof LEAVES / sizeof *LEAVES)]);
        return;
    }
    text_string(text, kind ? "{" : "[");
    for (uint32_t i = 0; i < members; i++) {
        text_string(text, i ? " ,\n" : "");
        if (kind)
            text_format(text, "\"%s\":", NAMES[chance(sizeof NAMES / sizeof *NAMES)]);
        write_value(text, depth + 1);
    }
    text_string(text, kind ? "}" : "]");
}

/* Exactly as long as it is, so that a step too far is seen. */
static struct text exact(const struct text *from)
{
    struct text copy = {malloc(from->length ? from->length : 1), from->length, from->length, false};

    if (from->length)
        memcpy(copy.at, from->at, from->length);
    return copy;
}

static void damage(struct text *text)
{
    for (uint32_t hits = chance(3); hits && text->length; hits--) {
        uint32_t at = chance((uint32_t)text->length);
        switch (chance(3)) {
        case 0:
            text->at[at] = (char)chance(256);
            break;
        case 1:
            text->length = at;
            break;
        default:
            text->at[at] = "{}[]\",:\\u0-.e\n"[chance(14)];
        }
    }
}

static void fuzz_json(void)
{
    struct text source = {0}, once = {0}, twice = {0};

    write_value(&source, 0);
    damage(&source);
    struct text copy = exact(&source);
    struct json json = json_over(&copy);
    json_pretty(&json, &once);
    if (json_end(&json)) {
        struct text again = exact(&once);
        json = json_over(&again);
        json_pretty(&json, &twice);
        if (!json_end(&json) || once.length != twice.length || memcmp(once.at, twice.at, once.length) != 0)
            abort();
        text_free(&again);
    }
    text_free(&copy);
    copy = exact(&source);
    struct submitted submitted = {0};
    if (!submitted_read(&submitted, &copy))
        job_free(&submitted.first);
    text_free(&copy);
    text_free(&source);
    text_free(&once);
    text_free(&twice);
}

static void fuzz_http(void)
{
    static const char *const PIECES[] = {
        "HTTP/1.1 200 OK\r\n", "HTTP/1.1 100 Continue\r\n\r\n", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n",
        "Content-Length: 99999999999999999999\r\n", "Connection: close\r\n", "\r\n", "5\r\nhello\r\n", "0\r\n\r\n", "hello",
        "ffffffffffffffff\r\n", "\r", ":", "Content-Type: application/json\r\n", "3;x\r\nabc\r\n", "HTTP/1.0 99999999999 \r\n",
    };
    struct text source = {0};
    struct answer answer = {0};

    for (uint32_t count = chance(10); count; count--)
        text_string(&source, PIECES[chance(sizeof PIECES / sizeof *PIECES)]);
    damage(&source);
    struct text in = exact(&source);
    while (http_take(&in, chance(2), &answer) == HTTP_WHOLE && in.length)
        continue;
    text_free(&in);
    text_free(&answer.body);
    text_free(&source);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "units") == 0)
        return probe_units(argv[2]);
    if (argc != 4)
        return 2;
    state = strtoull(argv[2], NULL, 10) * 2 + 1;
    for (long rounds = strtol(argv[3], NULL, 10); rounds > 0; rounds--) {
        fuzz_options();
        fuzz_json();
        fuzz_http();
    }
    return 0;
}
