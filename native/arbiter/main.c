/* gpupool-arbiter: divides each card's time between the allocations that the agent names on stdin.

   Commands, answers and events are lines with tabs between fields: docs/reference/arbiter.md. One thread; without a process that
   wants a card it sleeps until the next line. It ends with its stdin: only the agent knows what is shared. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bus_error.h"
#include "doorbell.h"
#include "events.h"
#include "process_table.h"
#include "report.h"
#include "share_service.h"

#define NONSENSE_NS 1000000000ull /* between two reports of one share */

static struct share *shares;
static struct card *cards;
static bool over;

/* --- cards --- */

static struct card *card_of(const uint8_t *uuid)
{
    struct card *card;
    for (card = cards; card; card = card->next)
        if (!memcmp(card->uuid, uuid, sizeof card->uuid))
            return card;
    card = calloc(1, sizeof *card);
    if (!card)
        return NULL;
    memcpy(card->uuid, uuid, sizeof card->uuid);
    card->due_ns = ARB_NEVER;
    card->next = cards;
    cards = card;
    return card;
}

static void release_card(struct card *card)
{
    if (--card->members)
        return;
    for (struct card **at = &cards; *at; at = &(*at)->next)
        if (*at == card) {
            *at = card->next;
            break;
        }
    free(card);
}

static void arm(void)
{
    uint64_t due = ARB_NEVER;
    for (const struct card *card = cards; card; card = card->next)
        due = card->due_ns < due ? card->due_ns : due;
    poll_wake_at(due);
}

static bool is_on(const struct share *s, const struct card *card)
{
    for (uint32_t d = 0; d < s->devices; d++)
        if (s->seat[d].card == card)
            return true;
    return false;
}

static void refresh(struct share *s)
{
    if (!share_refresh(s))
        return;
    for (uint32_t d = 0; d < s->devices; d++)
        arb_resize(&s->seat[d].member, share_limits(s, d));
    report("event\t%s\tlimits\t%llu", s->name, (unsigned long long)s->generation);
}

static void report_nonsense(const struct share *s, struct seat *seat, uint64_t now)
{
    if (!seat->member.nonsense || now < seat->nonsense_reported_ns + NONSENSE_NS)
        return;
    report("event\t%s\tnonsense\t%u", s->name, seat->member.nonsense);
    seat->member.nonsense = 0;
    seat->nonsense_reported_ns = now;
}

static void publish(struct share *s, const struct card *card, uint64_t now)
{
    for (uint32_t d = 0; d < s->devices; d++)
        if (s->seat[d].card == card) {
            share_publish_grant(s, d, now);
            report_nonsense(s, &s->seat[d], now);
        }
}

static void decide(struct card *card)
{
    uint64_t now = now_ns();
    for (struct share *s = shares; s; s = s->next)
        if (is_on(s, card)) {
            refresh(s);
            share_read_claims(s);
        }
    card->due_ns = arb_run(&card->arb, now);
    for (struct share *s = shares; s; s = s->next)
        if (is_on(s, card))
            publish(s, card, now);
}

static void decide_all_of(const struct share *s)
{
    for (uint32_t d = 0; d < s->devices; d++)
        if (s->seat[d].card)
            decide(s->seat[d].card);
}

static void decide_due(void)
{
    uint64_t now = now_ns();
    for (struct card *card = cards; card; card = card->next)
        if (card->due_ns <= now)
            decide(card);
}

/* --- shares --- */

static struct share *find(const char *name)
{
    for (struct share *s = shares; s; s = s->next)
        if (!strcmp(s->name, name))
            return s;
    return NULL;
}

static void leave_cards(struct share *s)
{
    for (uint32_t d = 0; d < s->devices; d++) {
        struct card *card = s->seat[d].card;
        if (!card)
            continue;
        arb_leave(&card->arb, &s->seat[d].member);
        s->seat[d].card = NULL;
        release_card(card);
    }
}

static bool join_cards(struct share *s)
{
    uint64_t now = now_ns();
    share_read_claims(s);
    for (uint32_t d = 0; d < s->devices; d++) {
        struct card *card = card_of(s->limits->device[d].uuid);
        if (!card)
            return false;
        card->members++;
        arb_join(&card->arb, &s->seat[d].member, share_limits(s, d), s->seat[d].member.seen, now);
        share_resume_sums(s, d);
        s->seat[d].card = card;
    }
    return true;
}

static void add(const char *name, const char *share_directory, const char *usage_directory)
{
    char why[256] = "";
    struct share *s = find(name) ? NULL : open_service(name, share_directory, usage_directory, why, sizeof why);
    if (!s) {
        report("error\tadd\t%s\t%s", name, *why ? why : "is there already");
        return;
    }
    s->next = shares;
    shares = s;
    if (!join_cards(s)) {
        shares = s->next;
        leave_cards(s);
        close_service(s);
        report("error\tadd\t%s\tno memory", name);
        return;
    }
    decide_all_of(s);
    report("ok\tadd\t%s", name);
}

