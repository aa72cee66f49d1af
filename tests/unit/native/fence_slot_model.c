/* Every interleaving of the slot protocol: the shipped ledger.c and process_id.c, run by a small scheduler.

   Each access of shared memory and each look at /proc is a point at which any other process may go on, or at which one that the
   scenario allows to die is killed. All states are visited once: a state is the region, what each process really holds, and the
   live part of each process's stack. Region: 2 slots, 1 card.

   Checked in every state: what living processes hold is at most the limit; a living process that was told that it has a slot still
   has it, with what it holds charged there. Checked at every end: the slots of the dead can be cleared by one that
   comes later, and then the ledger is what the living hold.

   fence_slot_model [SCENARIO...]  prints "NAME states STATES ends ENDS", or the fault and the steps that lead to it; x86-64 alone.

   Built and run by test_fence_slot_model.py. */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void point(const char *what);

#undef atomic_load
#undef atomic_store
#undef atomic_exchange
#undef atomic_fetch_add
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_weak
#define atomic_load(p) (point("load " #p), atomic_load_explicit(p, memory_order_seq_cst))
#define atomic_store(p, v) (point("store " #p), atomic_store_explicit(p, v, memory_order_seq_cst))
#define atomic_exchange(p, v) (point("exchange " #p), atomic_exchange_explicit(p, v, memory_order_seq_cst))
#define atomic_fetch_add(p, v) (point("add " #p), atomic_fetch_add_explicit(p, v, memory_order_seq_cst))
#define atomic_compare_exchange_strong(p, e, v) \
    (point("swap " #p), atomic_compare_exchange_strong_explicit(p, e, v, memory_order_seq_cst, memory_order_seq_cst))
#define atomic_compare_exchange_weak atomic_compare_exchange_strong

struct proc_stat;
static int look_at_model(int pid, struct proc_stat *line);
#define PROCESS_ID_LOOK_AT look_at_model

#include "process/ledger.c"
#include "process/process_id.c"

enum { ACTORS = 5, STACK = 2048, LIMIT = 5, DEEPEST = 4000 };

struct actor {
    void *sp;
    uint64_t is_there, is_dead, may_die, is_done, has_slot;
    int64_t pid, start, slot;
    uint64_t namespace, image, held;
    struct process_id self;
    _Alignas(16) char stack[STACK];
};

/* All that a state is; copied whole to go back to it. */
static struct world {
    struct fence_usage usage;
    struct actor actor[ACTORS];
} world;

struct scenario {
    const char *name;
    void (*script[ACTORS])(struct actor *);
    bool may_die[ACTORS], is_dead[ACTORS];
    uint64_t namespace[ACTORS];
    int pid[ACTORS];
};

static const struct scenario *scenario;

static struct actor *running;
static uint64_t late_namespace; /* of the one that comes at the end */
static void *scheduler_sp;
static const char *last_point;
static uint64_t states, ends;

/* --- switching --- */

__attribute__((naked, noinline)) static void switch_stack(void **from, void **to)
{
    __asm__("push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
            "mov %rsp, (%rdi); mov (%rsi), %rsp\n"
            "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; ret");
}

static void point(const char *what)
{
    if (!running)
        return; /* the check at the end */
    last_point = what;
    switch_stack(&running->sp, &scheduler_sp);
}

static void begin(void)
{
    scenario->script[running - world.actor](running);
    running->is_done = true;
    for (;;)
        point("done");
}

static void prepare(struct actor *actor)
{
    void **top = (void **)(actor->stack + STACK) - 2;
    memset(actor->stack, 0, STACK);
    *top = (void *)begin; /* returned into with the stack as after a call */
    actor->sp = top - 6;
}

/* --- processes --- */

static int look_at_model(int pid, struct proc_stat *line)
{
    uint64_t namespace = running ? running->namespace : late_namespace;
    point("look at a process");
    for (int i = 0; i < ACTORS; i++) {
        const struct actor *actor = &world.actor[i];
        if (!actor->is_there || actor->is_dead || actor->pid != pid || actor->namespace != namespace)
            continue;
        *line = (struct proc_stat){.pid = pid, .state = 'R', .threads = 1, .start_ticks = (uint64_t)actor->start, .stack_start = actor->image};
        return 0;
    }
    return ESRCH;
}

static void describe_self(struct actor *actor)
{
    uint64_t word = make_owner_word(actor->pid, (uint64_t)actor->start, actor->namespace);
    actor->self = (struct process_id){word, actor->namespace, actor->image};
}

static void kill_actor(struct actor *actor)
{
    actor->is_dead = true;
    actor->has_slot = false;
    actor->held = 0;
    memset(actor->stack, 0, STACK);
}

/* As enter_slot() of state.c. */
static bool enter(struct actor *actor)
{
    describe_self(actor);
    int slot = ledger_take_slot(&world.usage, FENCE_MAX_SLOTS, actor->self.owner, actor->namespace, actor->image);
    if (slot < 0 && ledger_clear_dead(&world.usage, actor->self.owner, is_dead_process, &actor->self))
        slot = ledger_take_slot(&world.usage, FENCE_MAX_SLOTS, actor->self.owner, actor->namespace, actor->image);
    if (slot >= 0) {
        actor->slot = slot;
        actor->has_slot = true;
    }
    ledger_clear_dead(&world.usage, actor->self.owner, is_own_past, &actor->self);
    return slot >= 0;
}

/* The driver gives between the reservation and the commit. */
static void allocate(struct actor *actor, uint64_t bytes)
{
    enum ledger_answer answer = ledger_reserve(&world.usage, (uint32_t)actor->slot, 0, bytes, LIMIT);
    if (answer == LEDGER_WAITING)
        ledger_cancel(&world.usage, (uint32_t)actor->slot, 0, bytes);
    if (answer != LEDGER_GRANTED)
        return;
    point("the driver gives");
    actor->held += bytes;
    ledger_commit(&world.usage, (uint32_t)actor->slot, 0, bytes);
}

static void release(struct actor *actor)
{
    uint64_t bytes = actor->held;
    actor->held = 0;
    ledger_release(&world.usage, (uint32_t)actor->slot, 0, bytes);
}

static void reaper(struct actor *actor)
{
    describe_self(actor);
    ledger_clear_dead(&world.usage, actor->self.owner, is_dead_process, &actor->self);
}

static void tenant(struct actor *actor)
{
    if (enter(actor))
        allocate(actor, 4);
}

static void guest(struct actor *actor)
{
    if (!enter(actor))
        return;
    allocate(actor, 4);
    release(actor);
}

static void newcomer(struct actor *actor)
{
    enter(actor);
}

/* What it held is gone from the card with the exec; its slot is found by its own past. */
static void executer(struct actor *actor)
{
    tenant(actor);
    point("exec");
    actor->has_slot = false;
    actor->held = 0;
    actor->image++;
    tenant(actor);
}

/* As people_leave() of the arbiter, which knows of the first process's end by its pidfd. */
static void arbiter(struct actor *actor)
{
    uint64_t owner = make_owner_word(world.actor[0].pid, (uint64_t)world.actor[0].start, world.actor[0].namespace);
    (void)actor;
    for (uint32_t i = 0; i < FENCE_MAX_SLOTS; i++)
        if (world.actor[0].is_dead)
            ledger_clear_slot(&world.usage, i, owner, FENCE_OWNER_REAPING);
}

static const struct scenario SCENARIOS[] = {
    /* The fault that was there: a second reaper takes the slot from the first, which lives and goes on. */
    {"two-reapers", {tenant, reaper, reaper, tenant}, {0, 1}, {1}, {0}, {0}},
    {"reaper-dies", {tenant, reaper, tenant, newcomer}, {0, 1}, {1}, {0}, {0}},
    {"dies-anywhere", {tenant, reaper, tenant}, {1, 0}, {0}, {0}, {0}},
    {"dies-anywhere-two-reapers", {guest, reaper, reaper}, {1, 1}, {0}, {0}, {0}},
    {"race-at-the-limit", {guest, guest, tenant}, {1}, {0}, {0}, {0}},
    {"exec", {executer, reaper}, {1}, {0}, {0}, {0}},
    {"exec-beside-a-tenant", {executer, tenant}, {0}, {0}, {0}, {0}},
    {"arbiter-and-reaper", {tenant, arbiter, reaper, tenant}, {0, 0, 1}, {1}, {0}, {0}},
    {"two-namespaces", {guest, reaper, tenant}, {1, 0}, {0}, {1, 2, 2}, {7, 8, 9}},
    {"same-pid-in-two-namespaces", {tenant, tenant, reaper}, {1}, {0}, {1, 2, 2}, {7, 7, 9}},
};

/* --- what must hold --- */

static const char *fault(void)
{
    uint64_t held = 0;
    for (int i = 0; i < ACTORS; i++) {
        const struct actor *actor = &world.actor[i];
        const struct fence_slot *slot = &world.usage.slot[actor->slot];
        held += actor->held;
        if (!actor->has_slot)
            continue;
        if (slot->owner != actor->self.owner)
            return "a living process has lost its slot";
        if (slot->device[0].committed_bytes + slot->device[0].pending_bytes < actor->held)
            return "a living process holds more than its slot says";
    }
    return held > LIMIT ? "more is held than the limit" : NULL;
}

/* One that comes when all others rest or are dead, in each namespace. */
static const char *fault_at_the_end(void)
{
    struct world kept = world;
    uint64_t held = 0, slots = 0;
    for (int i = 0; i < ACTORS; i++) {
        held += world.actor[i].held;
        slots += world.actor[i].has_slot;
    }
    for (late_namespace = 1; late_namespace <= 2; late_namespace++) {
        struct process_id late = {make_owner_word(99, 1, late_namespace), late_namespace, 1};
        ledger_clear_dead(&world.usage, late.owner, is_dead_process, &late);
    }
    uint64_t used = ledger_used(&world.usage, 0);
    for (uint32_t i = 0; i < FENCE_MAX_SLOTS; i++)
        slots -= world.usage.slot[i].owner != 0;
    world = kept;
    if (used != held)
        return used < held ? "the ledger says less than what is held" : "memory of the dead stays charged";
    return slots ? "a slot of the dead stays taken" : NULL;
}

/* --- every order --- */

static uint64_t mix(uint64_t hash, const void *from, size_t size)
{
    const uint64_t *word = from;
    for (size_t i = 0; i < size / sizeof *word; i++) {
        hash = (hash ^ word[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

/* Below its stack pointer a stack holds what is over. */
static uint64_t hash_state(void)
{
    uint64_t hash = mix(1469598103934665603u, &world.usage, sizeof world.usage);
    for (int i = 0; i < ACTORS; i++) {
        const struct actor *actor = &world.actor[i];
        if (!actor->is_there)
            continue;
        hash = mix(hash, actor, offsetof(struct actor, stack) / 8 * 8);
        if (!actor->is_dead && !actor->is_done)
            hash = mix(hash, actor->sp, (size_t)(actor->stack + STACK - (char *)actor->sp));
    }
    return hash ? hash : 1;
}

static uint64_t *seen;
static size_t seen_room = 1 << 16;

static bool put(uint64_t *table, size_t room, uint64_t hash)
{
    size_t at = hash & (room - 1);
    for (; table[at]; at = (at + 1) & (room - 1))
        if (table[at] == hash)
            return false;
    table[at] = hash;
    return true;
}

static bool is_new(uint64_t hash)
{
    if (states * 2 >= seen_room) {
        uint64_t *larger = calloc(seen_room * 2, sizeof *larger);
        for (size_t i = 0; i < seen_room; i++)
            if (seen[i])
                put(larger, seen_room * 2, seen[i]);
        free(seen);
        seen = larger;
        seen_room *= 2;
    }
    return put(seen, seen_room, hash);
}

static struct step {
    struct world before;
    int actor; /* the choice that is tried next: twice ACTORS, the upper half kills */
    const char *what;
} *path;

static void step(int choice)
{
    struct actor *actor = &world.actor[choice % ACTORS];
    if (choice >= ACTORS) {
        kill_actor(actor);
        last_point = "is killed";
        return;
    }
    running = actor;
    switch_stack(&scheduler_sp, &actor->sp);
    running = NULL;
}

static bool can(int choice)
{
    const struct actor *actor = &world.actor[choice % ACTORS];
    if (!actor->is_there || actor->is_dead)
        return false;
    return choice < ACTORS ? !actor->is_done : actor->may_die;
}

static bool rests(void)
{
    for (int i = 0; i < ACTORS; i++)
        if (can(i))
            return false;
    return true;
}

static int tell(const char *what, int depth)
{
    printf("%s FAULT: %s\n", scenario->name, what);
    for (int i = 0; i <= depth; i++)
        printf("  %d %s\n", (path[i].actor - 1) % ACTORS, path[i].what);
    return 1;
}

static int explore(void)
{
    int depth = 0;
    path[0].before = world;
    path[0].actor = 0;
    while (depth >= 0) {
        struct step *at = &path[depth];
        if (at->actor >= 2 * ACTORS) {
            depth--;
            continue;
        }
        world = at->before;
        int choice = at->actor++;
        if (!can(choice))
            continue;
        step(choice);
        at->what = last_point;
        const char *wrong = fault();
        if (wrong)
            return tell(wrong, depth);
        if (!is_new(hash_state()))
            continue;
        states++;
        if (rests()) {
            ends++;
            if ((wrong = fault_at_the_end()))
                return tell(wrong, depth);
        }
        if (depth + 1 == DEEPEST)
            return tell("deeper than expected", depth);
        path[++depth].before = world;
        path[depth].actor = 0;
    }
    printf("%s states %lu ends %lu\n", scenario->name, states, ends);
    return 0;
}

static void run_alone(struct actor *actor)
{
    running = actor;
    while (!actor->is_done)
        switch_stack(&scheduler_sp, &actor->sp);
    running = NULL;
}

static int run(const char *name)
{
    for (size_t i = 0; i < sizeof SCENARIOS / sizeof *SCENARIOS; i++)
        if (!strcmp(SCENARIOS[i].name, name))
            scenario = &SCENARIOS[i];
    if (!scenario || strcmp(scenario->name, name))
        return fprintf(stderr, "no scenario %s\n", name), 2;
    memset(&world, 0, sizeof world);
    seen = calloc(seen_room, sizeof *seen);
    states = ends = 0;
    for (int i = 0; i < ACTORS && scenario->script[i]; i++) {
        struct actor *actor = &world.actor[i];
        actor->is_there = true;
        actor->may_die = scenario->may_die[i];
        actor->namespace = scenario->namespace[i] ? scenario->namespace[i] : 1;
        actor->pid = scenario->pid[i] ? scenario->pid[i] : 10 + i;
        actor->start = 1;
        actor->image = 10 + (uint64_t)i;
        prepare(actor);
        if (scenario->is_dead[i]) { /* it had a slot and memory when it died */
            run_alone(actor);
            kill_actor(actor);
        }
    }
    int failed = explore();
    free(seen);
    return failed;
}

int main(int count, char **names)
{
    path = malloc(DEEPEST * sizeof *path);
    int failed = 0;
    if (count == 1)
        for (size_t i = 0; i < sizeof SCENARIOS / sizeof *SCENARIOS; i++)
            failed |= run(SCENARIOS[i].name);
    for (int i = 1; i < count; i++)
        failed |= run(names[i]);
    return failed;
}
