"""Read the books for a report: what was held of each card by which tenant, and what was used.

The database adds up, so the cost follows the number of stored rows and not the number of seconds.
The query (`ReportQuery`) already says whose rows the caller may see; `report` uses the sums.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import BadOption
from gpupool.base.units import MIB
from gpupool.fleet.tables import device_spans, devices, nodes
from gpupool.metering.books import DAY_S, HOUR_S, MICRO, WHOLE_MILLI, RollupMarks, UsageAmount
from gpupool.metering.prices import PriceList
from gpupool.metering.samples import SLOT_S, SUM_COLUMNS, UNKNOWN_SUMS, RunningSums
from gpupool.metering.tables import (
    allocations_view,
    claims_view,
    cluster_holds,
    delivered,
    intervals,
    jobs_view,
    usage_days,
    usage_hours,
)
from gpupool.tenancy.tables import projects, tenants, users

BY = ("tenant", "project", "user", "job", "card")
_KEYS: Mapping[str, tuple[str, ...]] = {
    "tenant": ("tenant_id",),
    "project": ("tenant_id", "project_id"),
    "user": ("tenant_id", "user_id"),
    "job": ("tenant_id", "project_id", "user_id", "job_id"),
    "card": (),  # every query is by card anyway: prices and what is left are per card
}
#: Ids in one `IN (...)`: SQLite takes 32,766 variables in a statement.
_IDS_AT_ONCE = 5000


_TAKEN = allocations_view.c
#: Jobs with the sharing that they asked for, and that of their latest allocation's node.
_JOBS = sa.select(
    jobs_view,
    claims_view.c.sharing,
    sa.select(_TAKEN.sharing)
    .where(_TAKEN.job_id == jobs_view.c.id)
    .order_by(_TAKEN.id.desc())
    .limit(1)
    .scalar_subquery()
    .label("taken"),
).outerjoin_from(jobs_view, claims_view, claims_view.c.id == jobs_view.c.claim_id)


@dataclass(frozen=True)
class ReportQuery:
    """A report to make: range in whole seconds, grouping, and whose rows."""

    since_s: int
    until_s: int
    by: tuple[str, ...]
    marks: RollupMarks
    #: Only this tenant's rows; None: the whole pool, with what is left of it.
    tenant_id: int | None = None
    #: Only this user is named, the rest of the tenant is one row; None: all are.
    named_user_id: int | None = None
    prices: PriceList | None = None

    @property
    def key_columns(self) -> tuple[str, ...]:
        wanted: set[str] = set()
        for word in self.by:
            wanted.update(_KEYS[word])
        # In one order, whatever the order of the words: the columns of all queries agree.
        return tuple(key for key in _KEYS["job"] if key in wanted)


def check_grouping(by: Sequence[str]) -> tuple[str, ...]:
    """Grouping words, each once, in the books' order. Raises BadOption."""
    unknown = [word for word in by if word not in BY]
    if unknown:
        raise BadOption(f"cannot report by {unknown[0][:40]!r}", hint=f"by: {', '.join(BY)}")
    return tuple(word for word in BY if word in by)


@dataclass(frozen=True)
class CardFacts:
    name: str
    model: str
    memory_mib: int
    simulated: bool


@dataclass(frozen=True)
class JobFacts:
    id: str
    name: str
    #: None: a pod, whose kind of sharing the books do not know.
    sharing: str | None = None


@dataclass
class NameIndex:
    """The names of the ids that a report needs."""

    cards: dict[int, CardFacts] = field(default_factory=dict)
    tenants: dict[int, str] = field(default_factory=dict)
    projects: dict[int, str] = field(default_factory=dict)
    users: dict[int, str] = field(default_factory=dict)
    jobs: dict[int, JobFacts] = field(default_factory=dict)


#: Ids of a group, and what its jobs used as far as it was measured.
GroupUse = tuple[Mapping[str, int | None], RunningSums]


@dataclass(frozen=True)
class GroupHolding:
    """What one group held of one card in spans of one kind."""

    device_id: int
    under: Any
    ids: Mapping[str, int | None]
    amount: UsageAmount


# What was held, given and used ----------------------------------------------------------------


