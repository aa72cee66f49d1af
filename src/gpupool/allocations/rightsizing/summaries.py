"""Advice of many families together: for a tenant, and for the layout of a model's cards. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpupool.allocations.rightsizing.reading import Families
from gpupool.rightsizing.advice import AdviceKind, FamilyUse, advise, fill_unknown
from gpupool.rightsizing.layouts import count_peaks, plan_cards
from gpupool.rightsizing.offers import CardOffer, choose_partition
from gpupool.rightsizing.runs import MeasuredRun
from gpupool.wire.rightsizing.advice import (
    AdviceOut,
    CardMixOut,
    LayoutAdviceOut,
    TenantAdviceOut,
)


def sum_tenants(rows: Iterable[AdviceOut]) -> list[TenantAdviceOut]:
    """Sum the advice of families by tenant, those that would free most first."""
    by_tenant: dict[str, list[AdviceOut]] = {}
    for row in rows:
        by_tenant.setdefault(row.tenant, []).append(row)
    found = [_sum_tenant(tenant, families) for tenant, families in by_tenant.items()]
    return sorted(found, key=lambda one: (-(one.saved_milli or 0), one.tenant))


def _sum_tenant(tenant: str, families: Sequence[AdviceOut]) -> TenantAdviceOut:
    return TenantAdviceOut(
        tenant=tenant,
        families=len(families),
        advised_families=sum(one.advice != "unknown" for one in families),
        grow_families=sum(one.advice == "grow" for one in families),
        runs=sum(one.runs for one in families),
        measured_runs=sum(one.measured_runs for one in families),
        saved_milli=_sum_known(one.saved_milli for one in families),
        saved_micro_per_month=_sum_known(one.saved_micro_per_month for one in families),
        currency=families[0].currency,
    )


def _sum_known(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def plan_layouts(
    families: Families, offers: Sequence[CardOffer], cards: Mapping[str, int]
) -> list[LayoutAdviceOut]:
    """Plan the layout of each model that can be cut, for the families whose runs were on it."""
    found = list[LayoutAdviceOut]()
    for offer in offers:
        if offer.profiles and cards.get(offer.model):
            layout = _plan_model(families, offer, cards[offer.model])
            if layout is not None:
                found.append(layout)
    return found


def _plan_model(families: Families, offer: CardOffer, cards: int) -> LayoutAdviceOut | None:
    fitting = 0
    unfit = 0
    runs = list[tuple[str, MeasuredRun]]()
    for known in families.values():
        family = FamilyUse()
        for run in known.runs:
            family.add_run(run)
        advice = advise(family)
        share = family.share
        if share is None or share.model != offer.model or advice.kind is AdviceKind.UNKNOWN:
            continue
        chosen = choose_partition(offer, *fill_unknown(advice, share))
        if chosen is None:
            unfit += 1
            continue
        fitting += 1
        runs += [(chosen.profile, run) for run in known.runs]
    if not fitting and not unfit:
        return None
    plan = plan_cards(offer.profiles, cards, count_peaks(runs))
    return LayoutAdviceOut(
        model=offer.model,
        cards=cards,
        families=fitting,
        unfit_families=unfit,
        demand=dict(plan.demand),
        mixes=[CardMixOut(mix=one.mix, cards=one.cards) for one in plan.mixes],
        cards_needed=plan.cards,
        missing=dict(plan.missing),
        exact=plan.is_exact,
    )
