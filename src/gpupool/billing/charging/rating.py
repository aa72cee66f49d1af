"""Make charges: read what was held in an hour from the books, and find its price.

An hour is read as reports read it, so charges add up to the capacity as reports do: what tenants
are charged for and what is left of the cards is each model's capacity, in millionths of a card
times seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.base.units import MIB
from gpupool.billing.charging.reserved_time import CardModel, ReservedPart
from gpupool.billing.prices.price_list import DatedPriceList, ShareFacts
from gpupool.fleet.tables import devices
from gpupool.metering.books import (
    MICRO,
    REMAINDER_OF,
    WHOLE_MILLI,
    ZERO,
    RollupMarks,
    UsageAmount,
    compute_remainders,
)
from gpupool.metering.reading import (
    GroupHolding,
    ReportQuery,
    read_capacity,
    read_holdings,
)
from gpupool.metering.tables import allocations_view, claims_view, jobs_view

#: Of each charge: owner and project and user and job, as the books group them.
_BY = ("project", "user", "job")
#: Ids in one `IN (...)`.
_IDS_AT_ONCE = 5000
_NOTHING = ShareFacts("", "", "", False)


@dataclass(frozen=True)
class ChargeKey:
    """All that a price depends on, and the owner. Owners are row ids; 0 is no owner."""

    kind: str
    tenant_id: int
    project_id: int
    user_id: int
    facts: ShareFacts


@dataclass(frozen=True)
class Charge:
    """What was held under one key in a stretch of time."""

    key: ChargeKey
    amount: UsageAmount
    charged_micro_seconds: int
    base_micro: int | None
    price_micro: int | None
    factor_milli: int


@dataclass(frozen=True)
class ReservedCharge:
    """What became of a reservation in a stretch of time, and what of it its tenant pays."""

    part: ReservedPart
    charged_micro_seconds: int
    base_micro: int | None
    factor_milli: int

    @property
    def is_charged(self) -> bool:
        """Whether it is apart from the idle time."""
        return bool(self.factor_milli) and bool(self.charged_micro_seconds)


@dataclass
class _Sum:
    amount: UsageAmount = ZERO
    charged: int = 0


def read_card_models(connection: sa.Connection) -> dict[int, CardModel]:
    """Read model and memory of every card that the pool has known, by row id."""
    query = sa.select(devices.c.id, devices.c.model, devices.c.memory_bytes)
    return {
        row.id: CardModel(row.model, row.memory_bytes // MIB) for row in connection.execute(query)
    }


def make_charges(
    connection: sa.Connection,
    price_list: DatedPriceList | None,
    cards: Mapping[int, CardModel],
    marks: RollupMarks,
    since_s: int,
    until_s: int,
    *,
    tenant_id: int | None = None,
    reserved: Sequence[ReservedCharge] = (),
) -> list[Charge]:
    """Make the charges of one hour or a part of it.

    Args:
        price_list: in force in this hour; None: nothing has a price.
        tenant_id: only this tenant's, without what is left of the cards; None: all.
        reserved: charges of reserved, unused time in it: they are taken from the idle time.
    """
    ask = ReportQuery(since_s, until_s, _BY, marks, tenant_id)
    holdings = list(read_holdings(connection, ask))
    facts = read_job_facts(connection, {holding.ids["job_id"] or 0 for holding in holdings})
    sums: dict[ChargeKey, _Sum] = defaultdict(_Sum)
    charged_of: dict[tuple[int, Any], int] = defaultdict(int)
    for holding in holdings:
        card = cards[holding.device_id]
        charged = _count_charged(price_list, holding.amount, card.memory_mib)
        entry = sums[_build_key(holding, card, facts)]
        entry.amount += holding.amount
        entry.charged += charged
        charged_of[holding.device_id, holding.under] += charged
    if tenant_id is None:
        _add_remainders(connection, ask, sums, cards, holdings, charged_of)
        _take_reserved(sums, reserved)
    local_hour = 0 if price_list is None else price_list.get_local_hour(since_s)
    return [_price(key, entry, price_list, local_hour) for key, entry in sums.items()]


def price_reserved(
    parts: Iterable[ReservedPart],
    price_list: DatedPriceList | None,
    cards: Mapping[int, CardModel],
    hour_s: int,
) -> list[ReservedCharge]:
    """Price what reservations left unused in an hour, at the price of the card."""
    memory_of = {card.model: card.memory_mib for card in cards.values()}
    found = []
    for part in parts:
        charged = _count_charged(price_list, part.amount, memory_of.get(part.model, 0))
        base = None
        factor = 0
        if price_list is not None:
            base = price_list.find_base_price(part.model, price_list.get_local_hour(hour_s))
            factor = price_list.reserved_milli
        found.append(ReservedCharge(part, charged, base, factor))
    return found


def _count_charged(
    price_list: DatedPriceList | None, amount: UsageAmount, card_memory_mib: int
) -> int:
    if price_list is None:
        return amount.dominant_micro_seconds
    return price_list.count_charged(amount, card_memory_mib)


def _build_key(
    holding: GroupHolding, card: CardModel, facts: Mapping[int, ShareFacts]
) -> ChargeKey:
    job = facts.get(holding.ids["job_id"] or 0, _NOTHING)
    return ChargeKey(
        "tenant",
        holding.ids["tenant_id"] or 0,
        holding.ids["project_id"] or 0,
        holding.ids["user_id"] or 0,
        ShareFacts(card.model, job.mechanism, job.sharing, job.preemptible),
    )


def _add_remainders(
    connection: sa.Connection,
    ask: ReportQuery,
    sums: dict[ChargeKey, _Sum],
    cards: Mapping[int, CardModel],
    holdings: Iterable[GroupHolding],
    charged_of: Mapping[tuple[int, Any], int],
) -> None:
    """Add what was left of each card, by kind: its capacity less what was held and charged."""
    taken: dict[int, dict[Any, UsageAmount]] = defaultdict(lambda: defaultdict(lambda: ZERO))
    for holding in holdings:
        taken[holding.device_id][holding.under] += holding.amount
    for device_id, total in read_capacity(connection, ask).items():
        rest = compute_remainders(total, taken[device_id])
        for under, capacity in total.items():
            kind = REMAINDER_OF[under]
            key = ChargeKey(kind, 0, 0, 0, ShareFacts(cards[device_id].model, "", "", False))
            entry = sums[key]
            entry.amount += rest[kind]
            capacity_micro = capacity.card_milliseconds * (MICRO // WHOLE_MILLI)
            entry.charged += capacity_micro - charged_of.get((device_id, under), 0)


def _take_reserved(sums: dict[ChargeKey, _Sum], reserved: Iterable[ReservedCharge]) -> None:
    """Take what reservations are charged for from the idle time: each second is charged once."""
    for charge in reserved:
        if charge.is_charged:
            key = ChargeKey("idle", 0, 0, 0, ShareFacts(charge.part.model, "", "", False))
            sums[key].amount -= charge.part.amount
            sums[key].charged -= charge.charged_micro_seconds


def _price(
    key: ChargeKey, entry: _Sum, price_list: DatedPriceList | None, local_hour: int
) -> Charge:
    if price_list is None:
        return Charge(key, entry.amount, entry.charged, None, None, WHOLE_MILLI)
    base = price_list.find_base_price(key.facts.model, local_hour)
    if key.kind != "tenant":
        return Charge(key, entry.amount, entry.charged, base, base, WHOLE_MILLI)
    price = price_list.find_price(key.facts, local_hour)
    factor = price_list.get_factor_milli(key.facts)
    return Charge(key, entry.amount, entry.charged, base, price, factor)


def read_job_facts(connection: sa.Connection, job_ids: Iterable[int]) -> dict[int, ShareFacts]:
    """Read what a price depends on, of jobs; of pods (negative ids) nothing is known."""
    wanted = sorted(number for number in job_ids if number > 0)
    found: dict[int, ShareFacts] = {}
    for start in range(0, len(wanted), _IDS_AT_ONCE):
        for row in connection.execute(_select_facts(wanted[start : start + _IDS_AT_ONCE])):
            found[row.id] = ShareFacts(
                "", row.mechanism or "", row.taken or row.sharing or "", bool(row.preemptible)
            )
    return found


def _select_facts(job_ids: Sequence[int]) -> sa.Select[Any]:
    taken = allocations_view.c
    latest = (
        sa.select(sa.func.max(taken.id))
        .where(taken.job_id == jobs_view.c.id)
        .correlate(jobs_view)
        .scalar_subquery()
    )
    return (
        sa.select(
            jobs_view.c.id,
            taken.mechanism,
            taken.sharing.label("taken"),
            claims_view.c.sharing,
            claims_view.c.preemptible,
        )
        .select_from(jobs_view)
        .outerjoin(claims_view, claims_view.c.id == jobs_view.c.claim_id)
        .outerjoin(allocations_view, taken.id == latest)
        .where(jobs_view.c.id.in_(job_ids))
    )