def read_holdings(connection: sa.Connection, ask: ReportQuery) -> Iterator[GroupHolding]:
    """Read what was held, from the tables of all three ages."""
    queries = [_select_intervals(ask)]
    if ask.since_s < ask.marks.fine_s:
        queries.append(_select_sums(ask, usage_hours, usage_hours.c.hour_s))
    if ask.since_s < ask.marks.coarse_s:
        queries.append(_select_sums(ask, usage_days, usage_days.c.day_s))
    for query in queries:
        for row in connection.execute(query):
            amount = UsageAmount(
                row.card_milliseconds, row.memory_mib_seconds, row.dominant_micro_seconds
            )
            yield GroupHolding(
                row.device_id,
                row.under,
                {key: row._mapping[key] for key in ask.key_columns},
                amount,
            )


def _select_sums(ask: ReportQuery, table: sa.Table, slot: sa.Column[int]) -> sa.Select[Any]:
    # A table of days has no jobs: there the column is null, and rows of it are not grouped by it.
    keys: list[Any] = []
    stored_keys: list[Any] = []
    for key in ask.key_columns:
        if key in table.c:
            stored_keys.append(table.c[key])
            keys.append(table.c[key])
        else:
            keys.append(sa.null().label(key))
    amounts = ("card_milliseconds", "memory_mib_seconds", "dominant_micro_seconds")
    query = sa.select(
        table.c.device_id,
        table.c.under,
        *keys,
        *(sum_bigint(table.c[name]).label(name) for name in amounts),
    ).where(slot >= ask.since_s, slot < ask.until_s)
    if ask.tenant_id is not None:
        query = query.where(table.c.tenant_id == ask.tenant_id)
    return query.group_by(table.c.device_id, table.c.under, *stored_keys)


