"""A running job as lists of idle jobs show it. Pure."""

from __future__ import annotations

from gpupool.allocations.idleness.costs import SharePrices
from gpupool.allocations.idleness.ladder import find_due
from gpupool.allocations.idleness.policy import IdleRule
from gpupool.allocations.idleness.units import IdleUnit, UnitActivity
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.billing.prices.price_list import ShareFacts
from gpupool.wire.idleness.jobs import IdleJobOut

#: Seconds without activity after which a job without a rule is shown as idle.
_USUAL_WINDOW = 300


def describe_unit(
    unit: IdleUnit,
    rule: IdleRule | None,
    seen: UnitActivity,
    keeps: int,
    prices: SharePrices,
    now_ns: int,
) -> IdleJobOut:
    """Describe a unit: how long it is idle, its next step and what it costs.

    Args:
        unit: the job.
        rule: of its policies; None: none is about it.
        seen: its activity.
        keeps: that it had in the last 24 hours.
        prices: the pool's.
        now_ns: the instant.
    """
    state = unit.state
    keep_until_ns = None if state is None else state.keep_until_ns
    if keep_until_ns is not None and keep_until_ns <= now_ns:
        keep_until_ns = None
    due = None
    if rule is not None and seen.last_ns is not None:
        progress = None if state is None else state.progress
        kept_ns = None if state is None else state.keep_until_ns
        due = find_due(rule.ladder, seen.last_ns, kept_ns, progress)
    act = None if state is None or state.act is None else state.act.value
    return IdleJobOut(
        job=unit.job,
        name=unit.name,
        tenant=unit.tenant,
        project=unit.project,
        user=unit.user,
        kind=unit.facts.kind.value,
        jobs=len(unit.members),
        state=_find_state(seen, rule, keep_until_ns, now_ns),
        idle_seconds=None
        if seen.last_ns is None
        else max(0, now_ns - seen.last_ns) // NANOS_PER_SECOND,
        last_ns=seen.last_ns,
        rule=None if rule is None else rule.describe(),
        mode=None if rule is None else rule.mode.value,
        policies=[] if rule is None else list(rule.policies),
        act=act,
        act_ns=None if state is None or act is None else state.at_ns,
        skip="" if state is None else state.skip,
        next_act=None if due is None else due.step.act.value,
        next_ns=None if due is None else due.at_ns,
        keep_until_ns=keep_until_ns,
        keeps_left=None if rule is None else max(0, rule.keeps_per_day - keeps),
        keep_seconds=None if rule is None else rule.keep_seconds,
        gpu_milli=unit.milli * unit.cards,
        cards=unit.cards,
        waits_to_grow=state is not None and state.must_grow,
        cost_per_hour_micro=_price_unit(unit, prices, now_ns),
        currency=prices.find_currency(now_ns),
    )


def _find_state(
    seen: UnitActivity, rule: IdleRule | None, keep_until_ns: int | None, now_ns: int
) -> str:
    if seen.last_ns is None:
        return "unknown"
    window = _USUAL_WINDOW if rule is None else rule.ladder.window_seconds
    if now_ns - seen.last_ns < window * NANOS_PER_SECOND:
        return "active"
    return "idle" if keep_until_ns is None else "kept"


def _price_unit(unit: IdleUnit, prices: SharePrices, now_ns: int) -> int | None:
    facts = ShareFacts(unit.model, "", unit.sharing, unit.preemptible)
    one = prices.price_share(facts, unit.milli, unit.memory_bytes, unit.card_bytes, now_ns)
    return None if one is None else round(one * unit.cards)
