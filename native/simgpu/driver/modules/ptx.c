/* PTX text: the names of its kernels with their parameters, and of its variables. Instructions are not looked at. */
#include "module.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *skip_space(const char *text)
{
    for (;;) {
        while (isspace((unsigned char)*text))
            ++text;
        if (text[0] == '/' && text[1] == '/')
            text += strcspn(text, "\n");
        else if (text[0] == '/' && text[1] == '*')
            text = strstr(text, "*/") ? strstr(text, "*/") + 2 : text + strlen(text);
        else
            return text;
    }
}

/* A directive, a name, a number, or one sign. */
static size_t token_length(const char *text)
{
    size_t length = *text == '.';

    while (isalnum((unsigned char)text[length]) || (text[length] && strchr("_$%", text[length])))
        ++length;
    return length ? length : *text != 0;
}

static bool token_is(const char *text, size_t length, const char *word)
{
    return length == strlen(word) && !memcmp(text, word, length);
}

/* Bytes of an element: `.u64` is 8, `.b8` 1, `.pred` has none. */
static size_t type_size(const char *text, size_t length)
{
    size_t at = 2;
    unsigned bits = 0;

    if (length < 3 || text[0] != '.' || !strchr("busf", text[1]))
        return 0;
    for (; at < length && isdigit((unsigned char)text[at]); ++at)
        bits = bits * 10 + (unsigned)(text[at] - '0');
    return at == length && bits % 8 == 0 ? bits / 8 : 0;
}

struct declaration {
    const char *name;
    size_t length, size, alignment;
    bool managed;
};

/* Reads `.align 8 .b8 name[24]` up to one of the stop signs; where it stopped. */
static const char *read_declaration(const char *text, const char *stops, struct declaration *found)
{
    size_t element = 0, count = 1;

    *found = (struct declaration){.alignment = 0};
    for (text = skip_space(text); *text && !strchr(stops, *text); text = skip_space(text)) {
        size_t length = token_length(text);
        if (token_is(text, length, ".align")) {
            text = skip_space(text + length);
            found->alignment = strtoul(text, NULL, 10);
            length = token_length(text);
        } else if (token_is(text, length, ".managed")) {
            found->managed = true;
        } else if (type_size(text, length)) {
            element = type_size(text, length);
        } else if (*text == '[') {
            unsigned long elements = strtoul(text + 1, NULL, 10);
            count *= elements ? elements : 1;
            length = strcspn(text, "]") + 1;
        } else if (*text != '.' && (isalpha((unsigned char)*text) || strchr("_$%", *text))) {
            found->name = text;
            found->length = length;
        }
        text += length;
    }
    found->size = element * count;
    if (!found->alignment)
        found->alignment = element ? element : 1;
    return text;
}

static bool add_param(struct entry *entry, const struct declaration *param, size_t *offset)
{
    struct entry_param *more = realloc(entry->param, ((size_t)entry->params + 1) * sizeof *more);

    if (!more)
        return false;
    entry->param = more;
    *offset = (*offset + param->alignment - 1) / param->alignment * param->alignment;
    more[entry->params++] = (struct entry_param){*offset, param->size};
    *offset += param->size;
    return true;
}

static const char *read_entry(const char *text, struct image *image)
{
    struct declaration param;
    size_t offset = 0;

    text = skip_space(text);
    size_t length = token_length(text);
    struct entry *entry = image_add_entry(image, text, length);
    text = skip_space(text + length);
    if (!entry || *text != '(') {
        if (entry)
            entry->params = 0;
        return text;
    }
    entry->params = 0;
    do {
        text = read_declaration(text + 1, ",)", &param);
        if (param.size && !add_param(entry, &param, &offset))
            return text;
    } while (*text == ',');
    return text;
}

/* To the end of a body in braces, so that its local names are not taken for variables. */
static const char *skip_body(const char *text)
{
    int depth = 0;

    do {
        if (text[0] == '/' && (text[1] == '/' || text[1] == '*'))
            text = skip_space(text);
        if (!*text)
            break;
        depth += *text == '{' ? 1 : *text == '}' ? -1 : 0;
        ++text;
    } while (depth);
    return text;
}

CUresult ptx_read(const char *text, struct image *image)
{
    struct declaration global;
    bool is_ptx = false;

    for (text = skip_space(text); *text; text = skip_space(text)) {
        size_t length = token_length(text);
        if (!is_ptx && *text != '.')
            return CUDA_ERROR_INVALID_IMAGE;
        is_ptx = true;
        if (token_is(text, length, ".entry")) {
            text = read_entry(text + length, image);
        } else if (token_is(text, length, ".global") || token_is(text, length, ".const")) {
            text = read_declaration(text + length, ";=", &global);
            if (global.name && global.size) {
                struct variable *variable = image_add_variable(image, global.name, global.length, global.size);
                if (variable)
                    variable->managed = global.managed;
            }
            text += strcspn(text, ";");
        } else if (*text == '{') {
            text = skip_body(text);
        } else {
            text += length;
        }
    }
    return is_ptx ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}
