"""Search of jobs: filters, an order, and pages by key. A page reads a bounded number of rows.

Each order follows one index of `jobs`. A page examines at most `EXAMINED` rows of it, so a filter
that matches few of a million jobs gets a short page and a cursor that goes on behind these rows: a
list costs the same however long its history is (decision 0099).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import sqlalchemy as sa

from gpupool.allocations.arrays import view
from gpupool.allocations.store.tables import claims, jobs
from gpupool.allocations.views.job import JOB, Row, WaitReason, describe_jobs
from gpupool.allocations.views.job_pages import JobFilter, list_conditions, read_rests
from gpupool.base.errors import BadOption, InvalidBody
from gpupool.model.job import LIVE
from gpupool.model.tenant import Principal
from gpupool.tenancy.tables import tenants, users
from gpupool.wire.jobs import JobOut
from gpupool.wire.views.job_pages import JobPage

#: Rows of the order that a page examines, at first and at most: most filters match often.
EXAMINED = (1000, 20_000)
#: Rows that are counted for the total; of more, it is an estimate.
COUNTED = 10_000
#: By its word, the column of an order, and whether some jobs have no value in it.
ORDERS: Mapping[str, tuple[sa.Column[Any], bool]] = MappingProxyType(
    {
        "submitted": (jobs.c.submitted_ns, False),
        "started": (jobs.c.started_ns, True),
        "ended": (jobs.c.ended_ns, True),
        "name": (jobs.c.name, False),
        "gpu": (jobs.c.total_milli, False),
    }
)
DEFAULT_ORDER = "-submitted"
#: The parts of a list: rests of arrays, jobs with a value in the order, jobs without one.
_RESTS = "rests"
_VALUES = "values"
_EMPTY = "empty"
_PARTS = (_RESTS, _VALUES, _EMPTY)


@dataclass(frozen=True)
class JobSearch:
    """Which jobs to list, and in which order: a word of `ORDERS`, with `-` from the largest."""

    filter: JobFilter = field(default_factory=JobFilter)
    order: str = DEFAULT_ORDER

    @property
    def column(self) -> sa.Column[Any]:
        """The column of the order."""
        return ORDERS[self.order.removeprefix("-")][0]

    @property
    def has_gaps(self) -> bool:
        """Whether some jobs have no value in the order; they come last."""
        return ORDERS[self.order.removeprefix("-")][1]

    @property
    def is_descending(self) -> bool:
        """Whether the largest value comes first."""
        return self.order.startswith("-")


class _Position(NamedTuple):
    """A place in the list: behind the row of that id, and its value in the order."""

    part: str
    row_id: int | None = None
    value: int | str | None = None


def check_order(order: str) -> str:
    """Return the order. Raises BadOption where there is no such one."""
    if order.removeprefix("-") not in ORDERS:
        words = ", ".join(ORDERS)
        raise BadOption(
            f"sort={order[:40]!r}: expected one of {words}, with - in front for the largest first",
            hint=f"ask for sort={DEFAULT_ORDER}",
        )
    return order


def search_jobs(
    connection: sa.Connection,
    principal: Principal,
    search: JobSearch,
    cursor: str | None,
    limit: int,
    why: WaitReason,
) -> JobPage:
    """Read one page: waiting rests of arrays, then jobs in the order, those without a value last.

    Args:
        connection: A read transaction.
        principal: The caller, whose scope the list has.
        search: What is searched, and the order.
        cursor: `next` of the page before; None for the first page.
        limit: Jobs on the page at most. A page may have fewer, also none, before the last one.
        why: Returns why a waiting job waits.

    Raises:
        InvalidBody: The cursor is not of this list.
    """
    prefix = _build_prefix(connection, principal, search)
    conditions = [*_list_filters(principal, search)]
    position = _parse_cursor(cursor, search)
    items = list[JobOut]()
    following: _Position | None = position
    if position.part == _RESTS:
        items, following = _read_rest_lines(connection, principal, search, position, limit, why)
    while following is not None and following.part != _RESTS and len(items) < limit:
        left = limit - len(items)
        ids, following, is_spent = _read_ids(
            connection, search, prefix, conditions, following, left
        )
        items += _describe(connection, ids, why)
        if is_spent:
            break
    total: int | None = None
    is_exact = False
    if cursor is None:
        total, is_exact = _estimate_total(connection, prefix, conditions, len(items))
    return JobPage(
        items=items,
        next=None if following is None else _format_cursor(search, following),
        total_estimate=total,
        total_exact=is_exact,
    )


def _read_rest_lines(
    connection: sa.Connection,
    principal: Principal,
    search: JobSearch,
    position: _Position,
    limit: int,
    why: WaitReason,
) -> tuple[list[JobOut], _Position]:
    before = None if position.row_id is None else (position.row_id,)
    rows = read_rests(connection, principal, search.filter, before, limit + 1)
    lines = [view.describe_rest(row, why) for row in rows[:limit]]
    if len(rows) > limit:
        return lines, _Position(_RESTS, rows[limit - 1].id)
    return lines, _Position(_VALUES)


def _read_ids(
    connection: sa.Connection,
    search: JobSearch,
    prefix: Sequence[sa.ColumnElement[bool]],
    conditions: Sequence[sa.ColumnElement[bool]],
    position: _Position,
    limit: int,
) -> tuple[list[int], _Position | None, bool]:
    """Read the next ids of one part of the list.

    Returns:
        The ids; where the list goes on, None at its end; and whether this page may examine no more.
    """
    part = position.part
    for examined in EXAMINED if conditions else (limit + 1,):
        inner = _select_examined(search, prefix, position, examined)
        rows = connection.execute(_select_matching(search, inner, conditions, limit + 1)).all()
        if len(rows) > limit:
            last = rows[limit - 1]
            return [row.id for row in rows[:limit]], _Position(part, last.id, last.value), False
        furthest = connection.execute(inner.offset(examined - 1).limit(1)).one_or_none()
        if furthest is None:
            ids = [row.id for row in rows]
            following = _Position(_EMPTY) if part == _VALUES and search.has_gaps else None
            return ids, following, False
    # What was examined matched too few: the page is short, and the next one goes on behind it.
    assert furthest is not None
    return [row.id for row in rows], _Position(part, furthest.id, furthest.value), True


def _select_examined(
    search: JobSearch,
    prefix: Sequence[sa.ColumnElement[bool]],
    position: _Position,
    examined: int,
) -> sa.Select[Any]:
    """Select the next rows of the order, whatever the filters say: one stretch of one index."""
    column = search.column
    key: tuple[sa.ColumnElement[Any], ...] = (column, jobs.c.id)
    query = sa.select(jobs.c.id, column.label("value")).where(*prefix)
    if search.has_gaps:
        query = query.where(column.is_(None) if position.part == _EMPTY else column.is_not(None))
    if position.row_id is not None:
        place: tuple[Any, ...] = (position.value, position.row_id)
        if position.part == _EMPTY:
            key = (jobs.c.id,)
            place = (position.row_id,)
        here = sa.tuple_(*key)
        there = sa.tuple_(*(sa.literal(value) for value in place))
        query = query.where(here < there if search.is_descending else here > there)
    order = [part.desc() if search.is_descending else part.asc() for part in (column, jobs.c.id)]
    return query.order_by(*order).limit(examined)


def _select_matching(
    search: JobSearch,
    inner: sa.Select[Any],
    conditions: Sequence[sa.ColumnElement[bool]],
    limit: int,
) -> sa.Select[Any]:
    if not conditions:
        return inner.limit(limit)
    examined = inner.subquery()
    key = (examined.c.value, examined.c.id)
    order = [part.desc() if search.is_descending else part.asc() for part in key]
    return (
        sa.select(examined.c.id, examined.c.value)
        .join(jobs, jobs.c.id == examined.c.id)
        .where(*conditions)
        .order_by(*order)
        .limit(limit)
    )


def _build_prefix(
    connection: sa.Connection, principal: Principal, search: JobSearch
) -> list[sa.ColumnElement[bool]]:
    """Build the conditions that an index of the order begins with, of which one scope is enough."""
    wanted = search.filter
    if wanted.user and search.column is jobs.c.submitted_ns:
        user = connection.execute(sa.select(users.c.id).where(users.c.name == wanted.user))
        return [jobs.c.user_id == (user.scalar_one_or_none() or 0)]
    if not principal.sees_all:
        return [jobs.c.tenant_id == principal.tenant_id]
    if wanted.tenant:
        tenant = connection.execute(sa.select(tenants.c.id).where(tenants.c.name == wanted.tenant))
        return [jobs.c.tenant_id == (tenant.scalar_one_or_none() or 0)]
    return []


def _list_filters(principal: Principal, search: JobSearch) -> Iterator[sa.ColumnElement[bool]]:
    """List the conditions that are checked of each examined row."""
    wanted = search.filter
    by_user = bool(wanted.user) and search.column is jobs.c.submitted_ns
    # The prefix has the scope, unless the user takes its place.
    if by_user and not principal.sees_all:
        yield jobs.c.tenant_id == principal.tenant_id
    if wanted.live:
        yield jobs.c.state.in_([str(state) for state in sorted(LIVE)])
    yield from list_conditions(
        principal, wanted, has_tenant=not principal.sees_all or by_user, has_user=not by_user
    )
    if wanted.text:
        yield _match_text(wanted.text.lower())


def _match_text(text: str) -> sa.ColumnElement[bool]:
    """Match a part of a job's name, user or image, or the beginning of its id."""
    by_user = sa.select(users.c.id).where(
        sa.func.lower(users.c.name).contains(text, autoescape=True)
    )
    by_image = sa.exists().where(
        claims.c.id == jobs.c.claim_id,
        sa.func.lower(claims.c.image).contains(text, autoescape=True),
    )
    return sa.or_(
        sa.func.lower(jobs.c.name).contains(text, autoescape=True),
        jobs.c.public_id.startswith(text, autoescape=True),
        jobs.c.user_id.in_(by_user),
        by_image,
    )


