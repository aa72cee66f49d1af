#include "json.h"

#include <string.h>

enum { DEPTH_MAX = 64 };

struct json json_over(struct text *text)
{
    static char nothing[1];
    char *at = text->at ? text->at : nothing; /* NULL plus 0 is undefined in C */
    struct json json = {at, at + text->length, 0, false};

    json.broken = text->failed || !text->at || !utf8_valid(text_slice(text));
    return json;
}

static bool broken(struct json *json)
{
    json->broken = true;
    return false;
}

static int next_byte(struct json *json)
{
    while (json->at < json->end && (*json->at == ' ' || *json->at == '\t' || *json->at == '\n' || *json->at == '\r'))
        json->at++;
    return json->broken || json->at == json->end ? -1 : (unsigned char)*json->at;
}

enum json_kind json_peek(struct json *json)
{
    switch (next_byte(json)) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
        return JSON_TRUE;
    case 'f':
        return JSON_FALSE;
    case 'n':
        return JSON_NULL;
    case '-': case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7': case '8': case '9':
        return JSON_NUMBER;
    default:
        return JSON_BROKEN;
    }
}

static bool take(struct json *json, char wanted)
{
    if (next_byte(json) != wanted)
        return false;
    json->at++;
    return true;
}

static bool read_members(struct json *json, json_member *member, void *context, bool named)
{
    char close = named ? '}' : ']';

    if (!take(json, named ? '{' : '[') || json->depth == DEPTH_MAX)
        return broken(json);
    json->depth++;
    for (bool first = true; !take(json, close); first = false) {
        struct slice name = {"", 0};
        if (!first && !take(json, ','))
            return broken(json);
        if (named && (!json_string(json, &name) || !take(json, ':')))
            return broken(json);
        member(json, name, context);
        if (json->broken)
            return false;
    }
    json->depth--;
    return true;
}

bool json_object(struct json *json, json_member *member, void *context)
{
    return read_members(json, member, context, true);
}

bool json_array(struct json *json, json_member *element, void *context)
{
    return read_members(json, element, context, false);
}

static int hex_value(char sign)
{
    if (sign >= '0' && sign <= '9')
        return sign - '0';
    sign |= 0x20;
    return sign >= 'a' && sign <= 'f' ? sign - 'a' + 10 : -1;
}

/* The four digits after \u; -1 if there are none. */
static int32_t read_unit(struct json *json)
{
    int32_t unit = 0;

    if (json->end - json->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int value = hex_value(*json->at++);
        if (value < 0)
            return -1;
        unit = unit << 4 | value;
    }
    return unit;
}

