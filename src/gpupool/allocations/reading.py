"""Which jobs a caller sees, by name or a page at a time: from the caller's scope, in a fixed number of queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from gpupool.allocations.job_view import JOB, Row, Why, describe
from gpupool.allocations.tables import IS_LIVE, jobs
from gpupool.base.errors import InvalidBody, NotFound
from gpupool.base.ids import is_id
from gpupool.model.job import ENDED, LIVE
from gpupool.model.tenant import Permission, Principal
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


def scope(principal: Principal) -> sa.ColumnElement[bool]:
    """What the caller may see of `jobs`."""
    return sa.true() if principal.sees_all else jobs.c.tenant_id == principal.tenant_id


def may_see_inside(principal: Principal, user: str) -> bool:
    """Whether the caller may see command, output and processes of that user's jobs, which are in its scope already."""
    return user == principal.user or principal.may(Permission.MANAGE_TENANT)


def shown(principal: Principal, job: JobOut) -> JobOut:
    """The job as this caller is shown it: of a colleague's what it holds and how it stands, not what it does."""
    if may_see_inside(principal, job.user):
        return job
    use = None if job.use is None else job.use.model_copy(update={"processes": []})
    return job.model_copy(update={"command": [], "attach_socket": None, "use": use, "private": True})


def find(connection: sa.Connection, principal: Principal, named: str) -> Row:
    """A job by id, by name (the live one, else the newest), or `last` (the caller's newest). Raises NotFound.

    The name of an array or a gang is its first job.
    """
    query, newest = sa.select(jobs).limit(1), jobs.c.id.desc()
    if is_id(named):
        query = query.where(scope(principal), jobs.c.public_id == named)
    elif named == "last":
        query = query.where(scope(principal), jobs.c.user_id == principal.user_id).order_by(newest)
    else:
        query = query.where(_in_tenants(principal), jobs.c.name == named)
        query = query.order_by(jobs.c.state.in_(ENDED), newest)
    row = connection.execute(query).one_or_none()
    if row is None and not is_id(named) and named != "last":
        first = sa.select(jobs).where(_in_tenants(principal), jobs.c.array_name == named)
        row = connection.execute(first.order_by(jobs.c.submitted_ns.desc(), jobs.c.array_index).limit(1)).one_or_none()
    if row is None:
        raise _no_job(named)
    return row


def find_all_live(connection: sa.Connection, principal: Principal, named: str) -> Sequence[Row]:
    """The live jobs of that id, name or array. Raises NotFound when nothing was ever called so."""
    query = sa.select(jobs).where(scope(principal))
    match = jobs.c.public_id == named if is_id(named) else _called(principal, named)
    rows = connection.execute(query.where(match, jobs.c.state.in_(LIVE))).all()
    if not rows and connection.execute(query.where(match).limit(1)).one_or_none() is None:
        raise _no_job(named)
    return rows


def _in_tenants(principal: Principal) -> sa.ColumnElement[bool]:
    """The caller's scope in the words of the indexes on names, which begin with the tenant."""
    return jobs.c.tenant_id.in_(sa.select(tenants.c.id)) if principal.sees_all else scope(principal)


def _called(principal: Principal, name: str) -> sa.ColumnElement[bool]:
    """Jobs of a name or of an array: two look-ups, where an OR would read all jobs of the tenant."""
    ids = sa.select(jobs.c.id).where(_in_tenants(principal)).correlate(None)
    return jobs.c.id.in_(sa.union_all(ids.where(jobs.c.name == name), ids.where(jobs.c.array_name == name)))


def _no_job(named: str) -> NotFound:
    return NotFound(f"there is no job {named!r}", hint="gpupool ps --all  lists yours")


def page(
    connection: sa.Connection,
    principal: Principal,
    wanted: Filter,
    now_ns: int,
    after: str | None,
    limit: int,
    why: Why,
) -> Page[JobOut]:
    """Live jobs first, newest first, then the ended ones, latest first. Two indexed walks and a fixed few look-ups."""
    part, before = _cursor(after)
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
    if len(rows) > limit:
        last = shown[-1]
        more = f"live.{last.id}" if limit - 1 < ended_from else f"ended.{last.ended_ns}.{last.id}"
    return Page(items=describe(connection, shown, why), next=more)


def _cursor(after: str | None) -> tuple[str, tuple[int, ...] | None]:
    if after is None:
        return "live", None
    kind, *numbers = after.split(".")
    if kind not in ("live", "ended") or not all(n.isascii() and n.isdigit() and len(n) < 20 for n in numbers):
        raise InvalidBody(f"after={after[:60]!r} is no cursor of this list", hint="use `next` of the page before")
    if len(numbers) != (1 if kind == "live" else 2):
        raise InvalidBody(f"after={after[:60]!r} is no cursor of this list", hint="use `next` of the page before")
    return kind, tuple(int(n) for n in numbers)


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
        yield _called(principal, wanted.name)
    if wanted.tenant:
        yield jobs.c.tenant_id == _key(tenants, wanted.tenant)
    if wanted.user:
        yield jobs.c.user_id == _key(users, wanted.user)


def _key(table: sa.Table, name: str) -> sa.ScalarSelect[int]:
    return sa.select(table.c.id).where(table.c.name == name).correlate(None).scalar_subquery()
