#include "arbitrate.h"

#include <stddef.h>

#define ARB_CLAIM_MAX_NS 60000000000ull /* in flight: a claim above this is nonsense */
#define ARB_WEIGHT_UNIT 1000u

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool capped(const struct arb_member *m)
{
    return m->limits.sharing == FENCE_FIXED;
}

static bool promised(const struct arb_member *m)
{
    return m->limits.sharing != FENCE_BEST_EFFORT && m->limits.sharing != FENCE_OFFLINE && m->limits.gpu_milli > 0;
}

static bool is_offline(const struct arb_member *m)
{
    return m->limits.sharing == FENCE_OFFLINE;
}

static int64_t inflight(const struct arb_member *m)
{
    return (int64_t)earlier(m->seen.inflight_ns, ARB_CLAIM_MAX_NS);
}

/* The balance once all that is in flight is paid. */
static int64_t net(const struct arb_member *m)
{
    return m->balance_ns - inflight(m);
}

static bool wants(const struct arb_member *m)
{
    return m->seen.waiters > 0 && !m->deaf;
}

static bool idle(const struct arb_member *m)
{
    return m->seen.waiters == 0 && m->seen.inflight_ns == 0;
}

/* A fixed share of the whole card never asks for a lease; what it has in flight shows that it runs. */
static bool is_free(const struct arb_member *m)
{
    return capped(m) && m->limits.gpu_milli >= 1000;
}

static bool runs_unasked(const struct arb_member *m)
{
    return is_free(m) && m->seen.inflight_ns > 0;
}

static bool others_want(const struct arb_card *card, const struct arb_member *but)
{
    for (const struct arb_member *m = card->members; m; m = m->next)
        if (m != but && (wants(m) || runs_unasked(m)))
            return true;
    return false;
}

/* Whether a member that the holder delays has a right to the time: an offline one has none beside others. */
static bool is_owed(const struct arb_card *card, const struct arb_member *holder)
{
    for (const struct arb_member *m = card->members; m; m = m->next)
        if (m != holder && (wants(m) || runs_unasked(m)) && (is_offline(holder) || !is_offline(m)))
            return true;
    return false;
}

/* An allocation wants the card when it waits or works on its own lease. Work that outlasts its lease is no claim to the card. */
static bool is_contested(const struct arb_card *card, const struct arb_member *m)
{
    bool held = card->holder && card->holder != m && card->holder->seen.inflight_ns > 0;
    return held || others_want(card, m);
}

/* --- what was used --- */

/* A charge is settled when its work was seen finished. A total that went back is a broken claim, except for the moment
   between a process's two stores. */
static int64_t newly_settled(struct arb_member *m)
{
    uint64_t settled = m->seen.charged_ns - earlier(m->seen.charged_ns, m->seen.inflight_ns);
    if (settled >= m->settled_ns) {
        uint64_t more = earlier(settled - m->settled_ns, ARB_CLAIM_MAX_NS);
        m->settled_ns = settled;
        return (int64_t)more;
    }
    if (m->settled_ns - settled > (uint64_t)ARB_LAG_NS) {
        m->settled_ns = settled;
        m->nonsense++;
    }
    return 0;
}

/* No more than the wall clock in which it had the lease or something in flight. */
static int64_t bounded_by_clock(struct arb_member *m, bool held, int64_t used, int64_t elapsed)
{
    m->clamp_ns += held || m->busy ? (uint64_t)elapsed : 0;
    m->busy = m->seen.inflight_ns != 0;
    if (!m->busy && used == 0)
        m->clamp_ns = earlier(m->clamp_ns, ARB_CLAMP_NS);
    used = smaller(used, (int64_t)earlier(m->clamp_ns, INT64_MAX));
    m->clamp_ns -= (uint64_t)used;
    return used;
}

static void pay(struct arb_card *card, struct arb_member *m, int64_t used)
{
    m->paid_ns += (uint64_t)used;
    if (promised(m) && !(card->leftover && card->holder == m))
        m->balance_ns -= used;
    else
        m->virtual_ns += (uint64_t)used * ARB_WEIGHT_UNIT / (m->limits.weight ? m->limits.weight : 1);
}

/* Only an allocation that was kept waiting may own more than an idle one may save. */
static int64_t most_saved(const struct arb_card *card, const struct arb_member *m)
{
    bool borrows = card->leftover && card->holder == m;
    return idle(m) || borrows ? ARB_DEPTH_NS : ARB_DEPTH_NS + ARB_LAG_NS * m->limits.gpu_milli / 1000;
}