static int32_t read_code(struct json *json)
{
    int32_t high = read_unit(json), low;

    if (high < 0xd800 || high > 0xdfff)
        return high;
    if (high > 0xdbff || json->end - json->at < 2 || json->at[0] != '\\' || json->at[1] != 'u')
        return -1;
    json->at += 2;
    low = read_unit(json);
    return low < 0xdc00 || low > 0xdfff ? -1 : 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

/* What is written is never longer than what was read: the escape of a sign has at least its bytes. */
static char *put_code(char *to, int32_t code)
{
    struct text sign = {to, 0, 4, false};

    utf8_add(&sign, (uint32_t)code);
    return to + sign.length;
}

static char *read_escape(struct json *json, char *to)
{
    static const char NAMES[] = "\"\\/bfnrt", MEANT[] = "\"\\/\b\f\n\r\t";

    if (json->at == json->end)
        return NULL;
    char name = *json->at++;
    if (name == 'u') {
        int32_t code = read_code(json);
        return code < 0 ? NULL : put_code(to, code);
    }
    const char *found = name ? strchr(NAMES, name) : NULL;
    if (!found)
        return NULL;
    *to = MEANT[found - NAMES];
    return to + 1;
}

bool json_string(struct json *json, struct slice *value)
{
    if (!take(json, '"'))
        return broken(json);
    char *start = json->at, *to = start;
    while (to && json->at < json->end) {
        char sign = *json->at++;
        if (sign == '"') {
            *value = (struct slice){start, (size_t)(to - start)};
            return true;
        }
        if ((unsigned char)sign < 0x20)
            break;
        if (sign == '\\')
            to = read_escape(json, to);
        else
            *to++ = sign;
    }
    return broken(json);
}

static size_t take_digits(struct json *json)
{
    char *start = json->at;

    while (json->at < json->end && *json->at >= '0' && *json->at <= '9')
        json->at++;
    return (size_t)(json->at - start);
}

static bool at_sign(const struct json *json, const char *signs)
{
    return json->at < json->end && *json->at && strchr(signs, *json->at);
}

bool json_number(struct json *json, struct slice *literal)
{
    if (json_peek(json) != JSON_NUMBER)
        return broken(json);
    char *start = json->at;
    json->at += *json->at == '-';
    char *digits = json->at;
    size_t count = take_digits(json);
    if (count == 0 || (count > 1 && *digits == '0'))
        return broken(json);
    if (at_sign(json, ".")) {
        json->at++;
        if (take_digits(json) == 0)
            return broken(json);
    }
    if (at_sign(json, "eE")) {
        json->at++;
        json->at += at_sign(json, "+-");
        if (take_digits(json) == 0)
            return broken(json);
    }
    *literal = (struct slice){start, (size_t)(json->at - start)};
    return true;
}

bool json_integer(struct json *json, int64_t *value)
{
    struct slice literal;
    uint64_t number = 0, most = INT64_MAX;

    if (!json_number(json, &literal))
        return false;
    bool negative = *literal.at == '-';
    for (size_t i = negative; i < literal.length; i++) {
        unsigned digit = (unsigned)(literal.at[i] - '0');
        if (digit > 9 || number > (most - digit) / 10)
            return broken(json);
        number = number * 10 + digit;
    }
    *value = negative ? -(int64_t)number : (int64_t)number;
    return true;
}

bool json_word(struct json *json)
{
    static const char *const WORDS[] = {"true", "false", "null"};

    json_peek(json);
    for (int i = 0; i < 3; i++) {
        size_t length = strlen(WORDS[i]);
        if ((size_t)(json->end - json->at) >= length && memcmp(json->at, WORDS[i], length) == 0) {
            json->at += length;
            return true;
        }
    }
    return broken(json);
}

static void skip_member(struct json *json, struct slice name, void *context)
{
    (void)name;
    (void)context;
    json_skip(json);
}

bool json_skip(struct json *json)
{
    struct slice ignored;

    switch (json_peek(json)) {
    case JSON_OBJECT:
        return json_object(json, skip_member, NULL);
    case JSON_ARRAY:
        return json_array(json, skip_member, NULL);
    case JSON_STRING:
        return json_string(json, &ignored);
    case JSON_NUMBER:
        return json_number(json, &ignored);
    case JSON_BROKEN:
        return broken(json);
    default:
        return json_word(json);
    }
}

bool json_end(struct json *json)
{
    return !json->broken && next_byte(json) < 0 && json->at == json->end;
}

/* The letter after the backslash, 0 for a sign that needs none or a number. */
static char short_escape(int32_t code)
{
    switch (code) {
    case '"':
        return '"';
    case '\\':
        return '\\';
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return 0;
    }
}

static void quote(struct text *text, struct slice string, bool ascii)
{
    const char *at = string.at, *end = string.at + string.length;

    text_add(text, "\"", 1);
    while (at < end) {
        const char *start = at;
        while (at < end && *at >= ' ' && *at <= '~' && *at != '"' && *at != '\\')
            at++;
        text_add(text, start, (size_t)(at - start));
        if (at == end)
            break;
        start = at;
        int32_t code = utf8_next(&at, end);
        char letter = short_escape(code);
        if (code < 0) {
            text->failed = true;
            return;
        }
        if (letter)
            text_format(text, "\\%c", letter);
        else if (code >= 0x20 && !ascii)
            text_add(text, start, (size_t)(at - start));
        else if (code < 0x10000)
            text_format(text, "\\u%04x", (unsigned)code);
        else
            text_format(text, "\\u%04x\\u%04x", 0xd800u + ((unsigned)(code - 0x10000) >> 10),
                        0xdc00u + ((unsigned)code & 0x3ff));
    }
    text_add(text, "\"", 1);
}

void json_quote_ascii(struct text *text, struct slice string)
{
    quote(text, string, true);
}

void json_quote_utf8(struct text *text, struct slice string)
{
    quote(text, string, false);
}

struct level {
    struct text *text;
    bool named, any;
};

static void pretty_member(struct json *json, struct slice name, void *context)
{
    struct level *level = context;

    text_string(level->text, level->any ? ",\n" : "\n");
    for (int i = 0; i < json->depth; i++)
        text_string(level->text, "  ");
    if (level->named) {
        json_quote_utf8(level->text, name);
        text_string(level->text, ": ");
    }
    level->any = true;
    json_pretty(json, level->text);
}

static void pretty_members(struct json *json, struct text *text, bool named)
{
    struct level level = {text, named, false};

    text_string(text, named ? "{" : "[");
    if (named ? !json_object(json, pretty_member, &level) : !json_array(json, pretty_member, &level))
        return;
    if (level.any) {
        text_string(text, "\n");
        for (int i = 0; i < json->depth; i++)
            text_string(text, "  ");
    }
    text_string(text, named ? "}" : "]");
}

void json_pretty(struct json *json, struct text *text)
{
    enum json_kind kind = json_peek(json);
    struct slice value;

    if (kind == JSON_OBJECT || kind == JSON_ARRAY)
        pretty_members(json, text, kind == JSON_OBJECT);
    else if (kind == JSON_STRING && json_string(json, &value))
        json_quote_utf8(text, value);
    else if (kind == JSON_NUMBER && json_number(json, &value))
        text_slice_add(text, value);
    else if (kind != JSON_STRING && kind != JSON_NUMBER && json_word(json))
        text_string(text, kind == JSON_TRUE ? "true" : kind == JSON_FALSE ? "false" : "null");
}
