/* Text that grows within a bound, and UTF-8. Knows nothing of options, jobs or pools. */
#ifndef GPUPOOL_COMMON_TEXT_H
#define GPUPOOL_COMMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TEXT_MAX = 64 << 20 };

struct slice {
    const char *at; /* NULL: not given */
    size_t length;
};

/* Grows up to TEXT_MAX. What does not fit is left out and `failed` stays set: it is looked at once, at the end. */
struct text {
    char *at;
    size_t length, room;
    bool failed;
};

struct slice slice_of(const char *string);
bool slice_is(struct slice slice, const char *string);
struct slice text_slice(const struct text *text);

void text_add(struct text *text, const char *bytes, size_t length);
void text_string(struct text *text, const char *string);
void text_slice_add(struct text *text, struct slice slice);
__attribute__((format(printf, 2, 3))) void text_format(struct text *text, const char *format, ...);
/* A C string from here on: a NUL after the end, which is not counted. "" when there is no memory even for that. */
const char *text_c(struct text *text);
/* Room for at least that many bytes after the end; NULL and `failed` when there is none. */
char *text_reserve(struct text *text, size_t length);
void text_remove(struct text *text, size_t length);
void text_free(struct text *text);

/* The next code point, -1 when what follows is no strict UTF-8; moves `at` on. */
int32_t utf8_next(const char **at, const char *end);
void utf8_add(struct text *text, uint32_t code);
bool utf8_valid(struct slice slice);

#endif
