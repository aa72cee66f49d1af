#include "ungranted.h"

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* A launch may be admitted by the words before the last decision, until the arbiter has written those of it. */
static bool could_begin(const struct ungranted *u, const struct ungranted_look *look)
{
    return look->is_free || u->could[0] || u->could[1] || look->elapsed_ns > UNGRANTED_LATE_NS;
}

static void forgive(struct ungranted *u)
{
    u->fresh_ns = u->doubtful_ns = 0;
}

/* What no sum that sank has explained for so long is taken for what it seems. */
static void age(struct ungranted *u, uint64_t now)
{
    if (now - u->turned_ns < UNGRANTED_DOUBT_NS)
        return;
    u->turned_ns = now;
    u->total_ns += u->doubtful_ns;
    u->doubtful_ns = u->fresh_ns;
    u->fresh_ns = 0;
}

static void begin_anew(struct ungranted *u, uint64_t inflight_ns)
{
    u->total_ns += u->fresh_ns + u->doubtful_ns;
    forgive(u);
    u->least_ns = inflight_ns;
    u->sank = false;
}

void ungranted_begin(struct ungranted *u, uint64_t now)
{
    *u = (struct ungranted){.could = {true, true}, .turned_ns = now};
}

void ungranted_note(struct ungranted *u, const struct ungranted_look *look)
{
    bool sank_before = u->sank;
    if (could_begin(u, look)) {
        begin_anew(u, look->inflight_ns);
        return;
    }
    u->least_ns += look->joined_ns;
    u->sank = look->inflight_ns < u->least_ns;
    u->least_ns = smaller(u->least_ns, look->inflight_ns);
    if (u->sank)
        forgive(u);
    else if (!sank_before)
        u->fresh_ns += smaller(look->used_ns, UNGRANTED_PIECE_NS);
    age(u, look->now_ns);
}

void ungranted_decided(struct ungranted *u, bool could)
{
    u->could[1] = u->could[0];
    u->could[0] = could;
}

bool ungranted_watches(const struct ungranted *u, uint64_t inflight_ns)
{
    return !u->could[0] && (inflight_ns || u->fresh_ns || u->doubtful_ns);
}