def _describe(connection: sa.Connection, ids: Sequence[int], why: WaitReason) -> list[JobOut]:
    if not ids:
        return []
    rows = {row.id: row for row in connection.execute(JOB.where(jobs.c.id.in_(ids)))}
    ordered: list[Row] = [rows[row_id] for row_id in ids]
    return describe_jobs(connection, ordered, why)


def _estimate_total(
    connection: sa.Connection,
    prefix: Sequence[sa.ColumnElement[bool]],
    conditions: Sequence[sa.ColumnElement[bool]],
    found: int,
) -> tuple[int, bool]:
    """Return how many jobs the whole list has, and whether that is counted, not estimated."""
    some = sa.select(jobs.c.id).where(*prefix).limit(COUNTED + 1).subquery()
    count = connection.execute(sa.select(sa.func.count()).select_from(some)).scalar_one()
    matching = sa.select(sa.func.count()).select_from(jobs)
    if count <= COUNTED:
        exact = connection.execute(matching.where(*prefix, *conditions)).scalar_one()
        return int(exact), True
    # The newest jobs of the pool stand for all of them.
    first, last = connection.execute(
        sa.select(
            sa.select(sa.func.min(jobs.c.id)).scalar_subquery(),
            sa.select(sa.func.max(jobs.c.id)).scalar_subquery(),
        )
    ).one()
    newest = jobs.c.id > last - COUNTED
    part = connection.execute(matching.where(newest, *prefix, *conditions)).scalar_one()
    estimate = part * (last - first + 1) // COUNTED
    return max(int(estimate), found, 0 if conditions else COUNTED), False


def _format_cursor(search: JobSearch, position: _Position) -> str:
    row_id = "" if position.row_id is None else position.row_id
    value = "" if position.value is None else position.value
    return f"{search.order}:{position.part}:{row_id}:{value}"


def _parse_cursor(cursor: str | None, search: JobSearch) -> _Position:
    if cursor is None:
        return _Position(_RESTS)
    order, part, row_id, value = (*cursor.split(":", 3), "", "", "")[:4]
    is_text = search.column is jobs.c.name
    is_known = order == search.order and part in _PARTS and _is_number(row_id)
    if not is_known or not (is_text or _is_number(value)):
        raise InvalidBody(
            f"cursor={cursor[:80]!r} is no cursor of this list in the order {search.order}",
            hint="use `next` of the page before, with the same sort",
        )
    if not row_id:
        return _Position(part)
    return _Position(part, int(row_id), value if is_text else int(value or 0))


def _is_number(text: str) -> bool:
    # As many digits as an integer of the database has at most.
    return not text or (text.isascii() and text.isdigit() and len(text) < 20)
