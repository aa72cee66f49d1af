#define _GNU_SOURCE
#include "http.h"

#include <string.h>
#include <strings.h>

enum { LINE_MAX_BYTES = 1 << 20 };

/* What is being read: the bytes from `at` on. */
struct cursor {
    const char *at, *end;
};

struct head {
    int status;
    bool chunked, has_length;
    size_t length;
};

/* One line without its CRLF. */
static enum http take_line(struct cursor *cursor, struct slice *line)
{
    size_t left = (size_t)(cursor->end - cursor->at);
    const char *found = memmem(cursor->at, left, "\r\n", 2);

    if (!found)
        return left > LINE_MAX_BYTES ? HTTP_BROKEN : HTTP_MORE;
    *line = (struct slice){cursor->at, (size_t)(found - cursor->at)};
    cursor->at = found + 2;
    return HTTP_WHOLE;
}

static bool read_status(struct slice line, int *status)
{
    const char *space = memchr(line.at, ' ', line.length);

    if (!space || line.length < 7 || memcmp(line.at, "HTTP/1.", 7) != 0)
        return false;
    *status = 0;
    const char *at = space + 1, *end = line.at + line.length;
    for (; at < end && *at != ' '; at++) {
        if (*at < '0' || *at > '9' || *status > 999)
            return false;
        *status = *status * 10 + (*at - '0');
    }
    return at > space + 1;
}

static struct slice trimmed(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    while (at < end && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return (struct slice){at, (size_t)(end - at)};
}

static bool is_word(struct slice slice, const char *word)
{
    return slice.length == strlen(word) && strncasecmp(slice.at, word, slice.length) == 0;
}

static bool read_length(struct slice value, int base, size_t *length)
{
    *length = 0;
    for (size_t i = 0; i < value.length; i++) {
        char sign = value.at[i];
        int lower = sign | 0x20;
        int digit = sign >= '0' && sign <= '9' ? sign - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 16;
        if (digit >= base || *length > TEXT_MAX)
            return false;
        *length = *length * (size_t)base + (size_t)digit;
    }
    return value.length > 0 && *length <= TEXT_MAX;
}

static bool read_header(struct slice line, struct head *head, struct answer *answer)
{
    const char *end = line.at + line.length, *colon = memchr(line.at, ':', line.length);
    struct slice name = trimmed(line.at, colon ? colon : end), value = trimmed(colon ? colon + 1 : end, end);

    if (is_word(name, "content-length")) {
        head->has_length = true;
        return read_length(value, 10, &head->length);
    }
    if (is_word(name, "transfer-encoding"))
        head->chunked = is_word(value, "chunked");
    else if (is_word(name, "connection"))
        answer->closes = is_word(value, "close");
    else if (is_word(name, "content-type"))
        answer->json = memmem(value.at, value.length, "json", 4) != NULL;
    return true;
}

/* The status line and what follows, over any 1xx before it. */
static enum http take_head(struct cursor *cursor, struct head *head, struct answer *answer)
{
    struct slice line;
    enum http result;

    do {
        *head = (struct head){0};
        answer->json = answer->closes = false;
        if ((result = take_line(cursor, &line)) != HTTP_WHOLE)
            return result;
        if (!read_status(line, &head->status))
            return HTTP_BROKEN;
        while ((result = take_line(cursor, &line)) == HTTP_WHOLE && line.length)
            if (!read_header(line, head, answer))
                return HTTP_BROKEN;
        if (result != HTTP_WHOLE)
            return result;
    } while (head->status < 200);
    return HTTP_WHOLE;
}

static enum http take_exactly(struct cursor *cursor, size_t length, struct text *body)
{
    if ((size_t)(cursor->end - cursor->at) < length)
        return HTTP_MORE;
    text_add(body, cursor->at, length);
    cursor->at += length;
    return HTTP_WHOLE;
}

static enum http take_chunks(struct cursor *cursor, struct text *body)
{
    struct slice line;
    size_t size;
    enum http result;

    do {
        if ((result = take_line(cursor, &line)) != HTTP_WHOLE)
            return result;
        const char *semicolon = memchr(line.at, ';', line.length);
        if (!read_length(trimmed(line.at, semicolon ? semicolon : line.at + line.length), 16, &size))
            return HTTP_BROKEN;
        if (size && (result = take_exactly(cursor, size, body)) != HTTP_WHOLE)
            return result;
        if (size && (result = take_line(cursor, &line)) != HTTP_WHOLE)
            return result;
    } while (size);
    do
        result = take_line(cursor, &line);
    while (result == HTTP_WHOLE && line.length);
    return result;
}

static enum http take_body(struct cursor *cursor, const struct head *head, bool ended, struct answer *answer)
{
    answer->body.length = 0;
    if (head->status == 204 || head->status == 304)
        return HTTP_WHOLE;
    if (head->chunked)
        return take_chunks(cursor, &answer->body);
    if (head->has_length)
        return take_exactly(cursor, head->length, &answer->body);
    answer->closes = true;
    return ended ? take_exactly(cursor, (size_t)(cursor->end - cursor->at), &answer->body) : HTTP_MORE;
}

enum http http_take(struct text *in, bool ended, struct answer *answer)
{
    struct slice whole = text_slice(in);
    struct cursor cursor = {whole.at, whole.at + whole.length};
    struct head head;

    enum http result = take_head(&cursor, &head, answer);
    if (result == HTTP_WHOLE)
        result = take_body(&cursor, &head, ended, answer);
    if (in->failed || answer->body.failed)
        return HTTP_BROKEN;
    if (result == HTTP_WHOLE) {
        answer->status = head.status;
        text_remove(in, (size_t)(cursor.at - whole.at));
    }
    return result;
}
