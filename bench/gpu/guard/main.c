/* Five questions to a real card and its stock driver, before a guard is built on the answers: see README.md.

   THIS PROGRAM HAS NOT MET HARDWARE. It was compiled, its watcher was tried on files that are no driver (--self-test), and
   its refusals were tried. Touches only channel groups of processes that it started itself, changes no setting of the card,
   and each question stops at the first answer it did not expect, putting back what it had changed. Each is asked three times, in a
   process of its own. */
#define _GNU_SOURCE
#include "cuda_load.h"
#include "runlist.h"
#include "tenant.h"
#include "truth.h"
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define DRIVER_FILES "/dev/nvidia"
#define SECONDS 2.0
#define SHORT_SECONDS 1.0
#define PATIENCE 60
#define QUESTION_SECONDS 30
#define TURNS 3
#define LONGER 8 /* times its own time slice */

enum { YES = 0, STOPPED = 1, REFUSED = 2 };

struct pair {
    struct tenant tenant[2];
    struct watch watch[2];
    struct group group[2];
};

static int stopped(const char *what, const char *why)
{
    printf("{\"question\": \"%s\", \"answer\": \"stopped\", \"why\": \"%s\"}\n", what, why);
    return STOPPED;
}

static int refuse(const char *why)
{
    fprintf(stderr, "guard: %s\n", why);
    return REFUSED;
}

/* c: what does watching cost a program that starts? */
static int question_cost(void)
{
    double plain, seen;
    uint64_t notified;
    struct tenant alone, watched;
    struct watch watch;
    if (tenant_start(&alone, false, NULL) || !tenant_until(&alone, STEP_CONTEXT, PATIENCE))
        return stopped("cost", alone.page->error);
    plain = (double)atomic_load(&alone.page->start_ns) / 1e6;
    tenant_end(&alone);
    if (tenant_start(&watched, true, NULL) ||
        watch_begin(&watch, watched.pid, watched.channel, WATCH_OBSERVE, DRIVER_FILES) ||
        !tenant_until(&watched, STEP_CONTEXT, PATIENCE))
        return stopped("cost", watched.page->error);
    seen = (double)atomic_load(&watched.page->start_ns) / 1e6;
    notified = watch.ledger.notified;
    tenant_end(&watched);
    watch_end(&watch);
    printf("{\"question\": \"cost\", \"plain_ms\": %.1f, \"watched_ms\": %.1f, \"notified\": %lu, \"microseconds_each\": %.2f}\n",
           plain, seen, (unsigned long)notified, notified ? (seen - plain) * 1e3 / (double)notified : 0.0);
    return YES;
}

static void tell_requests(const struct ledger *ledger)
{
    printf("\"requests\": {");
    const char *comma = "";
    for (int n = 0; n < 256; n++)
        if (ledger->requests[n]) {
            printf("%s\"0x%02x\": %lu", comma, (unsigned)n, (unsigned long)ledger->requests[n]);
            comma = ", ";
        }
    printf("}, \"not_understood\": %lu, \"wrapped\": %lu, \"emulated\": %lu, \"emulated_failed\": %lu",
           (unsigned long)ledger->not_understood, (unsigned long)ledger->wrapped, (unsigned long)ledger->emulated,
           (unsigned long)ledger->emulated_failed);
}