static void remove_share(const char *name)
{
    struct share *s = find(name);
    if (!s) {
        report("error\tremove\t%s\tis not there", name);
        return;
    }
    for (struct share **at = &shares; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    leave_cards(s);
    close_service(s);
    for (struct card *card = cards; card; card = card->next)
        decide(card); /* the lease may be free now */
    report("ok\tremove\t%s", name);
}

/* --- what the agent asks --- */

static void show(const struct share *s, uint32_t d)
{
    const struct seat *seat = &s->seat[d];
    char uuid[33];
    uint32_t processes = 0;
    for (int i = 0; i < 16; i++)
        snprintf(uuid + 2 * i, 3, "%02x", seat->card->uuid[i]);
    for (const struct process *p = s->processes; p; p = p->next)
        processes++;
    report("share\t%s\t%u\t%s\t%u\t%llu\t%llu\t%lld\t%u\t%u\t%llu\t%llu\t%llu\t%llu\t%s", s->name, d, uuid, seat->member.limits.gpu_milli,
           (unsigned long long)seat->member.seen.charged_ns, (unsigned long long)seat->member.seen.inflight_ns,
           (long long)arb_owns(&seat->card->arb, &seat->member), (uint32_t)seat->member.word.holding, processes,
           (unsigned long long)seat->member.paid_ns, (unsigned long long)arb_flight(&seat->card->arb, &seat->member),
           (unsigned long long)seat->member.alone_ns, (unsigned long long)seat->member.ungranted.total_ns,
           s->damaged ? "damaged" : "whole");
}

/* All accounts up to this moment, since the agent compares them with other clocks. */
static void status(void)
{
    for (struct card *card = cards; card; card = card->next)
        decide(card);
    for (struct share *s = shares; s; s = s->next) {
        for (uint32_t d = 0; d < s->devices; d++)
            show(s, d);
    }
    report("ok\tstatus");
}

static void changed(const char *name)
{
    struct share *s = find(name);
    if (!s) {
        report("error\tchanged\t%s\tis not there", name);
        return;
    }
    share_wake_opened(s);
    decide_all_of(s);
    report("ok\tchanged\t%s", name);
}

static void obey(char *line)
{
    char *field[4] = {"", "", "", ""};
    for (int i = 0; i < 4 && line; i++)
        field[i] = strsep(&line, "\t");
    if (!strcmp(field[0], "add") && *field[1] && *field[3])
        add(field[1], field[2], field[3]);
    else if (!strcmp(field[0], "remove") && *field[1])
        remove_share(field[1]);
    else if (!strcmp(field[0], "changed") && *field[1])
        changed(field[1]);
    else if (!strcmp(field[0], "status"))
        status();
    else
        report("error\t%.32s\t\tnot a command: add, remove, changed, status", field[0]);
}

static void read_commands(void)
{
    static char text[16384];
    static size_t held;
    ssize_t size = read(STDIN_FILENO, text + held, sizeof text - 1 - held);
    if (size < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    over = size <= 0;
    held += over ? 0 : (size_t)size;
    text[held] = 0;
    char *line = text, *end;
    for (; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        obey(line);
    }
    held -= (size_t)(line - text);
    memmove(text, line, held);
    if (held == sizeof text - 1) {
        report("error\t\t\ta line is longer than %zu bytes", sizeof text);
        held = 0;
    }
}

static void handle(struct source *source, bool hung_up)
{
    struct share *s = source->share;
    (void)hung_up;
    switch (source->kind) {
    case SOURCE_COMMANDS:
        read_commands();
        return;
    case SOURCE_TIMER:
        poll_timer_seen();
        return; /* what is due is decided after every round */
    case SOURCE_DOORBELL:
        doorbell_accept(s);
        return;
    case SOURCE_PEER:
        if (doorbell_read((struct peer *)source))
            decide_all_of(s);
        return;
    case SOURCE_PROCESS:
        remove_process((struct process *)source);
        decide_all_of(s);
        return;
    }
}

/* Two descriptors for each process of each allocation; and short sleeps must be short. */
static void prepare(void)
{
    struct rlimit files;
    if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul);
    setpriority(PRIO_PROCESS, 0, -10); /* where it may: a late decision leaves the card idle */
}

int main(void)
{
    static struct source commands = {SOURCE_COMMANDS, STDIN_FILENO, NULL};
    prepare();
    report_start();
    if (!install_bus_error_guard() || !poll_start() || !poll_add(&commands)) {
        perror("gpupool-arbiter");
        return 1;
    }
    report("ready\t%u\t%d", FENCE_LAYOUT, (int)getpid());
    while (!over && poll_once(handle)) {
        decide_due();
        arm();
    }
    return over ? 0 : 1;
}
