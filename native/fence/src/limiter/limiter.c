#include "limiter.h"

#define RELAXED memory_order_relaxed

/* How far a process may go, by the arbiter's grant or by the static duty cycle. */
struct leave {
    uint64_t until_ns, window_ns, granted_ns;
};

static uint64_t part_of_period(const struct limiter_card *card)
{
    uint64_t milli = card->limit->gpu_milli < LIMITER_STATIC_LEAST_MILLI ? LIMITER_STATIC_LEAST_MILLI : card->limit->gpu_milli;
    bool no_promise = card->limit->sharing == FENCE_BEST_EFFORT || card->limit->sharing == FENCE_OFFLINE;
    return (no_promise ? LIMITER_STATIC_LEAST_MILLI : milli < 1000 ? milli : 1000) * (LIMITER_PERIOD_NS / 1000);
}

/* Where in its own period `now` is: the share's part begins at 0. */
static uint64_t phase(const struct limiter_card *card, uint64_t now)
{
    uint64_t offset = card->limit->duty_offset_milli % 1000 * (LIMITER_PERIOD_NS / 1000);
    return (now % LIMITER_PERIOD_NS + LIMITER_PERIOD_NS - offset) % LIMITER_PERIOD_NS;
}

/* Since it went alone it may use its rate and one part ahead: a long kernel costs the parts that follow. */
static uint64_t static_allowance(const struct limiter_card *card, uint64_t now)
{
    uint64_t since = atomic_load_explicit(&card->alone_since_ns, RELAXED), part = part_of_period(card);
    uint64_t elapsed = now > since ? now - since : 0;
    return elapsed / LIMITER_PERIOD_NS * part + elapsed % LIMITER_PERIOD_NS * part / LIMITER_PERIOD_NS + part;
}

static struct leave static_leave(const struct limiter_card *card, uint64_t now)
{
    uint64_t at = phase(card, now), part = part_of_period(card);
    uint64_t granted = atomic_load_explicit(&card->alone_charged_ns, RELAXED) + static_allowance(card, now);
    return (struct leave){at < part ? now - at + part : 0, part, granted};
}

static struct leave granted_leave(const struct limiter_card *card)
{
    return (struct leave){atomic_load_explicit(&card->grant->lease_until_ns, memory_order_acquire),
                          atomic_load_explicit(&card->grant->window_ns, RELAXED),
                          atomic_load_explicit(&card->grant->granted_ns, RELAXED)};
}

static struct leave leave_now(const struct limiter_card *card, uint64_t now)
{
    if (__builtin_expect(atomic_load_explicit(&card->alone_since_ns, RELAXED) != 0, 0))
        return static_leave(card, now);
    return granted_leave(card);
}

/* Takes from a counter that another may have zeroed meanwhile (a cleared slot): never below zero. */
static void lower(_Atomic uint64_t *counter, uint64_t by)
{
    uint64_t seen = atomic_load_explicit(counter, RELAXED);
    while (!atomic_compare_exchange_weak_explicit(counter, &seen, seen > by ? seen - by : 0, memory_order_release, RELAXED))
        ;
}

/* `before`: what this process had in flight. One piece of work that fits nowhere is admitted when nothing is. */
static enum limiter_verdict fits(const struct leave *leave, const struct limiter_cost *cost, uint64_t before, uint64_t now)
{
    if (now >= leave->until_ns)
        return LIMITER_WAIT_GRANT;
    if (before == 0)
        return LIMITER_GO;
    bool known_to_fit = cost->known && before + cost->predicted_ns <= leave->window_ns && now + before < leave->until_ns;
    return known_to_fit ? LIMITER_GO : LIMITER_WAIT_OWN;
}

static enum limiter_verdict admit_free(struct limiter_card *card, const struct limiter_cost *cost)
{
    atomic_fetch_add_explicit(&card->slot->inflight_ns, cost->predicted_ns, RELAXED);
    atomic_fetch_add_explicit(&card->usage->charged_ns, cost->predicted_ns, RELAXED);
    return LIMITER_GO;
}