static void earn(const struct arb_card *card, struct arb_member *m, int64_t elapsed)
{
    if (!promised(m)) {
        m->balance_ns = 0;
        return;
    }
    m->balance_ns = smaller(m->balance_ns + elapsed * m->limits.gpu_milli / 1000, larger(most_saved(card, m), m->balance_ns));
}

/* While others with a right to it wait, a lease is paid for at least as long as it is held, less a small gap. */
static void pay_for_holding(struct arb_card *card, int64_t used, int64_t elapsed)
{
    struct arb_member *h = card->holder;
    if (!is_owed(card, h))
        return;
    card->held_ns += elapsed;
    card->debited_ns += used;
    int64_t unpaid = card->held_ns - ARB_GAP_NS - card->debited_ns;
    if (unpaid <= 0)
        return;
    card->debited_ns += unpaid;
    h->prepaid_ns += unpaid;
    pay(card, h, unpaid);
}

static int64_t beyond_prepaid(struct arb_member *m, int64_t used)
{
    int64_t covered = smaller(used, m->prepaid_ns);
    m->prepaid_ns -= covered;
    return used - covered;
}

static void rejoin(struct arb_card *card, struct arb_member *m)
{
    bool claims = !idle(m);
    if (claims && !m->claiming && m->virtual_ns < card->virtual_ns)
        m->virtual_ns = card->virtual_ns;
    m->claiming = claims;
    m->deaf = m->deaf && m->seen.waiters > 0 && m->seen.charged_ns == m->deaf_charged_ns;
}

/* Contested is what was contested at both ends: in between, a member that stops wanting the card may say nothing of it. */
static bool was_contested(const struct arb_card *card, const struct arb_member *m)
{
    return m->contested && is_contested(card, m);
}

/* Every share may borrow time that no other wants, except a fixed one. */
static void note_ungranted(const struct arb_card *card, struct arb_member *m, int64_t used, int64_t elapsed)
{
    bool counts = capped(m) || was_contested(card, m);
    struct ungranted_look look = {.now_ns = card->now_ns, .elapsed_ns = (uint64_t)elapsed, .inflight_ns = m->seen.inflight_ns,
                                  .joined_ns = m->joined_ns, .used_ns = counts ? (uint64_t)used : 0, .is_free = is_free(m)};
    m->joined_ns = 0;
    ungranted_note(&m->ungranted, &look);
}

static bool could_begin_work(const struct arb_card *card, const struct arb_member *m)
{
    return is_free(m) || (m->word.lease_until_ns > card->now_ns && m->settled_ns < m->word.granted_ns);
}

/* It waits with a right to the card: no debt, and nothing that could still be running. */
static bool waits_with_right(const struct arb_card *card, const struct arb_member *m)
{
    return wants(m) && m != card->holder && m->seen.inflight_ns == 0 && m->balance_ns >= 0;
}

static void compare_with_promise(const struct arb_card *card, struct arb_member *m, int64_t used, int64_t elapsed)
{
    bool waits = waits_with_right(card, m);
    int64_t most = promised(m) ? ARB_PROMISE_SPAN_NS * m->limits.gpu_milli / 1000 : 0;
    m->lead_ns += promised(m) ? elapsed * m->limits.gpu_milli / 1000 : 0;
    if (m->lead_ns > most) {
        m->denied_ns += waits && m->waited ? (uint64_t)(m->lead_ns - most) : 0;
        m->lead_ns = most;
    }
    m->lead_ns -= used;
    if (m->lead_ns < -most && !capped(m)) {
        m->borrowed_ns += (uint64_t)(-most - m->lead_ns);
        m->lead_ns = -most;
    }
    m->waited = waits;
}

static void account(struct arb_card *card, uint64_t now)
{
    int64_t elapsed = now > card->now_ns ? (int64_t)(now - card->now_ns) : 0;
    card->now_ns += (uint64_t)elapsed;
    for (struct arb_member *m = card->members; m; m = m->next) {
        int64_t settled = newly_settled(m);
        if (settled > 0 || m->seen.inflight_ns == 0)
            m->flight_since_ns = card->now_ns;
        int64_t measured = bounded_by_clock(m, m == card->holder, settled, elapsed);
        int64_t used = beyond_prepaid(m, measured);
        earn(card, m, elapsed);
        compare_with_promise(card, m, measured, elapsed);
        pay(card, m, used);
        if (m == card->holder)
            pay_for_holding(card, used, elapsed);
        m->alone_ns += was_contested(card, m) ? 0 : (uint64_t)elapsed;
        note_ungranted(card, m, used, elapsed);
        rejoin(card, m);
    }
}

/* --- the next holder --- */

