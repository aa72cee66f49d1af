#include "job.h"

#include <inttypes.h>

enum kind { TEXT, INTEGER, TRUTH, SEATS };

struct field {
    const char *name;
    enum kind kind;
    size_t place;
    size_t given; /* of the bool that says it was there; 0: none is kept */
};

static const struct field FIELDS[] = {
#define AT(field) offsetof(struct job, field)
    {"id", TEXT, AT(id), 0},
    {"name", TEXT, AT(name), 0},
    {"state", TEXT, AT(state), 0},
    {"reason", TEXT, AT(reason), 0},
    {"share", TEXT, AT(share), 0},
    {"fence", TEXT, AT(fence), 0},
    {"fence_why", TEXT, AT(fence_why), 0},
    {"attach_socket", TEXT, AT(attach_socket), 0},
    {"generation", INTEGER, AT(generation), AT(has_generation)},
    {"started_ns", INTEGER, AT(started_ns), 0},
    {"ended_ns", INTEGER, AT(ended_ns), 0},
    {"exit_code", INTEGER, AT(exit_code), AT(has_exit_code)},
    {"signal", INTEGER, AT(signal), AT(has_signal)},
    {"simulated", TRUTH, AT(simulated), 0},
    {"seats", SEATS, 0, 0},
#undef AT
};

static void seat_member(struct json *json, struct slice name, void *context)
{
    struct job *job = context;
    struct slice value = {"", 0};
    bool device = slice_is(name, "device");

    if ((device || (slice_is(name, "model") && job->seats == 0)) && json_peek(json) == JSON_STRING) {
        json_string(json, &value);
        if (!device)
            job->model = value;
        else {
            text_string(&job->cards, job->seats ? ", " : "");
            text_slice_add(&job->cards, value);
        }
    } else
        json_skip(json);
}

static void seat_element(struct json *json, struct slice name, void *context)
{
    struct job *job = context;

    (void)name;
    json_object(json, seat_member, job);
    job->seats++;
}

static void read_field(struct json *json, const struct field *field, struct job *job)
{
    char *place = (char *)job + field->place;
    enum json_kind kind = json_peek(json);

    if (field->kind == TEXT && kind == JSON_STRING)
        json_string(json, (struct slice *)place);
    else if (field->kind == INTEGER && kind == JSON_NUMBER) {
        if (json_integer(json, (int64_t *)place) && field->given)
            *((bool *)job + field->given) = true;
    } else if (field->kind == TRUTH) {
        *(bool *)place = kind == JSON_TRUE;
        json_skip(json);
    } else if (field->kind == SEATS && kind == JSON_ARRAY)
        json_array(json, seat_element, job);
    else
        json_skip(json);
}

static void job_member(struct json *json, struct slice name, void *context)
{
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++)
        if (slice_is(name, FIELDS[i].name)) {
            read_field(json, &FIELDS[i], context);
            return;
        }
    json_skip(json);
}

static void submitted_member(struct json *json, struct slice name, void *context)
{
    struct submitted *submitted = context;
    enum json_kind kind = json_peek(json);

    if (slice_is(name, "first") && kind == JSON_OBJECT)
        json_object(json, job_member, &submitted->first);
    else if (slice_is(name, "array") && kind == JSON_STRING)
        json_string(json, &submitted->array);
    else if (slice_is(name, "count") && kind == JSON_NUMBER)
        json_integer(json, &submitted->count);
    else
        json_skip(json);
}

static const char *missing(const struct job *job)
{
    if (job->cards.failed)
        return "seats";
    if (!job->id.at || !job->name.at)
        return !job->id.at ? "id" : "name";
    return !job->state.at ? "state" : !job->has_generation ? "generation" : NULL;
}

static struct text take_over(struct text *body)
{
    struct text taken = *body;

    *body = (struct text){0};
    return taken;
}

const char *job_read(struct job *job, struct text *body)
{
    struct job found = {.answer = take_over(body)};
    struct json json = json_over(&found.answer);
    bool good = json_object(&json, job_member, &found) && json_end(&json);
    const char *fault = good ? missing(&found) : "";

    if (fault)
        job_free(&found);
    else {
        job_free(job);
        *job = found;
    }
    return fault;
}

const char *submitted_read(struct submitted *submitted, struct text *body)
{
    *submitted = (struct submitted){.first = {.answer = take_over(body)}, .count = 1};
    struct json json = json_over(&submitted->first.answer);
    bool good = json_object(&json, submitted_member, submitted) && json_end(&json);
    const char *fault = !good ? "" : !submitted->first.id.at ? "first" : missing(&submitted->first);

    if (fault)
        job_free(&submitted->first);
    return fault;
}

void job_free(struct job *job)
{
    text_free(&job->answer);
    text_free(&job->cards);
    *job = (struct job){0};
}

bool job_has_ended(const struct job *job)
{
    static const char *const ENDED[] = {"done", "failed", "stopped", "lost"};

    for (size_t i = 0; i < sizeof ENDED / sizeof *ENDED; i++)
        if (slice_is(job->state, ENDED[i]))
            return true;
    return false;
}

int job_exit_code(const struct job *job)
{
    if (job->has_exit_code)
        return (int)job->exit_code;
    if (job->has_signal)
        return 128 + (int)job->signal;
    return slice_is(job->state, "done") ? 0 : 1;
}

void job_grant_line(const struct job *job, struct text *line)
{
    text_slice_add(line, job->share);
    text_string(line, " on ");
    text_slice_add(line, text_slice(&job->cards));
    text_string(line, " (");
    text_slice_add(line, job->seats ? job->model : slice_of("--"));
    text_string(line, job->simulated ? ", SIMULATED) · fence: " : ") · fence: ");
    text_slice_add(line, job->fence);
    if (job->fence_why.length) {
        text_string(line, " (");
        text_slice_add(line, job->fence_why);
        text_string(line, ")");
    }
}

/* `0:04`, `3:05:00`, `2d 3:05:00`: what a clock would show (units.format_duration). */
static void add_duration(struct text *line, int64_t ns)
{
    int64_t whole = ns > 0 ? ns / 1000000000 : 0, days = whole / 86400, rest = whole % 86400;

    if (days)
        text_format(line, "%" PRId64 "d ", days);
    if (days || rest >= 3600)
        text_format(line, "%" PRId64 ":%02" PRId64 ":%02" PRId64, rest / 3600, rest / 60 % 60, rest % 60);
    else
        text_format(line, "%" PRId64 ":%02" PRId64, rest / 60, rest % 60);
}

void job_end_line(const struct job *job, struct text *line)
{
    text_slice_add(line, job->state);
    text_string(line, " after ");
    add_duration(line, job->ended_ns - job->started_ns);
    if (job->has_signal)
        text_format(line, ", signal %" PRId64, job->signal);
    else if (job->exit_code)
        text_format(line, ", exit code %" PRId64, job->exit_code);
}
