/* Many processes on one ledger, for tests and bench: races at the limit, and deaths at every numbered step.

   storm race REGION PROCESSES MILLISECONDS LIMIT      prints: granted refused racing undecided most over
   storm kill REGION PROCESSES KILLS LIMIT             prints: kills rounds steps_hit slowest_us wrong
   storm init REGION PROCESSES                         prints: registered slowest_us

   The truth is kept beside the ledger, by the same processes: what each really holds. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "process/ledger.h"
#include "process/process_id.h"

#define STEPS 17
#define WORKERS 512
#define TRIES 500 /* about two seconds */

struct worker {
    _Atomic uint64_t held;
    _Atomic int slot, is_resting, is_past_exec;
    int die_at, die_after; /* step and how often it is passed before; 0: lives */
};

static struct {
    _Atomic uint64_t truth, most, over, granted, refused, racing, undecided, slowest_ns;
    _Atomic int steps_hit[STEPS + 1], stop, started, registered;
    struct worker worker[WORKERS];
} *common;

static struct fence_usage *usage;
static struct worker *own;

static uint32_t chance(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Between any two steps another process may run, also on a machine with few cores. */
void storm_step(int number)
{
    static uint32_t random = 1;
    if (own && chance(&random) % 8 == 0)
        sched_yield();
    if (!own || !number || own->die_at != number || own->die_after-- > 0)
        return;
    common->steps_hit[number]++;
    kill(getpid(), SIGKILL);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void keep_most(_Atomic uint64_t *most, uint64_t value)
{
    uint64_t seen = *most;
    while (value > seen && !atomic_compare_exchange_weak(most, &seen, value))
        ;
}

static void nap(int try)
{
    struct timespec time = {0, try < 250 ? try * 20000L : 5000000L};
    if (try < 4)
        sched_yield();
    else
        nanosleep(&time, NULL);
}

static bool clear_dead(struct process_id *self)
{
    static unsigned int refusals;
    return refusals++ % 16 == 0 && ledger_clear_dead(usage, self->owner, is_dead_process, self);
}

static bool reserve(struct process_id *self, uint32_t slot, uint64_t bytes, uint64_t limit)
{
    enum ledger_answer answer = LEDGER_RACING;
    for (int try = 0; try < TRIES; try++) {
        answer = answer == LEDGER_WAITING ? ledger_decide(usage, slot, 0, bytes, limit)
                                          : ledger_reserve(usage, slot, 0, bytes, limit);
        if (answer == LEDGER_GRANTED)
            return true;
        if (answer == LEDGER_REFUSED && !clear_dead(self))
            return false;
        if (try == 8)
            ledger_clear_dead(usage, self->owner, is_dead_process, self); /* one of those may be dead, as in account.c */
        common->racing++;
        nap(try);
    }
    if (answer == LEDGER_WAITING)
        ledger_cancel(usage, slot, 0, bytes);
    common->undecided++;
    return false;
}

static int enter(struct process_id *self)
{
    *self = read_process_id();
    return ledger_take_slot(usage, FENCE_MAX_SLOTS, self->owner, self->pid_namespace, self->image);
}

/* The card gives memory between the reservation and the commit, takes it back before the release. */
static void allocate(struct process_id *self, uint32_t slot, uint64_t bytes, uint64_t limit)
{
    if (!reserve(self, slot, bytes, limit)) {
        common->refused++;
        return;
    }
    storm_step(0); /* the driver takes its time */
    uint64_t truth = atomic_fetch_add(&common->truth, bytes) + bytes;
    keep_most(&common->most, truth);
    if (truth > limit)
        keep_most(&common->over, truth - limit);
    ledger_commit(usage, slot, 0, bytes);
    own->held += bytes;
    common->granted++;
}

static void give_back(uint32_t slot, uint64_t bytes)
{
    atomic_fetch_sub(&common->truth, bytes);
    ledger_release(usage, slot, 0, bytes);
    own->held -= bytes;
}

static void work(int number, uint64_t limit, int turns)
{
    struct process_id self;
    uint32_t random = (uint32_t)(number * 7919 + getpid());
    uint64_t piece[8] = {0};
    own = &common->worker[number];
    int slot = enter(&self);
    own->slot = slot;
    for (int turn = 0; turns ? turn < turns : !common->stop; turn++) {
        uint64_t *one = &piece[chance(&random) % 8], bytes = (chance(&random) % 64 + 1) * limit / 200;
        if (*one) {
            give_back((uint32_t)slot, *one);
            *one = 0;
        } else {
            uint64_t before = own->held;
            allocate(&self, (uint32_t)slot, bytes, limit);
            *one = own->held - before;
        }
    }
    if (!turns)
        give_back((uint32_t)slot, own->held); /* a process that ends holds nothing of the card any more */
    own->is_resting = 1;
}

static int race(int processes, int milliseconds, uint64_t limit)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    for (int i = 0; i < processes; i++)
        if (!fork()) {
            work(i, limit, 0);
            _exit(0);
        }
    nanosleep(&time, NULL);
    common->stop = 1;
    while (wait(NULL) > 0)
        ;
    printf("%lu %lu %lu %lu %lu %lu\n", common->granted, common->refused, common->racing, common->undecided, common->most,
           common->over);
    return common->over != 0;
}

/* Whether the ledger says what the living hold, and nothing else. */
static int wrong(const pid_t *alive, int processes, int cards_of_dead)
{
    uint64_t held = 0;
    int faults = cards_of_dead;
    for (int i = 0; i < processes; i++) {
        if (!alive[i])
            continue;
        const struct fence_slot *slot = &usage->slot[common->worker[i].slot];
        held += common->worker[i].held;
        faults += pid_of_owner(slot->owner) != alive[i] || slot->device[0].pending_bytes ||
                  slot->device[0].committed_bytes != common->worker[i].held;
    }
    return faults + (ledger_used(usage, 0) != held);
}

static int slots_of_others(const pid_t *alive, int processes)
{
    int others = 0;
    for (uint32_t i = 0; i < ledger_high_water(usage); i++) {
        pid_t pid = pid_of_owner(usage->slot[i].owner);
        bool known = !usage->slot[i].owner;
        for (int j = 0; j < processes; j++)
            known |= alive[j] && alive[j] == pid;
        others += !known;
    }
    return others;
}

/* Until each worker is dead or rests. How many died. */
static int settle(pid_t *alive, int processes)
{
    int dead = 0;
    for (int left = processes; left;) {
        left = 0;
        for (int i = 0; i < processes; i++) {
            siginfo_t info = {0};
            if (!alive[i] || common->worker[i].is_resting)
                continue;
            left++;
            if (!waitid(P_PID, (id_t)alive[i], &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid) {
                alive[i] = 0;
                dead++;
            }
        }
        sched_yield();
    }
    return dead;
}

static void start_round(pid_t *pids, int processes, int round, uint64_t limit)
{
    memset(common->worker, 0, sizeof common->worker);
    for (int i = 0; i < processes; i++) {
        struct worker *worker = &common->worker[i];
        worker->die_at = i % 4 == 3 ? 0 : (round * processes + i) % STEPS + 1;
        worker->die_after = worker->die_at <= 7 ? 0 : i % 5; /* the first seven are passed once, if at all */
        pids[i] = fork();
        if (!pids[i]) {
            work(i, limit, 40);
            pause();
        }
    }
}

static int end_round(const pid_t *pids, int processes)
{
    for (int i = 0; i < processes; i++)
        kill(pids[i], SIGKILL);
    while (wait(NULL) > 0)
        ;
    return 0;
}

static int kills(int processes, int wanted, uint64_t limit)
{
    pid_t pids[WORKERS], alive[WORKERS];
    struct process_id self = read_process_id();
    int dead = 0, rounds = 0, faults = 0, hit = 0;
    for (; dead < wanted && rounds < wanted; rounds++) {
        start_round(pids, processes, rounds, limit);
        memcpy(alive, pids, sizeof alive);
        dead += settle(alive, processes);
        uint64_t before = now_ns();
        ledger_clear_dead(usage, self.owner, is_dead_process, &self); /* the dead are zombies still, as under a busy parent */
        keep_most(&common->slowest_ns, now_ns() - before);
        faults += wrong(alive, processes, slots_of_others(alive, processes));
        end_round(pids, processes);
        ledger_clear_dead(usage, self.owner, is_dead_process, &self);
        faults += ledger_used(usage, 0) != 0;
    }
    for (int i = 1; i <= STEPS; i++)
        hit += common->steps_hit[i] != 0;
    printf("%d %d %d %lu %d\n", dead, rounds, hit, common->slowest_ns / 1000, faults);
    return faults || dead < wanted;
}

/* All at one moment: how long a slot takes to get when everybody wants one. */
static int init(int processes)
{
    for (int i = 0; i < processes; i++)
        if (!fork()) {
            struct process_id self;
            common->started++;
            while (!common->stop)
                sched_yield();
            uint64_t before = now_ns();
            bool entered = enter(&self) >= 0;
            keep_most(&common->slowest_ns, now_ns() - before);
            atomic_fetch_add(&common->truth, now_ns() - before);
            common->registered += entered;
            pause();
        }
    while (common->started < processes)
        sched_yield();
    common->stop = 1;
    while (common->registered < processes)
        sched_yield();
    signal(SIGTERM, SIG_IGN);
    kill(0, SIGTERM);
    while (wait(NULL) > 0)
        ;
    printf("%d %lu %lu\n", common->registered, common->truth / 1000, common->slowest_ns / 1000);
    return 0;
}

int main(int count, char **word)
{
    int file = count > 3 ? open(word[2], O_RDWR) : -1;
    common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    usage = mmap(NULL, sizeof *usage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (usage == MAP_FAILED || common == MAP_FAILED)
        return fprintf(stderr, "storm race|kill|init REGION PROCESSES ...\n"), 2;
    setpgid(0, 0);
    int processes = atoi(word[3]);
    if (!strcmp(word[1], "init"))
        return init(processes);
    uint64_t limit = strtoull(word[5], NULL, 10);
    return !strcmp(word[1], "race") ? race(processes, atoi(word[4]), limit) : kills(processes, atoi(word[4]), limit);
}