static bool by_promise(const struct arb_member *m)
{
    return promised(m) && net(m) >= 0;
}

/* Nothing is left of a card that one allocation uses whole. */
static bool is_leftover(const struct arb_card *card)
{
    for (const struct arb_member *m = card->members; m; m = m->next)
        if (runs_unasked(m))
            return false;
    return true;
}

static bool may_run(const struct arb_card *card, const struct arb_member *m)
{
    return by_promise(m) || (!capped(m) && is_leftover(card));
}

/* Above 0: `a` is of a higher class than `b`. Every offline allocation is below all others; among equals priority counts. */
static int compare_classes(const struct arb_member *a, const struct arb_member *b)
{
    if (is_offline(a) != is_offline(b))
        return is_offline(b) ? 1 : -1;
    return (a->limits.priority > b->limits.priority) - (a->limits.priority < b->limits.priority);
}

/* Whether `a` goes before `b`; both may run. */
static bool before(const struct arb_member *a, const struct arb_member *b)
{
    if (by_promise(a) != by_promise(b))
        return by_promise(a);
    int higher = compare_classes(a, b);
    if (higher)
        return higher > 0;
    if (!by_promise(a))
        return a->virtual_ns != b->virtual_ns ? a->virtual_ns < b->virtual_ns : a->served < b->served;
    int64_t lag_a = net(a) * b->limits.gpu_milli, lag_b = net(b) * a->limits.gpu_milli;
    return lag_a != lag_b ? lag_a > lag_b : a->served < b->served;
}

/* The first of the members that wait and may run, and of `also` (may be NULL), whether it waits or not. */
static struct arb_member *first(const struct arb_card *card, const struct arb_member *also, const struct arb_member *but)
{
    struct arb_member *best = NULL;
    for (struct arb_member *m = card->members; m; m = m->next)
        if (m != but && (wants(m) || m == also) && may_run(card, m) && (!best || before(m, best)))
            best = m;
    return best;
}

/* --- the lease --- */

static bool runs_on_leftover(const struct arb_card *card, const struct arb_member *m)
{
    return !capped(m) && (!by_promise(m) || !others_want(card, m));
}

static uint64_t lease_length(const struct arb_card *card, const struct arb_member *m)
{
    return others_want(card, m) ? ARB_QUANTUM_NS : ARB_LONE_LEASE_NS;
}

/* A lone fixed allocation is held by what it may use, all others by the end of the lease. */
static int64_t allowance(const struct arb_card *card, const struct arb_member *m)
{
    if (!capped(m))
        return 2 * ARB_LONE_LEASE_NS;
    if (others_want(card, m))
        return larger(0, (int64_t)(card->until_ns - card->now_ns)) + ARB_CHUNK_NS;
    return larger(0, net(m) + ARB_CHUNK_NS);
}

static void top_up(const struct arb_card *card, struct arb_member *m)
{
    uint64_t granted = m->seen.charged_ns + (uint64_t)allowance(card, m);
    if (granted <= m->word.granted_ns)
        return;
    bool stuck = m->seen.charged_ns >= m->word.granted_ns;
    if (stuck && granted - m->seen.charged_ns < (uint64_t)ARB_STEP_NS)
        return;
    m->word.granted_ns = granted;
    m->word.wake |= stuck;
}

static void set_until(struct arb_card *card, uint64_t until)
{
    struct arb_member *h = card->holder;
    if (until > h->word.lease_until_ns)
        h->word.wake = true;
    card->until_ns = until;
    h->word.lease_until_ns = until;
    card->drain_by_ns = 0;
}

static void renew(struct arb_card *card, uint64_t from)
{
    struct arb_member *h = card->holder;
    card->leftover = runs_on_leftover(card, h);
    if (card->leftover && card->virtual_ns < h->virtual_ns)
        card->virtual_ns = h->virtual_ns;
    h->served = ++card->served;
    card->renewed_charged_ns = h->seen.charged_ns;
    set_until(card, from + lease_length(card, h));
    top_up(card, h);
}

static void give(struct arb_card *card, struct arb_member *m)
{
    card->holder = m;
    card->began_ns = card->now_ns;
    card->held_ns = card->debited_ns = 0;
    card->idle_since_ns = 0;
    m->word.wake = true;
    m->prepaid_ns = m->seen.inflight_ns ? m->prepaid_ns : 0;
    renew(card, card->now_ns);
}

static void take_back(struct arb_card *card)
{
    card->holder->word.lease_until_ns = 0;
    card->holder = NULL;
    card->until_ns = card->drain_by_ns = 0;
    card->leftover = false;
}

