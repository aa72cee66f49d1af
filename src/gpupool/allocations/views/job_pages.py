"""Pages of jobs in the caller's scope, with a fixed number of queries for any length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sqlalchemy as sa

from gpupool.allocations.arrays import view
from gpupool.allocations.store.tables import HAS_REST, IS_LIVE, arrays, claims, jobs
from gpupool.allocations.views.job import JOB, Row, WaitReason, describe_jobs
from gpupool.allocations.views.list import arrays_in_scope, find_named_jobs, jobs_in_scope
from gpupool.base.errors import InvalidBody
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.job import JobState
from gpupool.model.tenant import Principal
from gpupool.tenancy.tables import projects, tenants, users
from gpupool.wire.common import Page
from gpupool.wire.jobs import JobOut

#: A list shows jobs that ended within the last hour, unless it is asked for all.
RECENT_NS = 3600 * NANOS_PER_SECOND


#: The numbers in a cursor, by the part of the list in which it stands.
_CURSOR_FIELDS = {"array": 1, "live": 1, "ended": 2}


@dataclass(frozen=True)
class JobFilter:
    """Which jobs a list shows. `everything` adds long ended ones, `live` shows no ended ones."""

    states: frozenset[str] = frozenset()
    name: str | None = None
    tenant: str | None = None
    user: str | None = None
    everything: bool = False
    live: bool = False
    project: str | None = None
    #: Part of a name, user or image, or the beginning of an id: of `job_search` alone.
    text: str | None = None


def read_page(
    connection: sa.Connection,
    principal: Principal,
    wanted: JobFilter,
    now_ns: int,
    after: str | None,
    limit: int,
    why: WaitReason,
) -> Page[JobOut]:
    """Read a page: rests of arrays, then live jobs, then ended jobs, newest first."""
    part, before = _parse_cursor(after)
    rests: list[Row] = []
    if part == "array":
        rests = read_rests(connection, principal, wanted, before, limit + 1)
        if len(rests) > limit:
            lines = [view.describe_rest(row, why) for row in rests[:limit]]
            return Page(items=lines, next=f"array.{rests[limit - 1].id}")
        part = "live"
        before = None
    found = _read_jobs(connection, principal, wanted, now_ns, part, before, limit - len(rests), why)
    items = [view.describe_rest(row, why) for row in rests]
    items += found.items
    return Page(items=items, next=found.next)


def _read_jobs(
    connection: sa.Connection,
    principal: Principal,
    wanted: JobFilter,
    now_ns: int,
    part: str,
    before: tuple[int, ...] | None,
    limit: int,
    why: WaitReason,
) -> Page[JobOut]:
    rows: list[Row] = []
    if part == "live":
        rows = _read_keys(connection, principal, wanted, IS_LIVE, (jobs.c.id,), before, limit + 1)
        before = None
    ended_from = len(rows)
    if len(rows) <= limit and not wanted.live:
        ended = jobs.c.ended_ns > now_ns - RECENT_NS
        if wanted.everything:
            ended = jobs.c.ended_ns.is_not(None)
        rows += _read_keys(
            connection,
            principal,
            wanted,
            ended,
            (jobs.c.ended_ns, jobs.c.id),
            before,
            limit + 1 - len(rows),
        )
    shown = rows[:limit]
    more = None
    # One row beyond the page says whether there is another page. Rests may have filled this one.
    if len(rows) > limit and not shown:
        more = f"live.{2**62}"
    elif len(rows) > limit:
        last = shown[-1]
        more = f"live.{last.id}" if limit - 1 < ended_from else f"ended.{last.ended_ns}.{last.id}"
    return Page(items=describe_jobs(connection, shown, why), next=more)


def _parse_cursor(after: str | None) -> tuple[str, tuple[int, ...] | None]:
    if after is None:
        return "array", None
    kind, *numbers = after.split(".")
    fields = _CURSOR_FIELDS.get(kind)
    if len(numbers) != fields or not all(map(_is_number, numbers)):
        raise InvalidBody(
            f"after={after[:60]!r} is no cursor of this list", hint="use `next` of the page before"
        )
    return kind, tuple(map(int, numbers))


def _is_number(text: str) -> bool:
    # As many digits as an integer of the database has at most.
    return text.isascii() and text.isdigit() and len(text) < 20


def read_rests(
    connection: sa.Connection,
    principal: Principal,
    wanted: JobFilter,
    before: tuple[int, ...] | None,
    limit: int,
) -> list[Row]:
    """Read the arrays with a rest, newest first."""
    if wanted.states and JobState.PENDING not in wanted.states:
        return []
    query = view.ARRAY.where(HAS_REST, arrays_in_scope(principal), *_list_rest_conditions(wanted))
    if before is not None:
        query = query.where(arrays.c.id < before[0])
    return list(connection.execute(query.order_by(arrays.c.id.desc()).limit(limit)))


def _list_rest_conditions(wanted: JobFilter) -> Iterator[sa.ColumnElement[bool]]:
    if wanted.name:
        yield arrays.c.name == wanted.name
    if wanted.tenant:
        yield arrays.c.tenant_id == _order_key(tenants, wanted.tenant)
    if wanted.user:
        yield arrays.c.user_id == _order_key(users, wanted.user)
    if wanted.project:
        yield arrays.c.project_id.in_(_select_projects(wanted.project))
    if wanted.text:
        text = wanted.text.lower()
        yield sa.or_(
            sa.func.lower(arrays.c.name).contains(text, autoescape=True),
            arrays.c.public_id.startswith(text, autoescape=True),
            sa.func.lower(users.c.name).contains(text, autoescape=True),
            sa.func.lower(claims.c.image).contains(text, autoescape=True),
        )


def _read_keys(
    connection: sa.Connection,
    principal: Principal,
    wanted: JobFilter,
    part: sa.ColumnElement[bool],
    columns: tuple[sa.ColumnElement[int], ...],
    before: tuple[int, ...] | None,
    limit: int,
) -> list[Row]:
    # Keys first, from one table along one index, and only then what is shown of them: the join of
    # all tables would be sorted as a whole.
    keys = (
        sa.select(jobs.c.id)
        .where(jobs_in_scope(principal), part, *list_conditions(principal, wanted))
        .correlate(None)
    )
    if before is not None:
        keys = keys.where(sa.tuple_(*columns) < sa.tuple_(*map(sa.literal, before)))
    order = [column.desc() for column in columns]
    page = jobs.c.id.in_(keys.order_by(*order).limit(limit))
    return list(connection.execute(JOB.where(page).order_by(*order)))


def list_conditions(
    principal: Principal, wanted: JobFilter, *, has_tenant: bool = True, has_user: bool = True
) -> Iterator[sa.ColumnElement[bool]]:
    """List the conditions on `jobs` of a filter.

    Args:
        principal: The caller.
        wanted: The filter.
        has_tenant: Whether to check the tenant; no where the caller does.
        has_user: Whether to check the user.
    """
    if wanted.states:
        yield jobs.c.state.in_(wanted.states)
    if wanted.name:
        yield find_named_jobs(principal, wanted.name)
    if wanted.project:
        yield jobs.c.project_id.in_(_select_projects(wanted.project))
    if wanted.tenant and has_tenant:
        yield jobs.c.tenant_id == _order_key(tenants, wanted.tenant)
    if wanted.user and has_user:
        yield jobs.c.user_id == _order_key(users, wanted.user)


def _select_projects(name: str) -> sa.Select[tuple[int]]:
    # Several tenants may have a project of one name: the scope is another condition.
    return sa.select(projects.c.id).where(projects.c.name == name).correlate(None)


def _order_key(table: sa.Table, name: str) -> sa.ScalarSelect[int]:
    return sa.select(table.c.id).where(table.c.name == name).correlate(None).scalar_subquery()
