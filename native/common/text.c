#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct slice slice_of(const char *string)
{
    return (struct slice){string, string ? strlen(string) : 0};
}

bool slice_is(struct slice slice, const char *string)
{
    size_t length = strlen(string);

    return slice.at && slice.length == length && memcmp(slice.at, string, length) == 0;
}

struct slice text_slice(const struct text *text)
{
    return (struct slice){text->at ? text->at : "", text->length};
}

char *text_reserve(struct text *text, size_t length)
{
    if (text->failed || length > TEXT_MAX - text->length) {
        text->failed = true;
        return NULL;
    }
    if (text->length + length > text->room) {
        size_t room = text->room ? text->room : 8192;
        while (room < text->length + length)
            room *= 2;
        char *at = realloc(text->at, room);
        if (!at) {
            text->failed = true;
            return NULL;
        }
        text->at = at;
        text->room = room;
    }
    return text->at + text->length;
}

void text_add(struct text *text, const char *bytes, size_t length)
{
    if (length && text_reserve(text, length)) {
        memcpy(text->at + text->length, bytes, length);
        text->length += length;
    }
}

void text_string(struct text *text, const char *string)
{
    text_add(text, string, strlen(string));
}

void text_slice_add(struct text *text, struct slice slice)
{
    text_add(text, slice.at, slice.length);
}

void text_format(struct text *text, const char *format, ...)
{
    va_list arguments, again;

    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0)
        text->failed = true;
    else if (text_reserve(text, (size_t)length + 1)) {
        vsnprintf(text->at + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
}

const char *text_c(struct text *text)
{
    if (!text_reserve(text, 1))
        return "";
    text->at[text->length] = '\0';
    return text->at;
}

void text_remove(struct text *text, size_t length)
{
    if (length == 0)
        return;
    text->length -= length;
    memmove(text->at, text->at + length, text->length);
}

void text_free(struct text *text)
{
    free(text->at);
    *text = (struct text){0};
}

/* RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
int32_t utf8_next(const char **at, const char *end)
{
    static const uint32_t SMALLEST[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = (unsigned char)**at;
    int length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    uint32_t code = length == 1 ? first : first & (0x7fu >> length);

    if (length == 0 || end - *at < length)
        return -1;
    for (int i = 1; i < length; i++) {
        unsigned char next = (unsigned char)(*at)[i];
        if ((next & 0xc0) != 0x80)
            return -1;
        code = code << 6 | (next & 0x3f);
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000) || (length > 1 && code < SMALLEST[length]))
        return -1;
    *at += length;
    return (int32_t)code;
}

void utf8_add(struct text *text, uint32_t code)
{
    char bytes[4];
    int length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;

    for (int i = length - 1; i > 0; i--, code >>= 6)
        bytes[i] = (char)(0x80 | (code & 0x3f));
    bytes[0] = (char)(length == 1 ? code : (0xf00u >> length & 0xffu) | code);
    text_add(text, bytes, (size_t)length);
}

bool utf8_valid(struct slice slice)
{
    const char *at = slice.at, *end = slice.at + slice.length;

    while (at < end)
        if ((signed char)*at > 0)
            at++;
        else if (utf8_next(&at, end) < 0)
            return false;
    return true;
}
