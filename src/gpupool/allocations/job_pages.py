"""Jobs a page at a time, from the caller's scope: in a fixed number of queries, whatever the length of the list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sqlalchemy as sa

from gpupool.allocations.arrays import view
from gpupool.allocations.job_view import JOB, Row, Why, describe
from gpupool.allocations.reading import called, in_scope, scope
from gpupool.allocations.tables import HAS_REST, IS_LIVE, arrays, jobs
from gpupool.base.errors import InvalidBody
from gpupool.model.job import JobState
from gpupool.model.tenant import Principal
from gpupool.tenancy.tables import tenants, users
from gpupool.wire.common import Page
from gpupool.wire.jobs import JobOut

RECENT_NS = 3600 * 10**9


@dataclass(frozen=True)
class Filter:
    """Which jobs a list shows. `everything` includes those that ended long ago, `live` none that ended."""

    states: frozenset[str] = frozenset()
    name: str | None = None
    tenant: str | None = None
    user: str | None = None
    everything: bool = False
    live: bool = False


def page(
    connection: sa.Connection,
    principal: Principal,
    wanted: Filter,
    now_ns: int,
    after: str | None,
    limit: int,
    why: Why,
) -> Page[JobOut]:
    """What still has to be started of arrays, a line each; live jobs, newest first; the ended ones, latest first.

    Three indexed walks and a fixed few look-ups.
    """
    part, before = _cursor(after)
    rests: list[Row] = []
    if part == "array":
        rests = _walk_rests(connection, principal, wanted, before, limit + 1)
        if len(rests) > limit:
            lines = [view.waiting_rest(row, why) for row in rests[:limit]]
            return Page(items=lines, next=f"array.{rests[limit - 1].id}")
        part, before = "live", None
    found = _page_of_jobs(connection, principal, wanted, now_ns, part, before, limit - len(rests), why)
    return Page(items=[*(view.waiting_rest(row, why) for row in rests), *found.items], next=found.next)


def _page_of_jobs(
    connection: sa.Connection,
    principal: Principal,
    wanted: Filter,
    now_ns: int,
    part: str,
    before: tuple[int, ...] | None,
    limit: int,
    why: Why,
) -> Page[JobOut]:
    rows: list[Row] = []
    if part == "live":
        rows = _walk(connection, principal, wanted, IS_LIVE, (jobs.c.id,), before, limit + 1)
        before = None
    ended_from = len(rows)
    if len(rows) <= limit and not wanted.live:
        ended = jobs.c.ended_ns.is_not(None) if wanted.everything else jobs.c.ended_ns > now_ns - RECENT_NS
        rows += _walk(connection, principal, wanted, ended, (jobs.c.ended_ns, jobs.c.id), before, limit + 1 - len(rows))
    shown = rows[:limit]
    more = None
    if len(rows) > limit and not shown:
        more = f"live.{2**62}"
    elif len(rows) > limit:
        last = shown[-1]
        more = f"live.{last.id}" if limit - 1 < ended_from else f"ended.{last.ended_ns}.{last.id}"
    return Page(items=describe(connection, shown, why), next=more)


def _cursor(after: str | None) -> tuple[str, tuple[int, ...] | None]:
    if after is None:
        return "array", None
    kind, *numbers = after.split(".")
    if kind not in ("array", "live", "ended") or not all(n.isascii() and n.isdigit() and len(n) < 20 for n in numbers):
        raise InvalidBody(f"after={after[:60]!r} is no cursor of this list", hint="use `next` of the page before")
    if len(numbers) != (2 if kind == "ended" else 1):
        raise InvalidBody(f"after={after[:60]!r} is no cursor of this list", hint="use `next` of the page before")
    return kind, tuple(int(n) for n in numbers)


def _walk_rests(
    connection: sa.Connection, principal: Principal, wanted: Filter, before: tuple[int, ...] | None, limit: int
) -> list[Row]:
    """Arrays of which something still has to be started, newest first."""
    if wanted.states and JobState.PENDING not in wanted.states:
        return []
    query = view.ARRAY.where(HAS_REST, in_scope(principal), *_conditions_of_rests(wanted))
    if before is not None:
        query = query.where(arrays.c.id < before[0])
    return list(connection.execute(query.order_by(arrays.c.id.desc()).limit(limit)))


def _conditions_of_rests(wanted: Filter) -> Iterator[sa.ColumnElement[bool]]:
    if wanted.name:
        yield arrays.c.name == wanted.name
    if wanted.tenant:
        yield arrays.c.tenant_id == _key(tenants, wanted.tenant)
    if wanted.user:
        yield arrays.c.user_id == _key(users, wanted.user)


def _walk(
    connection: sa.Connection,
    principal: Principal,
    wanted: Filter,
    part: sa.ColumnElement[bool],
    columns: tuple[sa.ColumnElement[int], ...],
    before: tuple[int, ...] | None,
    limit: int,
) -> list[Row]:
    """Keys first, from one table along one index, and only then what is shown of them."""
    keys = sa.select(jobs.c.id).where(scope(principal), part, *_conditions(principal, wanted)).correlate(None)
    if before is not None:
        keys = keys.where(sa.tuple_(*columns) < sa.tuple_(*map(sa.literal, before)))
    order = [column.desc() for column in columns]
    return list(connection.execute(JOB.where(jobs.c.id.in_(keys.order_by(*order).limit(limit))).order_by(*order)))


def _conditions(principal: Principal, wanted: Filter) -> Iterator[sa.ColumnElement[bool]]:
    if wanted.states:
        yield jobs.c.state.in_(wanted.states)
    if wanted.name:
        yield called(principal, wanted.name)
    if wanted.tenant:
        yield jobs.c.tenant_id == _key(tenants, wanted.tenant)
    if wanted.user:
        yield jobs.c.user_id == _key(users, wanted.user)


def _key(table: sa.Table, name: str) -> sa.ScalarSelect[int]:
    return sa.select(table.c.id).where(table.c.name == name).correlate(None).scalar_subquery()
