#include "bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "common/json.h"

enum { PIECE = 1 << 16 };

bool read_whole(int file, struct text *text)
{
    for (;;) {
        char *room = text_reserve(text, PIECE);
        ssize_t got = room ? read(file, room, PIECE) : -1;
        if (got < 0 && errno == EINTR && room)
            continue;
        if (got <= 0)
            return got == 0;
        text->length += (size_t)got;
    }
}

static void bundle_member(struct json *json, struct slice name, void *bundle)
{
    if (slice_is(name, "bundle"))
        json_string(json, bundle);
    else
        json_skip(json);
}

static void pid_member(struct json *json, struct slice name, void *pid)
{
    if (slice_is(name, "pid"))
        json_integer(json, pid);
    else
        json_skip(json);
}

static void path_member(struct json *json, struct slice name, void *path)
{
    if (slice_is(name, "path"))
        json_string(json, path);
    else
        json_skip(json);
}

static void root_member(struct json *json, struct slice name, void *path)
{
    if (slice_is(name, "root"))
        json_object(json, path_member, path);
    else
        json_skip(json);
}

/* The string that `member` finds in this object; none where the text is no such object. */
static struct slice string_in(struct text *text, json_member *member)
{
    struct slice found = {0};
    struct json json = json_over(text);

    return json_object(&json, member, &found) && json_end(&json) ? found : (struct slice){0};
}

static const char *read_root(struct slice bundle, struct text *config, struct text *root)
{
    struct text place = {0};

    text_slice_add(&place, bundle);
    text_string(&place, "/config.json");
    int file = open(text_c(&place), O_RDONLY | O_CLOEXEC);
    text_free(&place);
    if (file < 0)
        return "the bundle has no config.json";
    bool whole = read_whole(file, config);
    close(file);
    struct slice path = whole ? string_in(config, root_member) : (struct slice){0};
    if (!path.length)
        return "config.json of the bundle names no root";
    if (*path.at != '/') {
        text_slice_add(root, bundle);
        text_string(root, "/");
    }
    text_slice_add(root, path);
    return NULL;
}

const char *bundle_root(int state, struct text *root)
{
    struct text state_text = {0}, config = {0};
    const char *problem = "the state of the container names no bundle";

    if (read_whole(state, &state_text)) {
        struct slice bundle = string_in(&state_text, bundle_member);
        if (bundle.length)
            problem = read_root(bundle, &config, root);
    }
    text_free(&state_text);
    text_free(&config);
    return problem;
}

int64_t bundle_pid(int state)
{
    struct text text = {0};
    int64_t pid = 0;
    bool whole = read_whole(state, &text);
    struct json json = json_over(&text);

    whole = whole && json_object(&json, pid_member, &pid) && json_end(&json);
    text_free(&text);
    return whole ? pid : 0;
}
