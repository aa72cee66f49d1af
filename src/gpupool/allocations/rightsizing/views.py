"""A family's advice as routes show it: what was used, what to ask for, what that saves. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from gpupool.allocations.idleness.costs import SharePrices
from gpupool.allocations.rightsizing.reading import FamilyRuns, LiveRun
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.billing.prices.price_list import ShareFacts
from gpupool.rightsizing.advice import Advice, AdviceKind, FamilyUse, advise, fill_unknown
from gpupool.rightsizing.backtest import Backtest, MethodResult
from gpupool.rightsizing.families import FamilyKey
from gpupool.rightsizing.offers import CardOffer, choose_partition, find_offer, list_models
from gpupool.rightsizing.runs import RequestedShare
from gpupool.wire.rightsizing.advice import (
    AdviceOut,
    BacktestOut,
    LiveRunOut,
    MethodOut,
    ModelAdviceOut,
    PartitionAdviceOut,
)

#: Seconds of a month, for money: 30 days.
MONTH_S: Final = 30 * 86400
HOUR_S: Final = 3600


@dataclass(frozen=True)
class AdviceContext:
    """What is the same for all families of an answer."""

    offers: Sequence[CardOffer]
    prices: SharePrices
    since_ns: int
    now_ns: int

    @property
    def seconds(self) -> int:
        return max(1, (self.now_ns - self.since_ns) // NANOS_PER_SECOND)


def describe_family(key: FamilyKey, found: FamilyRuns, context: AdviceContext) -> AdviceOut:
    """Advise a family and describe what follows from it."""
    family = FamilyUse()
    for run in found.runs:
        family.add_run(run)
    advice = advise(family)
    share = family.share
    used = family.use
    limited = family.limited_part
    return AdviceOut(
        family=key.name,
        tenant=key.tenant,
        project=key.project,
        user=key.user,
        pattern=key.pattern,
        runs=family.runs + found.unmeasured,
        measured_runs=family.measured,
        measured_hours=round(family.measured_seconds / HOUR_S, 3),
        cards=None if share is None else share.cards,
        model=None if share is None else share.model,
        profile=None if share is None else share.profile,
        requested_milli=None if share is None else share.gpu_milli,
        requested_bytes=None if share is None else share.memory_bytes,
        used_p50_milli=used.find_percentile(50),
        used_p95_milli=used.find_percentile(95),
        used_max_milli=used.find_percentile(100),
        used_bytes=family.peak_bytes,
        limited_percent=None if limited is None else round(limited * 100, 1),
        advice=advice.kind.value,
        gpu_milli=advice.gpu_milli,
        memory_bytes=advice.memory_bytes,
        partition=_describe_partition(advice, share, context.offers),
        models=_list_models(advice, share, context.offers),
        cheaper=_find_cheaper(found, advice, share, context),
        confidence=None if advice.confidence is None else advice.confidence.value,
        reason=advice.reason,
        saved_milli=_compute_saved_milli(found, advice, share, context),
        saved_micro_per_month=_price_saving(found, advice, share, context),
        currency=context.prices.find_currency(context.now_ns),
        live=[_describe_live(one, key.user) for one in found.live],
    )


def _describe_partition(
    advice: Advice, share: RequestedShare | None, offers: Sequence[CardOffer]
) -> PartitionAdviceOut | None:
    if share is None or advice.kind is AdviceKind.UNKNOWN:
        return None
    offer = find_offer(offers, share.model)
    chosen = None if offer is None else choose_partition(offer, *fill_unknown(advice, share))
    if chosen is None:
        return None
    return PartitionAdviceOut(
        profile=chosen.profile,
        per_card=chosen.per_card,
        gpu_milli=chosen.gpu_milli,
        memory_bytes=chosen.memory_bytes,
    )


def _list_models(
    advice: Advice, share: RequestedShare | None, offers: Sequence[CardOffer]
) -> list[str]:
    if share is None or advice.memory_bytes is None:
        return []
    return list_models(offers, advice.memory_bytes)


def _count_card_seconds(found: FamilyRuns, context: AdviceContext) -> float:
    """Count the measured seconds times cards, at most the asked time of each run."""
    since_s = context.since_ns // NANOS_PER_SECOND
    total = 0.0
    for run in found.runs:
        # A run that began before the time counts with what lies in it.
        within = max(0, run.end_s - max(run.start_s, since_s))
        total += min(run.use.total, within) * run.share.cards
    return total


def _compute_saved_milli(
    found: FamilyRuns, advice: Advice, share: RequestedShare | None, context: AdviceContext
) -> int | None:
    if share is None or advice.gpu_milli is None:
        return None
    saved = share.gpu_milli - advice.gpu_milli
    return round(saved * _count_card_seconds(found, context) / context.seconds)


def _price_saving(
    found: FamilyRuns, advice: Advice, share: RequestedShare | None, context: AdviceContext
) -> int | None:
    """Price what the latest request costs more than the advice, for the hours of a month."""
    if share is None or advice.kind is AdviceKind.UNKNOWN or not found.card_bytes:
        return None
    facts = ShareFacts(share.model, "", found.sharing, found.preemptible)
    milli, memory = fill_unknown(advice, share)
    prices = context.prices
    now = prices.price_share(
        facts, share.gpu_milli, share.memory_bytes, found.card_bytes, context.now_ns
    )
    then = prices.price_share(facts, milli, memory, found.card_bytes, context.now_ns)
    if now is None or then is None:
        return None
    hours = _count_card_seconds(found, context) / HOUR_S * MONTH_S / context.seconds
    return round(float(now - then) * hours)


def _find_cheaper(
    found: FamilyRuns, advice: Advice, share: RequestedShare | None, context: AdviceContext
) -> ModelAdviceOut | None:
    """Find the model on which the advised share costs least; None: the family's own, or no price.

    The same part of a card is priced: speeds of models are not known.
    """
    if share is None or advice.kind is AdviceKind.UNKNOWN or not found.card_bytes:
        return None
    milli, memory = fill_unknown(advice, share)
    own = _price_model(found, context, share.model, found.card_bytes, milli, memory)
    if own is None:
        return None
    priced = list[tuple[Fraction, str, int]]()
    for offer in context.offers:
        if offer.memory_bytes < memory:
            continue
        price = _price_model(found, context, offer.model, offer.memory_bytes, milli, memory)
        if price is not None and price < own:
            priced.append((price, offer.model, offer.memory_bytes))
    if not priced:
        return None
    price, model, card_bytes = min(priced)
    hours = _count_card_seconds(found, context) / HOUR_S * MONTH_S / context.seconds
    return ModelAdviceOut(
        model=model,
        memory_bytes=card_bytes,
        saved_micro_per_month=round(float(own - price) * hours),
    )


def _price_model(
    found: FamilyRuns, context: AdviceContext, model: str, card_bytes: int, milli: int, memory: int
) -> Fraction | None:
    facts = ShareFacts(model, "", found.sharing, found.preemptible)
    return context.prices.price_share(facts, milli, memory, card_bytes, context.now_ns)


def _describe_live(one: LiveRun, user: str) -> LiveRunOut:
    fixed = ""
    if one.profile is not None:
        fixed = f"a partition ({one.profile}) keeps its size: submit another job with --profile"
    elif one.is_whole and one.promises_compute:
        fixed = "a whole card has no limits to change: submit another job with a share"
    return LiveRunOut(
        job=one.job,
        name=one.name,
        user=user,
        gpu_milli=one.gpu_milli if one.promises_compute else 0,
        memory_bytes=one.memory_bytes,
        fixed=fixed,
        proposed_milli=one.proposed_milli,
        proposed_bytes=one.proposed_bytes,
    )


def describe_backtest(found: Backtest, since_ns: int, until_ns: int) -> BacktestOut:
    """Describe what each method would have given the judged runs."""
    results = list(found.methods.values())
    return BacktestOut(
        since_ns=since_ns,
        until_ns=until_ns,
        families=found.families,
        judged_runs=results[0].runs,
        unjudged_runs=found.unjudged,
        requested_hours=round(results[0].requested_hours, 3),
        methods=[_describe_method(one) for one in results],
    )


def _describe_method(one: MethodResult) -> MethodOut:
    return MethodOut.model_validate(
        {
            "method": one.method,
            "starved_percent": _to_percent(one.starved_part),
            "starved_runs": one.starved_runs,
            "short_of_memory": one.short_of_memory,
            "given_hours": round(one.given_hours, 3),
            "saved_hours": round(one.saved_hours, 3),
            "saved_percent": _to_percent(one.saved_part),
        }
    )


def _to_percent(part: float | None) -> float | None:
    return None if part is None else round(part * 100, 2)