/* A waiting member has a stronger right than the holder: left-over time is given back at once. */
static bool must_yield(const struct arb_card *card, const struct arb_member *rival)
{
    if (!card->leftover)
        return false;
    if (is_offline(card->holder) && !is_leftover(card))
        return true;
    return rival && (by_promise(rival) || compare_classes(rival, card->holder) > 0);
}

static void shorten(struct arb_card *card, const struct arb_member *rival)
{
    uint64_t now = card->now_ns, end = card->began_ns + ARB_QUANTUM_NS;
    if (must_yield(card, rival))
        end = now;
    else if (!others_want(card, card->holder) || card->until_ns <= now + ARB_QUANTUM_NS)
        return;
    end = end > now ? end : now;
    if (end < card->until_ns)
        set_until(card, end);
}

/* Left out until it moves. */
static void is_deaf(struct arb_member *m)
{
    m->deaf = m->seen.waiters > 0;
    m->deaf_charged_ns = m->seen.charged_ns;
}

/* How long a holder may leave the card idle while another could run: a moment, or, when it waits, as long as its waking may take. */
static uint64_t patience(const struct arb_card *card)
{
    return idle(card->holder) ? ARB_LINGER_NS : ARB_DEAF_NS;
}

static bool lingers(struct arb_card *card, const struct arb_member *rival)
{
    struct arb_member *h = card->holder;
    if (h->seen.inflight_ns != 0 || h->seen.charged_ns != card->idle_charged_ns)
        card->idle_since_ns = 0;
    card->idle_charged_ns = h->seen.charged_ns;
    if (h->seen.inflight_ns != 0)
        return false;
    if (card->idle_since_ns == 0)
        card->idle_since_ns = card->now_ns;
    if (!rival || card->now_ns < card->idle_since_ns + patience(card))
        return false;
    is_deaf(h);
    return true;
}

static bool drained(struct arb_card *card)
{
    struct arb_member *h = card->holder;
    if (h->seen.inflight_ns == 0)
        return true;
    if (card->drain_by_ns == 0)
        card->drain_by_ns = card->now_ns + earlier((uint64_t)(inflight(h) + ARB_QUANTUM_NS), ARB_DRAIN_NS);
    if (card->now_ns < card->drain_by_ns)
        return false;
    is_deaf(h); /* stopped, or it runs far longer than predicted: the card's own slices divide it then */
    return true;
}

/* Whether the holder goes on after its lease: it used the lease, and no other member comes before it. */
static bool keeps(const struct arb_card *card)
{
    const struct arb_member *h = card->holder;
    if (idle(h) && h->seen.charged_ns == card->renewed_charged_ns)
        return false;
    return !others_want(card, h) || first(card, h, NULL) == h;
}

static void tend(struct arb_card *card)
{
    struct arb_member *h = card->holder, *rival = first(card, NULL, h);
    shorten(card, rival);
    if (lingers(card, rival)) {
        take_back(card);
        return;
    }
    uint64_t now = card->now_ns;
    if (now + ARB_RENEW_NS >= card->until_ns && !must_yield(card, rival) && keeps(card))
        renew(card, now > card->until_ns ? now : card->until_ns);
    if (now < card->until_ns)
        top_up(card, h);
    else if (drained(card))
        take_back(card);
}

/* --- when to look again --- */

/* When a promise will have been earned again; the moment after now at the earliest. */
static uint64_t earned_at(const struct arb_card *card, const struct arb_member *m, int64_t level)
{
    int64_t missing = level - net(m);
    if (!promised(m))
        return ARB_NEVER;
    return missing <= 0 ? card->now_ns + 1 : card->now_ns + 1 + (uint64_t)(missing * 1000 / m->limits.gpu_milli);
}

static uint64_t next_for_waiting(const struct arb_card *card, const struct arb_member *m)
{
    uint64_t beat = card->now_ns + FENCE_BEAT_NS;
    if (m == card->holder) {
        bool stuck = m->seen.charged_ns >= m->word.granted_ns && card->until_ns > card->now_ns;
        return stuck ? earlier(beat, earned_at(card, m, ARB_STEP_NS - ARB_CHUNK_NS)) : beat;
    }
    bool earning = wants(m) && promised(m) && net(m) < 0 && (!card->holder || card->leftover || card->idle_since_ns);
    return earning ? earlier(beat, earned_at(card, m, 0)) : beat;
}

static uint64_t after(const struct arb_card *card, uint64_t moment)
{
    return moment > card->now_ns ? moment : card->now_ns + 1;
}