def _select_intervals(ask: ReportQuery) -> sa.Select[Any]:
    i = intervals.c
    s = device_spans.c
    i_end = choose_least(sa.func.coalesce(i.end_s, ask.until_s), ask.until_s)
    s_end = choose_least(sa.func.coalesce(s.end_s, ask.until_s), ask.until_s)
    counted = choose_least(i_end, s_end) - choose_greatest(
        choose_greatest(i.start_s, s.start_s), ask.since_s
    )
    by_memory = sa.case(
        (s.memory_mib > 0, i.memory_mib * MICRO // choose_greatest(s.memory_mib, 1)), else_=0
    )
    dominant = choose_greatest(i.gpu_milli * (MICRO // WHOLE_MILLI), by_memory)
    keys = [i[key] for key in ask.key_columns]
    query = (
        sa.select(
            i.device_id,
            s.kind.label("under"),
            *keys,
            sum_bigint(i.gpu_milli * counted).label("card_milliseconds"),
            sum_bigint(i.memory_mib * counted).label("memory_mib_seconds"),
            sum_bigint(dominant * counted).label("dominant_micro_seconds"),
        )
        .join_from(intervals, device_spans, i.device_id == s.device_id)
        .where(i.start_s < ask.until_s, sa.or_(i.end_s.is_(None), i.end_s > ask.since_s))
        .where(s.start_s < i_end, i.start_s < s_end, s_end > ask.since_s)
    )
    if ask.tenant_id is not None:
        query = query.where(i.tenant_id == ask.tenant_id)
    return query.group_by(i.device_id, s.kind, *keys)


def read_capacity(
    connection: sa.Connection, ask: ReportQuery
) -> Mapping[int, Mapping[Any, UsageAmount]]:
    """Read what each card gave in the range, by kind of span."""
    s = device_spans.c
    counted = choose_least(sa.func.coalesce(s.end_s, ask.until_s), ask.until_s) - choose_greatest(
        s.start_s, ask.since_s
    )
    query = sa.select(
        s.device_id,
        s.kind,
        sum_bigint(counted).label("seconds"),
        sum_bigint(s.memory_mib * counted).label("memory"),
    ).where(s.start_s < ask.until_s, sa.or_(s.end_s.is_(None), s.end_s > ask.since_s))
    found: dict[int, dict[Any, UsageAmount]] = defaultdict(dict)
    for row in connection.execute(query.group_by(s.device_id, s.kind)):
        found[row.device_id][row.kind] = UsageAmount(
            WHOLE_MILLI * row.seconds, row.memory, MICRO * row.seconds
        )
    return found


def read_delivered(connection: sa.Connection, ask: ReportQuery) -> Iterator[GroupUse]:
    """Read measured use by the same groups, to the slot: five minutes, an hour, or a day."""
    d = delivered.c
    keys = [d[key] for key in ask.key_columns]
    query = sa.select(*keys, *(sum_bigint(d[name]).label(name) for name in SUM_COLUMNS))
    widths = sa.or_(
        sa.and_(d.width_s == SLOT_S, d.slot_s >= ask.since_s - ask.since_s % SLOT_S),
        sa.and_(d.width_s.in_([HOUR_S, DAY_S]), d.slot_s >= ask.since_s),
    )
    query = query.where(widths, d.slot_s < ask.until_s)
    if ask.tenant_id is not None:
        query = query.where(d.tenant_id == ask.tenant_id)
    for row in connection.execute(query.group_by(*keys) if keys else query):
        sums = RunningSums(*(row._mapping[name] for name in SUM_COLUMNS))
        if sums != UNKNOWN_SUMS:
            yield {key: row._mapping[key] or None for key in ask.key_columns}, sums


def choose_least(one: Any, other: Any) -> Any:
    """The lesser of two values; SQLite and PostgreSQL have no function in common for it."""
    return sa.case((one < other, one), else_=other)


def choose_greatest(one: Any, other: Any) -> Any:
    """The greater of two values."""
    return sa.case((one > other, one), else_=other)


def sum_bigint(value: Any) -> Any:
    """The sum as an integer."""
    return sa.cast(sa.func.sum(value), sa.BigInteger)  # PostgreSQL's sum of bigint is numeric


# What ids are called --------------------------------------------------------------------------


def read_names(
    connection: sa.Connection,
    holdings: Sequence[GroupHolding],
    groups: Iterable[Mapping[str, int | None]],
    spans: Mapping[int, Any],
) -> NameIndex:
    """Read the names of what holds cards, of other groups and of the cards of the spans."""
    ids: dict[str, set[int]] = defaultdict(set)
    wanted = set(spans)
    for holding in holdings:
        wanted.add(holding.device_id)
        _collect_ids(ids, holding.ids)
    for group in groups:
        _collect_ids(ids, group)
    query = sa.select(devices, nodes.c.name.label("node")).join(
        nodes, nodes.c.id == devices.c.node_id
    )
    cards: dict[int, CardFacts] = {}
    for row in _read_by_ids(connection, query, devices.c.id, wanted):
        cards[row.id] = _describe_card(row)
    return NameIndex(
        cards=cards,
        tenants=_read_table_names(connection, tenants, ids["tenant_id"]),
        projects=_read_table_names(connection, projects, ids["project_id"]),
        users=_read_table_names(connection, users, ids["user_id"]),
        jobs=_read_jobs(connection, ids["job_id"]),
    )


def _collect_ids(ids: dict[str, set[int]], group: Mapping[str, int | None]) -> None:
    for key, value in group.items():
        # 0 and None: a day's row has no job.
        if value:
            ids[key].add(value)


def _read_table_names(
    connection: sa.Connection, table: sa.Table, ids: Iterable[int]
) -> dict[int, str]:
    rows = _read_by_ids(connection, sa.select(table), table.c.id, ids)
    return {row.id: row.name for row in rows}


def _read_jobs(connection: sa.Connection, ids: Iterable[int]) -> dict[int, JobFacts]:
    """Read jobs, and pods, whose numbers are negative."""
    job_ids: set[int] = set()
    pod_ids: set[int] = set()
    for number in ids:
        if number > 0:
            job_ids.add(number)
        else:
            pod_ids.add(-number)
    names: dict[int, JobFacts] = {}
    for row in _read_by_ids(connection, _JOBS, jobs_view.c.id, job_ids):
        names[row.id] = JobFacts(row.public_id, row.name, row.taken or row.sharing)
    pods = sa.select(cluster_holds)
    for row in _read_by_ids(connection, pods, cluster_holds.c.id, pod_ids):
        names[-row.id] = JobFacts(row.uid, row.name)
    return names


def _describe_card(row: Any) -> CardFacts:
    return CardFacts(f"{row.node}:{row.idx}", row.model, row.memory_bytes // MIB, row.simulated)


def _read_by_ids(
    connection: sa.Connection, query: sa.Select[Any], column: Any, ids: Iterable[int]
) -> Iterator[Any]:
    """Yield the rows of many ids, as many at a time as every database takes."""
    wanted = sorted(ids)
    for start in range(0, len(wanted), _IDS_AT_ONCE):
        yield from connection.execute(query.where(column.in_(wanted[start : start + _IDS_AT_ONCE])))
