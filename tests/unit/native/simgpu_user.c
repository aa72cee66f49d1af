/* A process that uses a simulated machine as it is told, a command a line: for tests with real processes that are real to kill.
   usage: simgpu-user MACHINE. Answers a line to each command. */
#include "machine/machine.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct sim sim;
static _Atomic int stop;
static char *path;

struct arguments {
    unsigned long a, b, c, d, e;
};

static uint32_t context_on(unsigned long card)
{
    uint32_t context = ENGINE_CONTEXTS;
    int problem = sim_context(&sim, (uint32_t)card, &context);
    if (problem)
        printf("context %d ", problem);
    return context;
}

static void answer(long long value)
{
    printf("%lld\n", value);
    fflush(stdout);
}

static int submit(unsigned long card, uint32_t kind, uint64_t ns, unsigned long count)
{
    uint32_t context = context_on(card);
    struct engine_work work = {.kind = kind, .duration_ns = ns};
    int problem = 0;
    for (unsigned long i = 0; i < count && !problem; i++)
        problem = sim_submit(&sim, context, 0, &work, NULL);
    return problem;
}

static void *run_hosts(void *unused)
{
    uint64_t cookie;
    struct engine_ticket ticket;
    while (sim_wait_host(&sim, &stop, &cookie, &ticket))
        sim_release(&sim, &ticket);
    return unused;
}

static void *wait_in_thread(void *unused)
{
    sim_wait_context(&sim, sim.self->context[0] - 1u);
    return unused;
}

static void wait_with_threads(unsigned long count)
{
    pthread_t threads[16];
    for (unsigned long i = 0; i < count && i < 16; i++)
        pthread_create(&threads[i], NULL, wait_in_thread, NULL);
    for (unsigned long i = 0; i < count && i < 16; i++)
        pthread_join(threads[i], NULL);
}

static void with_host_thread(unsigned long card, uint64_t ns)
{
    pthread_t thread;
    context_on(card);
    pthread_create(&thread, NULL, run_hosts, NULL);
    submit(card, ENGINE_KERNEL, ns, 1);
    submit(card, ENGINE_HOST, 0, 1);
    submit(card, ENGINE_KERNEL, ns, 1);
    answer(sim_wait_context(&sim, context_on(card)));
    stop = 1;
    sim_wake(&sim);
    pthread_join(thread, NULL);
    stop = 0;
}

/* Until it is killed. */
static void storm(void)
{
    uint32_t context = context_on(0);
    struct engine_work work = {.kind = ENGINE_KERNEL, .duration_ns = 3000};
    answer(0);
    for (;;) {
        sim_charge(&sim, 0, SIM_DEVICE, 4096);
        sim_submit(&sim, context, 0, &work, NULL);
        sim_uncharge(&sim, 0, SIM_DEVICE, 4096);
    }
}

static long charge_until_full(unsigned long card, uint64_t bytes)
{
    long count = 0;
    while (!sim_charge(&sim, (uint32_t)card, SIM_DEVICE, bytes))
        count++;
    return count;
}

static void fork_child(void)
{
    fflush(stdout);
    if (fork() == 0) {
        sim_forget(&sim);
        answer(sim_charge(&sim, 0, SIM_DEVICE, 1) ? sim_attach(&sim, 0) : 1);
        pause();
    }
}

static void poll_until_done(unsigned long card)
{
    uint32_t context = context_on(card);
    struct engine *engine = sim_lock(&sim);
    struct engine_ticket last = engine_last(engine, context, 0);
    sim_unlock(&sim);
    int done = 0, error = 0;
    while (!done && !error)
        error = sim_query(&sim, context, &last, &done);
    answer(error);
}

static void obey(const char *command, struct arguments x)
{
    const char *wrong;
    if (!strcmp(command, "context")) answer(context_on(x.a));
    else if (!strcmp(command, "close")) { sim_context_close(&sim, (uint32_t)x.a); answer(0); }
    else if (!strcmp(command, "charge")) answer(sim_charge(&sim, (uint32_t)x.a, (uint32_t)x.b, x.c));
    else if (!strcmp(command, "uncharge")) { sim_uncharge(&sim, (uint32_t)x.a, (uint32_t)x.b, x.c); answer(0); }
    else if (!strcmp(command, "fill")) answer(charge_until_full(x.a, x.b));
    else if (!strcmp(command, "free")) answer((long long)sim_free(&sim, (uint32_t)x.a));
    else if (!strcmp(command, "submit")) answer(submit(x.a, ENGINE_KERNEL, x.b, x.c ? x.c : 1));
    else if (!strcmp(command, "copy")) answer(submit(x.a, ENGINE_COPY_IN, x.b, 1));
    else if (!strcmp(command, "wait")) answer(sim_wait_context(&sim, context_on(x.a)));
    else if (!strcmp(command, "threads")) { wait_with_threads(x.a); answer(0); }
    else if (!strcmp(command, "poll")) poll_until_done(x.a);
    else if (!strcmp(command, "host")) with_host_thread(x.a, x.b);
    else if (!strcmp(command, "now")) answer((long long)sim_now(&sim));
    else if (!strcmp(command, "cards")) answer(sim.count);
    else if (!strcmp(command, "error")) answer(sim_card_error(&sim, (uint32_t)x.a));
    else if (!strcmp(command, "reap")) answer(sim_reap(&sim));
    else if (!strcmp(command, "repairs")) answer(sim.machine->header.repairs);
    else if (!strcmp(command, "detach")) { sim_detach(&sim); answer(0); }
    else if (!strcmp(command, "attach")) answer(sim_attach(&sim, (uint32_t)x.a));
    else if (!strcmp(command, "lock")) { sim_lock(&sim); answer(0); }
    else if (!strcmp(command, "unlock")) { sim_unlock(&sim); answer(0); }
    else if (!strcmp(command, "touch")) { sim_lock(&sim); sim_unlock(&sim); answer(0); }
    else if (!strcmp(command, "storm")) storm();
    else if (!strcmp(command, "fork")) fork_child();
    else if (!strcmp(command, "exec")) { execl("/proc/self/exe", "simgpu-user", path, (char *)NULL); answer(-1); }
    else if (!strcmp(command, "inject")) {
        struct sim_fault fault = {.card = (uint32_t)x.a, .xid = (uint32_t)x.b, .error = (uint32_t)x.c,
                                  .pid = (uint32_t)x.d, .kind = (uint32_t)x.e};
        answer(sim_inject(&sim, &fault));
    }
    else if (!strcmp(command, "check")) {
        sim_lock(&sim);
        wrong = engine_check(&sim.machine->engine);
        sim_unlock(&sim);
        printf("%s\n", wrong ? wrong : "0");
        fflush(stdout);
    }
    else { printf("what is %s?\n", command); fflush(stdout); }
}

int main(int argc, char **argv)
{
    char line[256], command[32];
    path = argc > 1 ? argv[1] : NULL;
    int problem = sim_open(&sim, path && *path ? path : NULL);
    answer(problem);
    while (!problem && fgets(line, sizeof line, stdin)) {
        struct arguments x = {0};
        if (sscanf(line, "%31s %lu %lu %lu %lu %lu", command, &x.a, &x.b, &x.c, &x.d, &x.e) >= 1)
            obey(command, x);
    }
    sim_close(&sim);
    return problem ? 1 : 0;
}