/* A lone fixed holder that never waits is given more as it earns it. */
static uint64_t next_for_lone(const struct arb_card *card)
{
    const struct arb_member *h = card->holder;
    return capped(h) && !idle(h) ? card->now_ns + ARB_QUANTUM_NS : ARB_NEVER;
}

static bool has_free_member(const struct arb_card *card)
{
    for (const struct arb_member *m = card->members; m; m = m->next)
        if (is_free(m))
            return true;
    return false;
}

/* An allocation that asks for no lease rings no bell when it begins. */
static uint64_t next_for_offline(const struct arb_card *card)
{
    return is_offline(card->holder) && has_free_member(card) ? card->now_ns + ARB_OFFLINE_LOOK_NS : ARB_NEVER;
}

static uint64_t next_for_holder(const struct arb_card *card)
{
    uint64_t now = card->now_ns;
    if (card->until_ns <= now)
        return card->drain_by_ns ? after(card, card->drain_by_ns) : now + 1;
    uint64_t renewal = card->until_ns - ARB_RENEW_NS;
    uint64_t at = renewal > now ? renewal : card->until_ns;
    if (card->idle_since_ns && first(card, NULL, card->holder))
        at = earlier(at, after(card, card->idle_since_ns + patience(card)));
    return earlier(at, earlier(next_for_lone(card), next_for_offline(card)));
}

static uint64_t next_moment(const struct arb_card *card)
{
    uint64_t at = card->holder ? next_for_holder(card) : ARB_NEVER;
    for (const struct arb_member *m = card->members; m; m = m->next) {
        if (m->seen.waiters > 0)
            at = earlier(at, next_for_waiting(card, m));
        if (ungranted_watches(&m->ungranted, m->seen.inflight_ns))
            at = earlier(at, card->now_ns + FENCE_BEAT_NS);
    }
    return at;
}

/* --- what all are told --- */

static bool has_online_member(const struct arb_card *card)
{
    for (const struct arb_member *m = card->members; m; m = m->next)
        if (!is_offline(m))
            return true;
    return false;
}

static uint64_t window(const struct arb_card *card, const struct arb_member *m)
{
    if (is_offline(m) && has_online_member(card))
        return ARB_OFFLINE_WINDOW_NS;
    return others_want(card, m) ? ARB_WINDOW_NS : ARB_LONE_WINDOW_NS;
}

static enum fence_holding holding(const struct arb_card *card, const struct arb_member *m)
{
    if (m == card->holder)
        return others_want(card, m) ? FENCE_HOLDING_WANTED : FENCE_HOLDING;
    return capped(m) && net(m) < 0 ? FENCE_USED_UP : FENCE_WAITING;
}

static void tell(struct arb_card *card)
{
    for (struct arb_member *m = card->members; m; m = m->next) {
        m->word.holding = holding(card, m);
        m->word.window_ns = window(card, m);
        m->contested = is_contested(card, m);
        ungranted_decided(&m->ungranted, could_begin_work(card, m));
    }
}

uint64_t arb_run(struct arb_card *card, uint64_t now)
{
    account(card, now);
    if (card->holder)
        tend(card);
    if (!card->holder) {
        struct arb_member *next = first(card, NULL, NULL);
        if (next)
            give(card, next);
    }
    tell(card);
    return next_moment(card);
}

void arb_join(struct arb_card *card, struct arb_member *member, struct arb_limits limits, struct arb_seen seen, uint64_t now)
{
    *member = (struct arb_member){.limits = limits, .seen = seen};
    member->settled_ns = seen.charged_ns - earlier(seen.charged_ns, seen.inflight_ns);
    member->word.granted_ns = seen.charged_ns;
    member->virtual_ns = card->virtual_ns;
    ungranted_begin(&member->ungranted, now);
    if (!card->members && now > card->now_ns)
        card->now_ns = now;
    member->next = card->members;
    card->members = member;
}

void arb_leave(struct arb_card *card, struct arb_member *member)
{
    if (card->holder == member)
        take_back(card);
    for (struct arb_member **at = &card->members; *at; at = &(*at)->next)
        if (*at == member) {
            *at = member->next;
            return;
        }
}

uint64_t arb_flight(const struct arb_card *card, const struct arb_member *member)
{
    bool flies = member->seen.inflight_ns && member->flight_since_ns;
    return flies ? earlier(card->now_ns - member->flight_since_ns, ARB_FLIGHT_MAX_NS) : 0;
}

int64_t arb_owns(const struct arb_card *card, const struct arb_member *member)
{
    return member->balance_ns - (int64_t)arb_flight(card, member);
}

void arb_resize(struct arb_member *member, struct arb_limits limits)
{
    member->limits = limits;
}