/* a: does the count of allocating requests say what the card says? `files` and `file` are another driver's in the self-test. */
static int question_count(enum watch_mode mode, const char *files, const char *file)
{
    const char *name = mode == WATCH_EMULATE ? "count-emulated" : "count-observed";
    static struct watch watch;
    struct tenant tenant;
    uint64_t counted[3], card[3] = {0};
    bool card_says = true;
    if (tenant_start(&tenant, true, file) || watch_begin(&watch, tenant.pid, tenant.channel, mode, files))
        return stopped(name, "no listener: a kernel before 5.14, or a filter of somebody else's");
    for (int n = 0; n < 3; n++) {
        if (!tenant_until(&tenant, STEP_CONTEXT + n, PATIENCE)) {
            tenant_end(&tenant);
            return stopped(name, tenant.page->error);
        }
        pthread_mutex_lock(&watch.lock);
        counted[n] = watch.ledger.bytes;
        pthread_mutex_unlock(&watch.lock);
        card_says = truth_memory_of(tenant.pid, &card[n]) && card_says;
    }
    const uint64_t asked = tenant.page->held_bytes;
    tenant_end(&tenant);
    watch_end(&watch);
    const bool exact = counted[1] - counted[0] == asked && counted[2] == counted[0] && !watch.ledger.emulated_failed;
    printf("{\"question\": \"%s\", \"answer\": \"%s\", \"asked_bytes\": %lu, \"counted_bytes\": [%lu, %lu, %lu], ", name,
           exact ? "yes" : "no", (unsigned long)asked, (unsigned long)counted[0], (unsigned long)counted[1],
           (unsigned long)counted[2]);
    if (card_says)
        printf("\"card_says_bytes\": [%lu, %lu, %lu], ", (unsigned long)card[0], (unsigned long)card[1], (unsigned long)card[2]);
    tell_requests(&watch.ledger);
    printf("}\n");
    return exact ? YES : STOPPED;
}

static void rates(struct pair *pair, double seconds, double rate[2])
{
    uint64_t before[2];
    for (int n = 0; n < 2; n++)
        before[n] = atomic_load(&pair->tenant[n].page->kernels);
    rate[0] = tenant_rate(&pair->tenant[0], seconds);
    rate[1] = (double)(atomic_load(&pair->tenant[1].page->kernels) - before[1]) / seconds;
}

static void tell_rates(const char *what, const double rate[2], int status)
{
    printf("{\"question\": \"run-list\", \"step\": \"%s\", \"status\": %d, \"kernels_per_second\": [%.1f, %.1f], \"first_part\": %.3f}\n",
           what, status, rate[0], rate[1], rate[0] + rate[1] > 0 ? rate[0] / (rate[0] + rate[1]) : 0.0);
    fflush(stdout);
}

static bool step(struct pair *pair, const char *what, int status, double seconds)
{
    double rate[2];
    rates(pair, seconds, rate);
    tell_rates(what, rate, status);
    return status == 0;
}

/* Longer slices for the first, then none at all for it; each without the commit, with it, and put back. */
static bool move_time(struct pair *pair, uint64_t slice)
{
    const struct watch *first = &pair->watch[0];
    const struct group *mine = &pair->group[0], *other = &pair->group[1];
    bool well = step(pair, "longer slices, not committed", runlist_set_timeslice(first, mine, slice * LONGER), SHORT_SECONDS) &&
                step(pair, "longer slices, committed", runlist_commit(first, mine), SECONDS);
    int back = runlist_set_timeslice(first, mine, slice);
    back = back ? back : runlist_commit(first, mine);
    if (!step(pair, "slices put back", back, SECONDS) || !well)
        return false;
    well = step(pair, "taken off, not committed", runlist_schedule(first, mine, false), SHORT_SECONDS) &&
           step(pair, "taken off, committed", runlist_commit(&pair->watch[1], other), SECONDS);
    back = runlist_schedule(first, mine, true);
    back = back ? back : runlist_commit(first, mine);
    return step(pair, "put on again", back, SECONDS) && well;
}

/* b: can the run list be moved from outside, judged by what two equal programs get? */
static int question_run_list(void)
{
    static struct pair pair;
    uint64_t slice = 0;
    for (int n = 0; n < 2; n++)
        if (tenant_start(&pair.tenant[n], true, NULL) ||
            watch_begin(&pair.watch[n], pair.tenant[n].pid, pair.tenant[n].channel, WATCH_OBSERVE, DRIVER_FILES) ||
            !tenant_until(&pair.tenant[n], STEP_SPINS, PATIENCE) || !runlist_group(&pair.watch[n], &pair.group[n]))
            return stopped("run-list", *pair.tenant[n].page->error ? pair.tenant[n].page->error : "no compute group was seen");
    bool well = step(&pair, "as it is", runlist_get_timeslice(&pair.watch[0], &pair.group[0], &slice), SECONDS);
    printf("{\"question\": \"run-list\", \"timeslice_us\": %lu}\n", (unsigned long)slice);
    well = well && slice && move_time(&pair, slice);
    for (int n = 0; n < 2; n++) {
        tenant_end(&pair.tenant[n]);
        watch_end(&pair.watch[n]);
    }
    return well ? YES : stopped("run-list", "a call did not answer 0; see the steps");
}

