#include "failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "codes.h"

static void classify(struct failure *failure)
{
    failure->exit_code = 1;
    failure->unavailable = false;
    for (size_t i = 0; i < sizeof CODES / sizeof *CODES; i++)
        if (slice_is(text_slice(&failure->code), CODES[i].code)) {
            failure->exit_code = CODES[i].exit_code;
            failure->unavailable = CODES[i].unavailable;
        }
}

static void forget(struct failure *failure)
{
    failure->code.length = failure->message.length = failure->hint.length = 0;
}

enum outcome fail_with(struct failure *failure, struct slice code, struct slice message, struct slice hint)
{
    forget(failure);
    text_slice_add(&failure->code, code);
    text_slice_add(&failure->message, message);
    text_slice_add(&failure->hint, hint);
    classify(failure);
    return FAILED;
}

enum outcome fail(struct failure *failure, const char *code, const char *hint, const char *format, ...)
{
    char message[4096 + 512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return fail_with(failure, slice_of(code), slice_of(message), slice_of(hint));
}

enum outcome fail_defect(struct failure *failure, const char *exception)
{
    return fail(failure, "GP-5900", "GPUPOOL_DEBUG=1 shows where; please report it", "this should not happen: %s",
                exception);
}

bool failure_is(const struct failure *failure, const char *code)
{
    return slice_is(text_slice(&failure->code), code);
}

void failure_free(struct failure *failure)
{
    text_free(&failure->code);
    text_free(&failure->message);
    text_free(&failure->hint);
}

bool write_all(int fd, struct slice bytes)
{
    while (bytes.length) {
        ssize_t put = write(fd, bytes.at, bytes.length);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        bytes.at += put;
        bytes.length -= (size_t)put;
    }
    return true;
}

static bool is_in(const struct range *ranges, size_t count, uint32_t code)
{
    for (size_t i = 0; i < count; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

static void add_clean(struct text *line, const char *start, const char *end, uint32_t code)
{
    if (!is_in(UNPRINTABLE, sizeof UNPRINTABLE / sizeof *UNPRINTABLE, code))
        text_add(line, start, (size_t)(end - start));
    else if (code == '\t')
        text_string(line, "\\t");
    else
        text_format(line, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)code);
}

/* Moves over one line; where it ends, its line break not counted. */
static const char *take_line(const char **at, const char *end)
{
    const char *stop = *at;

    while (*at < end) {
        stop = *at;
        int32_t code = utf8_next(at, end);
        if (code < 0)
            (*at)++; /* shown as what it is: nothing readable */
        else if (is_in(LINE_BREAKS, sizeof LINE_BREAKS / sizeof *LINE_BREAKS, (uint32_t)code)) {
            if (code == '\r' && *at < end && **at == '\n')
                (*at)++;
            return stop;
        }
    }
    return end;
}

static bool is_blank(const char *at, const char *end)
{
    while (at < end) {
        int32_t code = utf8_next(&at, end);
        if (code < 0 || !is_in(BLANKS, sizeof BLANKS / sizeof *BLANKS, (uint32_t)code))
            return false;
    }
    return true;
}

static void add_line(struct text *out, const char *start, const char *end)
{
    while (start < end) {
        const char *sign = start;
        int32_t code = utf8_next(&start, end);
        if (code >= 0)
            add_clean(out, sign, start, (uint32_t)code);
        else {
            utf8_add(out, 0xfffd);
            start++;
        }
    }
}

/* The lines, control characters as escapes; `blank` says whether empty ones are kept. */
static void add_lines(struct text *out, const struct text *text, const char *before, const char *between, bool blank)
{
    const char *at = text->at, *end = at + text->length;

    while (text->length && at < end) {
        const char *start = at, *stop = take_line(&at, end);
        if (!blank && is_blank(start, stop))
            continue;
        text_string(out, before);
        add_line(out, start, stop);
        before = between;
    }
}

int failure_print(const struct failure *failure)
{
    struct text out = {0};

    text_string(&out, "gpupool: ");
    text_slice_add(&out, text_slice(&failure->code));
    text_string(&out, ": ");
    add_lines(&out, &failure->message, "", "\n  ", true);
    add_lines(&out, &failure->hint, "\n  ", "\n  ", false);
    text_string(&out, "\n");
    write_all(STDERR_FILENO, text_slice(&out)); /* without a reader the exit code still tells */
    text_free(&out);
    return failure->exit_code;
}

void say(const struct text *line)
{
    struct text out = {0};

    text_string(&out, "gpupool: ");
    text_slice_add(&out, text_slice(line));
    text_string(&out, "\n");
    write_all(STDERR_FILENO, text_slice(&out));
    text_free(&out);
}
