/* For the tests of the engine: its size, and a process that kills itself between two stores of it. */
#include "engine/engine.h"

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static long steps_left = -1;

void engine_step_hook(void)
{
    if (steps_left > 0 && --steps_left == 0)
        kill(getpid(), SIGKILL);
}

size_t engine_probe_bytes(void)
{
    return sizeof(struct engine);
}

/* A little of everything, repeatable. */
static void busy_life(struct engine *engine)
{
    int a = engine_context_create(engine, 0, 11, 0), b = engine_context_create(engine, 0, 22, 0);
    int stream = engine_stream_create(engine, (uint32_t)a, ENGINE_NON_BLOCKING, 0);
    int event = engine_event_create(engine, (uint32_t)a);
    struct engine_work kernel = {.kind = ENGINE_KERNEL, .duration_ns = 700000}, copy = {.kind = ENGINE_COPY_IN, .duration_ns = 300};
    struct engine_work record = {.kind = ENGINE_RECORD, .event = (uint32_t)event}, wait = {.kind = ENGINE_WAIT};
    for (uint64_t i = 0; i < 6; i++) {
        engine_submit(engine, (uint32_t)a, (uint32_t)stream, &kernel, i * 200000, &wait.after);
        engine_submit(engine, (uint32_t)a, 0, &wait, i * 200000, NULL);
        engine_submit(engine, (uint32_t)a, 0, &copy, i * 200000, NULL);
        engine_submit(engine, (uint32_t)b, 0, &kernel, i * 200000, NULL);
        engine_submit(engine, (uint32_t)b, 0, &record, i * 200000, NULL);
    }
    engine_stream_destroy(engine, (uint32_t)a, (uint32_t)stream);
    engine_advance(engine, 5000000);
    engine_context_fail(engine, (uint32_t)b, 700, 5100000);
    engine_advance(engine, 30000000);
    engine_context_destroy(engine, (uint32_t)b, 30000000);
}

/* Run that life in a child that is killed at its `steps`th store. 1: it was, 0: it lived to its end, -1: something else. */
int engine_probe_die_at(struct engine *engine, long steps)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        steps_left = steps;
        busy_life(engine);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return 1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}
