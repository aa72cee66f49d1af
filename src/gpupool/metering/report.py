"""Reports: the books of a range of time, added up by whoever is asked for.

Reads only. Adding up is the database's work, so a report's cost follows the number of
kept rows and not the number of seconds. Knows no clock: the range comes in, cut already
where the books can be cut.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from gpupool.base.units import MIB, format_instant
from gpupool.fleet.tables import device_spans, devices, nodes
from gpupool.metering.books import DAY_S, HOUR_S, MICRO, REMAINDER_OF, WHOLE_MILLI, ZERO, Amount, Marks, remainders
from gpupool.metering.prices import Prices, apportion
from gpupool.metering.samples import SLOT_S
from gpupool.metering.tables import delivered, intervals, jobs_view, usage_days, usage_hours
from gpupool.tenancy.tables import projects, tenants, users
from gpupool.wire.report import Kind, ReportOut, ReportRow

BY = ("tenant", "project", "user", "job", "card")
_KEYS: Mapping[str, tuple[str, ...]] = {
    "tenant": ("tenant_id",),
    "project": ("tenant_id", "project_id"),
    "user": ("tenant_id", "user_id"),
    "job": ("tenant_id", "project_id", "user_id", "job_id"),
    "card": (),  # every query is by card anyway: prices and what is left are per card
}
_KINDS: Sequence[Kind] = ("tenant", "idle", "overhead", "unmanaged")
_NS = 10**9
_IDS_AT_ONCE = 5000
OTHERS = "others"


@dataclass(frozen=True)
class Ask:
    """A report to make: range in whole seconds, grouping, and whose rows."""

    since_s: int
    until_s: int
    by: tuple[str, ...]
    marks: Marks
    tenant_id: int | None = None
    """Only this tenant's rows; None: the whole pool, with what is left of it."""
    named_user_id: int | None = None
    """Only this user is named, the rest of the tenant is one row; None: all are."""
    prices: Prices | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        wanted = {key for word in self.by for key in _KEYS[word]}
        return tuple(key for key in _KEYS["job"] if key in wanted)


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


@dataclass(frozen=True)
class Card:
    name: str
    model: str
    memory_mib: int
    simulated: bool


@dataclass
class Names:
    """What ids are called."""

    cards: dict[int, Card] = field(default_factory=dict)
    tenants: dict[int, str] = field(default_factory=dict)
    projects: dict[int, str] = field(default_factory=dict)
    users: dict[int, str] = field(default_factory=dict)
    jobs: dict[int, tuple[str, str]] = field(default_factory=dict)


Used = tuple[Mapping[str, int | None], int | None, int | None]
"""Ids of a group, and its GPU and CPU milliseconds as far as they were measured."""


@dataclass(frozen=True)
class Holding:
    """What one group held of one card in spans of one kind."""

    device_id: int
    under: Any
    ids: Mapping[str, int | None]
    amount: Amount


def make_report(connection: sa.Connection, ask: Ask) -> ReportOut:
    """The whole report. The connection must see one moment of the database. Raises BadOption (prices)."""
    holdings = list(_holdings(connection, ask))
    used = list(_delivered(connection, ask)) if "card" not in ask.by else []
    spans = _capacity(connection, ask) if ask.tenant_id is None else {}
    names = _names(connection, holdings, used, spans)
    sums: dict[Label, Sum] = defaultdict(Sum)
    for holding in holdings:
        _enter(sums[_label(ask, names, holding.ids, holding.device_id)], ask, names, holding)
    for ids, gpu, cpu in used:
        entry = sums[_label(ask, names, ids, None)]
        entry.gpu, entry.cpu = _known(entry.gpu, gpu), _known(entry.cpu, cpu)
    if ask.tenant_id is None:
        _enter_rest(sums, ask, names, holdings, spans)
    return _out(ask, names, sums, spans)


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


# Reading -------------------------------------------------------------------------------------


def _least(one: Any, other: Any) -> Any:
    return sa.case((one < other, one), else_=other)


def _greatest(one: Any, other: Any) -> Any:
    return sa.case((one > other, one), else_=other)


def _total(value: Any) -> Any:
    return sa.cast(sa.func.sum(value), sa.BigInteger)  # PostgreSQL's sum of bigint is numeric


def _holdings(connection: sa.Connection, ask: Ask) -> Iterator[Holding]:
    """What was held, from all three ages of the books."""
    queries = [_from_intervals(ask)]
    if ask.since_s < ask.marks.fine_s:
        queries.append(_from_sums(ask, usage_hours, usage_hours.c.hour_s))
    if ask.since_s < ask.marks.coarse_s:
        queries.append(_from_sums(ask, usage_days, usage_days.c.day_s))
    for query in queries:
        for row in connection.execute(query):
            amount = Amount(row.card_milliseconds, row.memory_mib_seconds, row.dominant_micro_seconds)
            yield Holding(row.device_id, row.under, {key: row._mapping[key] for key in ask.keys}, amount)


def _from_sums(ask: Ask, table: sa.Table, slot: sa.Column[int]) -> sa.Select[Any]:
    keys = [table.c[key] if key in table.c else sa.null().label(key) for key in ask.keys]
    amounts = ("card_milliseconds", "memory_mib_seconds", "dominant_micro_seconds")
    query = sa.select(
        table.c.device_id, table.c.under, *keys, *(_total(table.c[name]).label(name) for name in amounts)
    ).where(slot >= ask.since_s, slot < ask.until_s)
    if ask.tenant_id is not None:
        query = query.where(table.c.tenant_id == ask.tenant_id)
    return query.group_by(table.c.device_id, table.c.under, *(table.c[key] for key in ask.keys if key in table.c))


