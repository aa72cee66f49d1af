/* Reading JSON (strict, bounded in depth, in place) and writing it. Knows no job and no error of the API. */
#ifndef GPUPOOL_COMMON_JSON_H
#define GPUPOOL_COMMON_JSON_H

#include "text.h"

enum json_kind { JSON_BROKEN, JSON_OBJECT, JSON_ARRAY, JSON_STRING, JSON_NUMBER, JSON_TRUE, JSON_FALSE, JSON_NULL };

/* A place in a text that is changed while it is read: strings are decoded where they stand. */
struct json {
    char *at, *end;
    int depth;
    bool broken;
};

/* The text must be whole and valid UTF-8. */
struct json json_over(struct text *text);
/* What comes next; reads nothing but white space. */
enum json_kind json_peek(struct json *json);

/* Called for each member or element; it must read exactly one value. */
typedef void json_member(struct json *json, struct slice name, void *context);
bool json_object(struct json *json, json_member *member, void *context);
bool json_array(struct json *json, json_member *element, void *context); /* the name is empty */
bool json_string(struct json *json, struct slice *value);
bool json_number(struct json *json, struct slice *literal);
/* False and broken for anything but an integer of 64 bits. */
bool json_integer(struct json *json, int64_t *value);
bool json_word(struct json *json); /* true, false, null */
bool json_skip(struct json *json);
/* Nothing but white space follows, and nothing was broken. */
bool json_end(struct json *json);

/* A string in quotes, in ASCII (as Python's json.dumps does it) or with UTF-8 left as it is. */
void json_quote_ascii(struct text *text, struct slice string);
void json_quote_utf8(struct text *text, struct slice string);
/* The value again, two blanks deeper at each level: `json.dump(value, indent=2, ensure_ascii=False)`. */
void json_pretty(struct json *json, struct text *text);

#endif
