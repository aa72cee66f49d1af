/* Random calls of every function of the engine, checked after each hundred; run under the sanitizers. Repeatable. */
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define CONTEXTS 12u

static uint64_t state = 88172645463325252ull;

static uint32_t roll(uint32_t sides)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % sides;
}

struct storm {
    struct engine *engine;
    uint64_t now;
    struct engine_ticket some[64];
};

static struct engine_work some_work(struct storm *storm)
{
    return (struct engine_work){
        .kind = roll(12), .width_milli = roll(1002), .duration_ns = roll(3000000), .launches = roll(5),
        .event = roll(4) ? roll(8) : ENGINE_NO_EVENT, .after = storm->some[roll(64)]};
}

static void submit(struct storm *storm)
{
    struct engine_work work = some_work(storm);
    engine_submit(storm->engine, roll(CONTEXTS), roll(6), &work, storm->now, &storm->some[roll(64)]);
}

static void run_hosts(struct storm *storm)
{
    uint64_t cookie;
    struct engine_ticket ticket;
    for (uint32_t c = 0; c < CONTEXTS; c++)
        while (engine_host_ready(storm->engine, c, &cookie, &ticket))
            engine_release(storm->engine, &ticket, storm->now);
}

static void rare(struct storm *storm)
{
    struct engine *e = storm->engine;
    uint32_t context = roll(CONTEXTS);
    switch (roll(8)) {
    case 0: engine_context_create(e, roll(5), 1 + roll(9), storm->now); break;
    case 1: engine_stream_create(e, context, roll(2), -(int32_t)roll(7)); break;
    case 2: engine_stream_destroy(e, context, roll(6)); break;
    case 3: engine_event_create(e, context); break;
    case 4: engine_event_destroy(e, context, roll(9)); break;
    case 5: if (!roll(20)) engine_context_destroy(e, context, storm->now); break;
    case 6: if (!roll(40)) engine_context_fail(e, context, 700, storm->now); break;
    default: if (!roll(30)) engine_repair(e);
    }
}

static void look(struct storm *storm)
{
    const struct engine_ticket *ticket = &storm->some[roll(64)];
    uint64_t next = engine_next_event(storm->engine), bound = engine_bound(storm->engine, ticket);
    if (!engine_done(storm->engine, ticket) && bound < next)
        abort();
    storm->now += roll(400000);
    engine_advance(storm->engine, storm->now);
    if (engine_next_event(storm->engine) <= storm->now)
        abort();
}

int main(int argc, char **argv)
{
    struct storm storm = {.now = 0};
    struct engine_config config = {.mode = roll(2), .cards = 4, .switch_ns = 1000};
    long rounds = argc > 1 ? atol(argv[1]) : 1000;
    storm.engine = mmap(NULL, sizeof *storm.engine, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (storm.engine == MAP_FAILED)
        return 2;
    engine_init(storm.engine, &config, 0);
    for (long i = 0; i < rounds; i++) {
        void (*act[])(struct storm *) = {submit, submit, submit, submit, rare, run_hosts, look};
        if (i % 5000 == 0)
            storm.engine->config.mode = i % 10000 ? ENGINE_TOGETHER : ENGINE_TIME_SLICE;
        act[roll(7)](&storm);
        const char *wrong = i % 100 == 0 ? engine_check(storm.engine) : NULL;
        if (wrong) {
            fprintf(stderr, "call %ld: %s\n", i, wrong);
            return 1;
        }
    }
    return 0;
}