/* d: does malloc's memory move to the card uncounted? */
static int question_hmm(void)
{
    char setting[16] = "";
    int access = -1;
    const char *problem = truth_read("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm", setting, sizeof setting)
                              ? cuda_pageable(&access)
                              : "nvidia_uvm has no parameter uvm_disable_hmm";
    printf("{\"question\": \"hmm\", \"uvm_disable_hmm\": \"%s\", \"pageable_memory_access\": %d, \"why\": \"%s\"}\n", setting,
           access, problem ? problem : "");
    return YES;
}

static int self_test(void)
{
    return question_count(WATCH_OBSERVE, "/dev/null", "/dev/null");
}

static int question_observed(void)
{
    return question_count(WATCH_OBSERVE, DRIVER_FILES, NULL);
}

static int question_emulated(void)
{
    return question_count(WATCH_EMULATE, DRIVER_FILES, NULL);
}

static const struct {
    const char *name;
    int (*ask)(void);
    bool watches; /* needs to be told of another program's system calls */
} QUESTIONS[] = {
    {"cost", question_cost, true},
    {"count-observed", question_observed, true},
    {"count-emulated", question_emulated, true},
    {"hmm", question_hmm, false},
    {"run-list", question_run_list, true},
};

/* seccomp_unotify(2): since Linux 5.0, and not inside every container. */
static bool has_notification(void)
{
    struct seccomp_notif_sizes sizes;
    return !syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes);
}

/* In a process group of its own and for so long at most: whatever becomes of one question, the others are asked. */
static int ask_alone(const char *name, int (*ask)(void))
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        alarm(QUESTION_SECONDS);
        exit(ask());
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return stopped(name, "no process to ask it in");
    kill(-child, SIGKILL); /* what it started */
    return WIFEXITED(status) ? WEXITSTATUS(status) : stopped(name, "it took too long or died");
}

/* The first program on a card that was idle starts slowly: that is not what is asked. */
static int warm_up(void)
{
    struct tenant first;
    bool well = !tenant_start(&first, false, NULL) && tenant_until(&first, STEP_CONTEXT, PATIENCE);
    tenant_end(&first);
    return well ? YES : STOPPED;
}

static int all(void)
{
    bool notification = has_notification();
    int worst = YES;
    ask_alone("warm-up", warm_up);
    for (int turn = 1; turn <= TURNS; turn++) {
        printf("{\"turn\": %d, \"of\": %d}\n", turn, TURNS);
        for (size_t i = 0; i < sizeof QUESTIONS / sizeof *QUESTIONS; i++) {
            if (QUESTIONS[i].watches && !notification) {
                printf("{\"question\": \"%s\", \"answer\": \"not answerable here\", \"why\": \"no seccomp notification\"}\n",
                       QUESTIONS[i].name);
                continue;
            }
            int answer = ask_alone(QUESTIONS[i].name, QUESTIONS[i].ask);
            worst = answer > worst ? answer : worst;
        }
    }
    return worst;
}

int main(int count, char **words)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* children must not inherit half a line */
    if (count == 2 && !strcmp(words[1], "--self-test"))
        return self_test();
    if (count != 1)
        return refuse("usage: guard [--self-test]");
    if (access("/dev/nvidiactl", F_OK))
        return refuse("no /dev/nvidiactl: this needs a machine with an NVIDIA card and its stock driver");
    if (geteuid())
        return refuse("not root: the run list's commit needs CAP_SYS_NICE, and the copies of descriptors CAP_SYS_PTRACE");
    if (truth_others() > 0)
        return refuse("other processes are on the card: they would be slowed, so nothing is tried");
    return all();
}