def _from_intervals(ask: Ask) -> sa.Select[Any]:
    i, s = intervals.c, device_spans.c
    i_end, s_end = (_least(sa.func.coalesce(column, ask.until_s), ask.until_s) for column in (i.end_s, s.end_s))
    counted = _least(i_end, s_end) - _greatest(_greatest(i.start_s, s.start_s), ask.since_s)
    by_memory = sa.case((s.memory_mib > 0, i.memory_mib * MICRO // _greatest(s.memory_mib, 1)), else_=0)
    dominant = _greatest(i.gpu_milli * (MICRO // WHOLE_MILLI), by_memory)
    keys = [i[key] for key in ask.keys]
    query = (
        sa.select(
            i.device_id,
            s.kind.label("under"),
            *keys,
            _total(i.gpu_milli * counted).label("card_milliseconds"),
            _total(i.memory_mib * counted).label("memory_mib_seconds"),
            _total(dominant * counted).label("dominant_micro_seconds"),
        )
        .join_from(intervals, device_spans, i.device_id == s.device_id)
        .where(i.start_s < ask.until_s, sa.or_(i.end_s.is_(None), i.end_s > ask.since_s))
        .where(s.start_s < i_end, i.start_s < s_end, s_end > ask.since_s)
    )
    if ask.tenant_id is not None:
        query = query.where(i.tenant_id == ask.tenant_id)
    return query.group_by(i.device_id, s.kind, *keys)


def _capacity(connection: sa.Connection, ask: Ask) -> Mapping[int, Mapping[Any, Amount]]:
    """Per card and kind of span, what the card gave in the range."""
    s = device_spans.c
    counted = _least(sa.func.coalesce(s.end_s, ask.until_s), ask.until_s) - _greatest(s.start_s, ask.since_s)
    query = sa.select(
        s.device_id, s.kind, _total(counted).label("seconds"), _total(s.memory_mib * counted).label("memory")
    ).where(s.start_s < ask.until_s, sa.or_(s.end_s.is_(None), s.end_s > ask.since_s))
    found: dict[int, dict[Any, Amount]] = defaultdict(dict)
    for row in connection.execute(query.group_by(s.device_id, s.kind)):
        found[row.device_id][row.kind] = Amount(WHOLE_MILLI * row.seconds, row.memory, MICRO * row.seconds)
    return found


def _delivered(connection: sa.Connection, ask: Ask) -> Iterator[Used]:
    """Measured use by the same groups, to the slot: five minutes, an hour, or a day."""
    d = delivered.c
    keys = [d[key] for key in ask.keys]
    query = sa.select(*keys, _total(d.gpu_milliseconds).label("gpu"), _total(d.cpu_milliseconds).label("cpu"))
    widths = sa.or_(
        sa.and_(d.width_s == SLOT_S, d.slot_s >= ask.since_s - ask.since_s % SLOT_S),
        sa.and_(d.width_s.in_([HOUR_S, DAY_S]), d.slot_s >= ask.since_s),
    )
    query = query.where(widths, d.slot_s < ask.until_s)
    if ask.tenant_id is not None:
        query = query.where(d.tenant_id == ask.tenant_id)
    for row in connection.execute(query.group_by(*keys) if keys else query):
        if (row.gpu, row.cpu) != (None, None):
            yield {key: row._mapping[key] or None for key in ask.keys}, row.gpu, row.cpu


def _names(
    connection: sa.Connection,
    holdings: Sequence[Holding],
    used: Sequence[Used],
    spans: Mapping[int, Any],
) -> Names:
    ids: dict[str, set[int]] = defaultdict(set)
    for group in [*(holding.ids for holding in holdings), *(entry[0] for entry in used)]:
        for key, value in group.items():
            if value:
                ids[key].add(value)
    cards = sa.select(devices, nodes.c.name.label("node")).join(nodes, nodes.c.id == devices.c.node_id)
    wanted = {holding.device_id for holding in holdings} | set(spans)
    return Names(
        cards={row.id: _card(row) for row in _rows(connection, cards, devices.c.id, wanted)},
        tenants={row.id: row.name for row in _rows(connection, sa.select(tenants), tenants.c.id, ids["tenant_id"])},
        projects={row.id: row.name for row in _rows(connection, sa.select(projects), projects.c.id, ids["project_id"])},
        users={row.id: row.name for row in _rows(connection, sa.select(users), users.c.id, ids["user_id"])},
        jobs={
            row.id: (row.public_id, row.name)
            for row in _rows(connection, sa.select(jobs_view), jobs_view.c.id, ids["job_id"])
        },
    )


def _card(row: Any) -> Card:
    return Card(f"{row.node}:{row.idx}", row.model, row.memory_bytes // MIB, row.simulated)


def _rows(connection: sa.Connection, query: sa.Select[Any], column: Any, ids: Iterable[int]) -> Iterator[Any]:
    """Rows of many ids, as many at a time as every database takes."""
    wanted = sorted(ids)
    for start in range(0, len(wanted), _IDS_AT_ONCE):
        yield from connection.execute(query.where(column.in_(wanted[start : start + _IDS_AT_ONCE])))
