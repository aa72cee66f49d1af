#include "submission.h"

#include <inttypes.h>
#include <string.h>

#include "common/json.h"
#include "launch.h"
#include "units.h"

static bool is_alnum(char sign)
{
    return (sign >= 'a' && sign <= 'z') || (sign >= 'A' && sign <= 'Z') || (sign >= '0' && sign <= '9');
}

/* The shape of an id, which no name may have: `j-4k9x2m7q8w` (base/ids.py). */
static bool is_id(const char *text)
{
    return strlen(text) == 12 && text[0] >= 'a' && text[0] <= 'z' && text[1] == '-' &&
           strspn(text + 2, "0123456789abcdefghjkmnpqrstvwxyz") == 10;
}

static bool is_name(const char *text)
{
    size_t length = strlen(text);

    if (length < 1 || length > 63 || !is_alnum(text[0]) || !is_alnum(text[length - 1]) || is_id(text))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!is_alnum(text[i]) && !strchr("._-", text[i]))
            return false;
    return true;
}

static void quoted(struct text *body, const char *string)
{
    json_quote_ascii(body, slice_of(string));
}

/* `--label a=1 --label b=2 --label a=3` is {"a": "3", "b": "2"}: a name keeps its first place and its last value. */
static bool add_labels(const struct options *options, struct text *body)
{
    struct slice names[LABELS_MAX];
    const char *values[LABELS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < options->label_count; i++) {
        const char *equals = strchr(options->labels[i], '=');
        size_t length = equals ? (size_t)(equals - options->labels[i]) : 0, at = 0;
        if (length == 0)
            return false;
        while (at < count && !(names[at].length == length && memcmp(names[at].at, options->labels[i], length) == 0))
            at++;
        if (at == count)
            names[count++] = (struct slice){options->labels[i], length};
        values[at] = equals + 1;
    }
    for (size_t i = 0; i < count; i++) {
        text_string(body, i == 0 ? ",\"labels\":{" : ",");
        json_quote_ascii(body, names[i]);
        text_string(body, ":");
        quoted(body, values[i]);
    }
    text_string(body, count ? "}" : "");
    return true;
}

static bool add_shape(const struct options *options, struct text *body)
{
    const char *sharing = options->sharing;
    bool unpromised = sharing && (strcmp(sharing, "best-effort") == 0 || strcmp(sharing, "offline") == 0);
    int64_t milli = WHOLE, cards = 0, count = 0, bytes;

    if (sharing && strcmp(sharing, "fixed") != 0 && strcmp(sharing, "burst") != 0 && !unpromised)
        return false;
    if (!options->gpu && options->memory && !unpromised)
        return false;
    if (options->gpu && !units_gpu(options->gpu, &milli, &cards))
        return false;
    if (options->count && (cards || !units_number(options->count, 1, 100000, &count)))
        return false;
    count = cards ? cards : count ? count : 1;
    text_format(body, "{\"gpu_milli\":%" PRId64 ",\"count\":%" PRId64, milli, count);
    if (sharing)
        text_format(body, ",\"sharing\":\"%s\"", sharing);
    if (options->memory) {
        if (!units_memory(options->memory, &bytes) || strlen(options->memory) > 32)
            return false;
        text_format(body, ",\"memory_bytes\":%" PRId64 ",\"memory_typed\":\"%s\"", bytes, options->memory);
    }
    if (options->model) {
        text_string(body, ",\"model\":");
        quoted(body, options->model);
    }
    bool good = add_labels(options, body);
    text_string(body, "}");
    return good;
}

static bool add_name(struct text *body, const char *field, const char *name)
{
    if (!name)
        return true;
    text_format(body, ",\"%s\":\"%s\"", field, is_name(name) ? name : "");
    return is_name(name);
}

static bool add_priority(struct text *body, const char *priority)
{
    int64_t rank;

    if (!priority)
        return true;
    if (units_number(priority, 0, 999999, &rank))
        text_format(body, ",\"priority\":%" PRId64, rank);
    else if (*priority && priority[strspn(priority, "abcdefghijklmnopqrstuvwxyz")] == '\0')
        text_format(body, ",\"priority\":\"%s\"", priority);
    else
        return false;
    return true;
}

static bool add_numbers(struct text *body, const struct options *options)
{
    int64_t seconds, jobs;

    if (options->max_time) {
        if (!units_duration(options->max_time, &seconds))
            return false;
        text_format(body, ",\"max_seconds\":%" PRId64, seconds);
    }
    if (options->array) {
        if (!units_number(options->array, 1, 1000000, &jobs))
            return false;
        text_format(body, ",\"array\":%" PRId64, jobs);
    }
    return true;
}

bool build_submission(const struct options *options, char **environment, struct text *body)
{
    text_string(body, "{\"shape\":");
    if (!add_shape(options, body))
        return false;
    text_format(body, ",\"attached\":%s,\"wait\":%s,\"fence\":%s", options->command == COMMAND_RUN ? "true" : "false",
                options->no_wait ? "false" : "true", options->no_fence ? "false" : "true");
    if (!add_name(body, "name", options->name) || !add_name(body, "tenant", options->tenant) ||
        !add_name(body, "project", options->project) || !add_priority(body, options->priority) ||
        !add_numbers(body, options))
        return false;
    text_string(body, ",\"launch\":");
    bool good = capture_launch(options->words, options->word_count, environment, body);
    text_string(body, "}");
    return good && !body->failed;
}
