"""Reports: the books of a range of time by tenant, project, user or job, with the rest of each card and its costs.

Reads only. Knows no clock: the range comes in, cut already where the books can be cut.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from gpupool.base.units import format_instant
from gpupool.metering.books import REMAINDER_OF, WHOLE_MILLI, ZERO, Amount, remainders
from gpupool.metering.prices import apportion
from gpupool.metering.reading import (
    Ask,
    Holding,
    Names,
    read_capacity,
    read_delivered,
    read_holdings,
    read_names,
)
from gpupool.metering.starts import read_starts
from gpupool.wire.report import Kind, ReportOut, ReportRow

_KINDS: Sequence[Kind] = ("tenant", "idle", "overhead", "unmanaged")
_NS = 10**9
OTHERS = "others"


@dataclass(frozen=True)
class Label:
    """Who or what a row is about."""

    kind: Kind
    tenant: str | None = None
    project: str | None = None
    user: str | None = None
    job: str | None = None
    job_name: str | None = None
    device: str | None = None
    model: str | None = None


@dataclass
class Sum:
    amount: Amount = ZERO
    cost: Fraction = Fraction(0)
    gpu: int | None = None
    cpu: int | None = None


def make_report(connection: sa.Connection, ask: Ask) -> ReportOut:
    """The whole report. The connection must see one moment of the database. Raises BadOption (prices)."""
    holdings = list(read_holdings(connection, ask))
    used = list(read_delivered(connection, ask)) if "card" not in ask.by else []
    spans = read_capacity(connection, ask) if ask.tenant_id is None else {}
    names = read_names(connection, holdings, used, spans)
    sums: dict[Label, Sum] = defaultdict(Sum)
    for holding in holdings:
        _enter(sums[_label(ask, names, holding.ids, holding.device_id)], ask, names, holding)
    for ids, gpu, cpu in used:
        entry = sums[_label(ask, names, ids, None)]
        entry.gpu, entry.cpu = _known(entry.gpu, gpu), _known(entry.cpu, cpu)
    if ask.tenant_id is None:
        _enter_rest(sums, ask, names, holdings, spans)
    return _out(ask, names, sums, spans).model_copy(update={"starts": read_starts(connection)})


def _enter(entry: Sum, ask: Ask, names: Names, holding: Holding) -> None:
    entry.amount += holding.amount
    if ask.prices:
        card = names.cards[holding.device_id]
        entry.cost += ask.prices.of(card.model) * ask.prices.cards(holding.amount, card.memory_mib)


def _known(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


def _label(ask: Ask, names: Names, ids: Mapping[str, int | None], device_id: int | None) -> Label:
    card = names.cards[device_id] if "card" in ask.by and device_id is not None else None
    user_id, job_id = ids.get("user_id"), ids.get("job_id")
    hidden = ask.named_user_id is not None and user_id is not None and user_id != ask.named_user_id
    job = names.jobs.get(job_id or 0, (f"#{job_id}", None)) if job_id and not hidden else (None, None)
    project_id = None if hidden and "project" not in ask.by else ids.get("project_id")
    return Label(
        kind="tenant",
        tenant=names.tenants.get(ids.get("tenant_id") or 0),
        project=names.projects.get(project_id or 0),
        user=OTHERS if hidden else names.users.get(user_id or 0),
        job=job[0],
        job_name=job[1],
        device=card.name if card else None,
        model=card.model if card else None,
    )


def _enter_rest(
    sums: dict[Label, Sum],
    ask: Ask,
    names: Names,
    holdings: Iterable[Holding],
    spans: Mapping[int, Mapping[Any, Amount]],
) -> None:
    """Idle, overhead and unmanaged: per card, its capacity less what was held of it."""
    taken: dict[int, dict[Any, Amount]] = defaultdict(lambda: defaultdict(lambda: ZERO))
    charged: dict[tuple[int, Any], Fraction] = defaultdict(Fraction)
    for holding in holdings:
        taken[holding.device_id][holding.under] += holding.amount
        if ask.prices:
            memory_mib = names.cards[holding.device_id].memory_mib
            charged[holding.device_id, holding.under] += ask.prices.cards(holding.amount, memory_mib)
    for kind in _KINDS[1:] if "card" not in ask.by else ():
        sums[Label(kind)] = Sum()
    for device_id, total in spans.items():
        card = names.cards[device_id]
        shown = {"device": card.name, "model": card.model} if "card" in ask.by else {}
        rest = remainders(total, taken[device_id])
        for under, kind in REMAINDER_OF.items():
            entry = sums[Label(kind, **shown)]
            entry.amount += rest[kind]
            if ask.prices and under in total:
                seconds = Fraction(total[under].card_milliseconds, WHOLE_MILLI)
                entry.cost += ask.prices.of(card.model) * (seconds - charged[device_id, under])


# Writing it out ------------------------------------------------------------------------------


def _out(ask: Ask, names: Names, sums: Mapping[Label, Sum], spans: Mapping[int, Mapping[Any, Amount]]) -> ReportOut:
    entries = sorted(((label, entry) for label, entry in sums.items() if _worth(ask, label, entry)), key=_order)
    rows_sum = sum((entry.amount for _, entry in entries), ZERO)
    whole = sum((amount for total in spans.values() for amount in total.values()), ZERO)
    capacity = whole if ask.tenant_id is None else rows_sum
    costs, total_cost = apportion([entry.cost for _, entry in entries])
    priced = zip(entries, costs if ask.prices else [None] * len(entries), strict=True)
    rows = [_row(label, entry, cost) for (label, entry), cost in priced]
    return ReportOut(
        since_ns=ask.since_s * _NS,
        until_ns=ask.until_s * _NS,
        by=list(ask.by),
        capacity_card_milliseconds=capacity.card_milliseconds,
        capacity_memory_mib_seconds=capacity.memory_mib_seconds,
        rows=rows,
        closes=_closes(rows, capacity),
        simulated=_simulated(names),
        currency=ask.prices.currency if ask.prices else None,
        total_cost=total_cost if ask.prices else None,
        rule=_rule(ask),
        resolution_seconds=ask.marks.resolution(ask.since_s) if ask.since_s < ask.until_s else 1,
    )


def _worth(ask: Ask, label: Label, entry: Sum) -> bool:
    """Whether a row says anything: one of zeros does only as the total of its kind."""
    always = label.kind != "tenant" and "card" not in ask.by
    return always or entry.amount != ZERO or (entry.gpu, entry.cpu) != (None, None)


def _order(item: tuple[Label, Sum]) -> tuple[Any, ...]:
    label, entry = item
    who = (label.tenant, label.project, label.user, label.job, label.device)
    return (_KINDS.index(label.kind), -entry.amount.card_milliseconds, *(part or "" for part in who))


def _row(label: Label, entry: Sum, cost: str | None) -> ReportRow:
    return ReportRow(
        kind=label.kind,
        tenant=label.tenant,
        project=label.project,
        user=label.user,
        job=label.job,
        job_name=label.job_name,
        device=label.device,
        model=label.model,
        card_milliseconds=entry.amount.card_milliseconds,
        memory_mib_seconds=entry.amount.memory_mib_seconds,
        delivered_gpu_milliseconds=entry.gpu,
        cpu_milliseconds=entry.cpu,
        cost=cost,
    )


def _closes(rows: Sequence[ReportRow], capacity: Amount) -> bool:
    """Whether the rows add up to the capacity in both columns, and none of them is below nothing."""
    compute = sum(row.card_milliseconds for row in rows) == capacity.card_milliseconds
    memory = sum(row.memory_mib_seconds for row in rows) == capacity.memory_mib_seconds
    return compute and memory and all(row.card_milliseconds >= 0 and row.memory_mib_seconds >= 0 for row in rows)


def _simulated(names: Names) -> bool | None:
    kinds = {card.simulated for card in names.cards.values()}
    return kinds.pop() if len(kinds) == 1 else None


def _rule(ask: Ask) -> str:
    """How it was counted, in sentences for people."""
    said = ["whole seconds of the ledger's clock, times thousandths of a card"]
    if ask.since_s < ask.marks.fine_s:
        said.append(f"kept by the hour before {format_instant(ask.marks.fine_s * _NS)}")
    if ask.since_s < ask.marks.coarse_s:
        without = " and without jobs" if "job" in ask.by else ""
        said.append(f"by the day{without} before {format_instant(ask.marks.coarse_s * _NS)}")
    if ask.tenant_id is not None:
        said.append("one tenant's part of the books, whose sum stands for the capacity")
    if ask.prices:
        said.append(ask.prices.says)
    return "; ".join(said)
