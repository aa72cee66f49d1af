"""Reading the books for a report: in one range, what was held of each card and by which tenant, and what was used.

Adding up is the database's work, so the cost follows the number of kept rows and not the number of seconds. Who may see
which row was settled before (`Ask`), and what becomes of the sums is `report`'s.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from gpupool.base.units import MIB
from gpupool.fleet.tables import device_spans, devices, nodes
from gpupool.metering.books import DAY_S, HOUR_S, MICRO, WHOLE_MILLI, Amount, Marks
from gpupool.metering.prices import Prices
from gpupool.metering.samples import SLOT_S
from gpupool.metering.tables import cluster_holds, delivered, intervals, jobs_view, usage_days, usage_hours
from gpupool.tenancy.tables import projects, tenants, users

BY = ("tenant", "project", "user", "job", "card")
_KEYS: Mapping[str, tuple[str, ...]] = {
    "tenant": ("tenant_id",),
    "project": ("tenant_id", "project_id"),
    "user": ("tenant_id", "user_id"),
    "job": ("tenant_id", "project_id", "user_id", "job_id"),
    "card": (),  # every query is by card anyway: prices and what is left are per card
}
_IDS_AT_ONCE = 5000


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


# What was held, given and used ----------------------------------------------------------------


def read_holdings(connection: sa.Connection, ask: Ask) -> Iterator[Holding]:
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


def read_capacity(connection: sa.Connection, ask: Ask) -> Mapping[int, Mapping[Any, Amount]]:
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


def read_delivered(connection: sa.Connection, ask: Ask) -> Iterator[Used]:
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


def _least(one: Any, other: Any) -> Any:
    return sa.case((one < other, one), else_=other)


def _greatest(one: Any, other: Any) -> Any:
    return sa.case((one > other, one), else_=other)


def _total(value: Any) -> Any:
    return sa.cast(sa.func.sum(value), sa.BigInteger)  # PostgreSQL's sum of bigint is numeric


# What ids are called --------------------------------------------------------------------------


def read_names(
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
        jobs=_jobs(connection, ids["job_id"]),
    )


def _jobs(connection: sa.Connection, ids: Iterable[int]) -> dict[int, tuple[str, str]]:
    """(id, name) of jobs, and of pods, whose numbers are negative."""
    h, wanted = cluster_holds.c, set(ids)
    ours = _rows(connection, sa.select(jobs_view), jobs_view.c.id, {key for key in wanted if key > 0})
    pods = _rows(connection, sa.select(cluster_holds), h.id, {-key for key in wanted if key < 0})
    return {row.id: (row.public_id, row.name) for row in ours} | {-row.id: (row.uid, row.name) for row in pods}


def _card(row: Any) -> Card:
    return Card(f"{row.node}:{row.idx}", row.model, row.memory_bytes // MIB, row.simulated)


def _rows(connection: sa.Connection, query: sa.Select[Any], column: Any, ids: Iterable[int]) -> Iterator[Any]:
    """Rows of many ids, as many at a time as every database takes."""
    wanted = sorted(ids)
    for start in range(0, len(wanted), _IDS_AT_ONCE):
        yield from connection.execute(query.where(column.in_(wanted[start : start + _IDS_AT_ONCE])))