enum limiter_verdict limiter_admit(struct limiter_card *card, const struct limiter_cost *cost, uint64_t now)
{
    if (limiter_is_free(card))
        return admit_free(card, cost);
    struct leave leave = leave_now(card, now);
    uint64_t before = atomic_fetch_add_explicit(&card->slot->inflight_ns, cost->predicted_ns, RELAXED);
    enum limiter_verdict verdict = fits(&leave, cost, before, now);
    if (verdict == LIMITER_GO) {
        if (atomic_fetch_add_explicit(&card->usage->charged_ns, cost->predicted_ns, RELAXED) < leave.granted_ns)
            return LIMITER_GO;
        lower(&card->usage->charged_ns, cost->predicted_ns);
        verdict = LIMITER_WAIT_GRANT;
    }
    lower(&card->slot->inflight_ns, cost->predicted_ns);
    return verdict;
}

void limiter_withdraw(struct limiter_card *card, uint64_t predicted_ns)
{
    lower(&card->usage->charged_ns, predicted_ns);
    lower(&card->slot->inflight_ns, predicted_ns);
}

/* The charge is corrected before the work is no longer in flight: what the arbiter takes for settled, charged less in
   flight, is too small for a moment and never too large. */
void limiter_settle(struct limiter_card *card, const struct limiter_batch *batch, uint64_t used_ns)
{
    uint64_t predicted_ns = batch->predicted_ns;
    if (used_ns > predicted_ns)
        atomic_fetch_add_explicit(&card->usage->charged_ns, used_ns - predicted_ns, RELAXED);
    else if (used_ns < predicted_ns)
        lower(&card->usage->charged_ns, predicted_ns - used_ns);
    atomic_fetch_add_explicit(&card->slot->gpu_ns, used_ns, RELAXED);
    atomic_fetch_add_explicit(&card->slot->launches, batch->launches, RELAXED);
    lower(&card->slot->inflight_ns, predicted_ns);
}

uint64_t limiter_ring_at(struct limiter_card *card, uint64_t now)
{
    uint64_t rang = atomic_load_explicit(&card->last_ring_ns, RELAXED);
    if (rang && now < rang + LIMITER_RING_NS)
        return rang + LIMITER_RING_NS;
    return atomic_compare_exchange_strong(&card->last_ring_ns, &rang, now) ? 0 : now + LIMITER_RING_NS;
}

uint64_t limiter_notify_at(const struct limiter_card *card, uint64_t idle_since)
{
    uint32_t holder = atomic_load_explicit(&card->grant->holder, RELAXED);
    uint64_t until = atomic_load_explicit(&card->grant->lease_until_ns, RELAXED);
    if (holder != FENCE_HOLDING_WANTED || atomic_load_explicit(&card->slot->inflight_ns, RELAXED) != 0)
        return 0;
    if (atomic_load_explicit(&card->slot->waiters, RELAXED) != 0 || until <= idle_since)
        return idle_since;
    return until < idle_since + LIMITER_LINGER_NS ? until : idle_since + LIMITER_LINGER_NS;
}

bool limiter_arbiter_lost(const struct limiter_card *card, uint64_t since, uint64_t now)
{
    uint64_t beat = atomic_load_explicit(&card->grant->beat_ns, RELAXED);
    uint64_t last = beat > since ? beat : since;
    return now > last && now - last > FENCE_ARBITER_LOST_NS;
}

void limiter_go_alone(struct limiter_card *card, uint64_t now)
{
    uint64_t charged = atomic_load_explicit(&card->usage->charged_ns, RELAXED), none = 0;
    if (atomic_load_explicit(&card->alone_since_ns, RELAXED) != 0)
        return;
    atomic_store_explicit(&card->alone_charged_ns, charged, RELAXED);
    atomic_compare_exchange_strong(&card->alone_since_ns, &none, now ? now : 1);
}

void limiter_rejoin(struct limiter_card *card)
{
    atomic_store(&card->alone_since_ns, 0);
}

/* The next beginning of the part, or the moment the debt is earned, or a tick when own work has to finish first. */
uint64_t limiter_static_next(const struct limiter_card *card, uint64_t now)
{
    uint64_t at = phase(card, now), part = part_of_period(card);
    uint64_t begins = at < part ? now : now - at + LIMITER_PERIOD_NS;
    uint64_t charged = atomic_load_explicit(&card->usage->charged_ns, RELAXED);
    uint64_t granted = atomic_load_explicit(&card->alone_charged_ns, RELAXED) + static_allowance(card, now);
    if (charged < granted)
        return begins > now ? begins : now + LIMITER_PERIOD_NS / 1000;
    uint64_t earned = now + (charged - granted + 1) * LIMITER_PERIOD_NS / part + 1;
    return earned > begins ? earned : begins;
}
