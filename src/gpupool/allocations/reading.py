"""Which job or array a caller means: by id or by name, from the caller's scope, in a fixed number of queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from gpupool.allocations.arrays import view
from gpupool.allocations.arrays.references import is_array_id
from gpupool.allocations.job_view import Row, Why
from gpupool.allocations.tables import arrays, jobs
from gpupool.base.errors import NotFound, NotOneJob, WrongState
from gpupool.base.ids import is_id
from gpupool.model.job import ENDED, LIVE
from gpupool.model.tenant import Permission, Principal
from gpupool.tenancy.tables import tenants
from gpupool.wire.jobs import JobOut


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
    """A job by id, by name (the live one, else the newest), or `last` (the caller's newest).

    The name of a gang is its first job. Raises NotFound; NotOneJob for an array; WrongState for a member that is no
    job yet.
    """
    found = look_up(connection, principal, named)
    if isinstance(found, Unmade):
        state = found.out(lambda _job: "").state
        raise WrongState(f"job {found.name} is {state}, and was never started", hint=f"gpupool show {found.name}")
    return found


@dataclass(frozen=True)
class Unmade:
    """A member of an array that is no job yet."""

    array: Row
    index: int

    @property
    def name(self) -> str:
        return f"{self.array.name}.{self.index}"

    def out(self, why: Why) -> JobOut:
        return view.unmade_member(self.array, self.index, why)


def look_up(connection: sa.Connection, principal: Principal, named: str) -> Row | Unmade:
    """As `find`, also a member of an array that is no job yet. Raises NotFound, NotOneJob."""
    if named == "last":
        return _last(connection, principal)
    query = sa.select(jobs).limit(1)
    if is_id(named) and not is_array_id(named):
        row = connection.execute(query.where(scope(principal), jobs.c.public_id == named)).one_or_none()
        if row is None:
            raise _no_job(named)
        return row
    query = query.where(_in_tenants(principal), jobs.c.name == named)
    row = connection.execute(query.order_by(jobs.c.state.in_(ENDED), jobs.c.id.desc())).one_or_none()
    if row is not None and row.state not in ENDED:
        return row
    return _of_array(connection, principal, named, row) or row or _first_of_gang(connection, principal, named)


def _of_array(connection: sa.Connection, principal: Principal, named: str, ended: Row | None) -> Row | Unmade | None:
    """What the name means among arrays, where that is newer than a job of this name that has `ended`."""
    array = view.find_array(connection, in_scope(principal), named)
    if array is not None and (ended is None or array.submitted_ns > ended.submitted_ns):
        raise view.not_one_job(array)
    member = view.find_member(connection, in_scope(principal), named)
    if member is None or (ended is not None and member[0].submitted_ns <= ended.submitted_ns):
        return None
    key = view.member_key(connection, *member)
    if key is None:
        return Unmade(*member)
    return connection.execute(sa.select(jobs).where(jobs.c.id == key)).one()


def _first_of_gang(connection: sa.Connection, principal: Principal, named: str) -> Row:
    first = sa.select(jobs).where(_in_tenants(principal), jobs.c.array_name == named, jobs.c.gang_id.is_not(None))
    row = connection.execute(first.order_by(jobs.c.submitted_ns.desc(), jobs.c.array_index).limit(1)).one_or_none()
    if row is None:
        raise _no_job(named)
    return row


def _last(connection: sa.Connection, principal: Principal) -> Row:
    """The caller's newest submission: the members of an array are made later than what was submitted after it."""
    mine = sa.select(jobs).where(scope(principal), jobs.c.user_id == principal.user_id, jobs.c.array_id.is_(None))
    row = connection.execute(mine.order_by(jobs.c.id.desc()).limit(1)).one_or_none()
    my_arrays = view.ARRAY.where(in_scope(principal), arrays.c.user_id == principal.user_id)
    array = connection.execute(my_arrays.order_by(arrays.c.id.desc()).limit(1)).one_or_none()
    if array is not None and (row is None or array.submitted_ns > row.submitted_ns):
        raise view.not_one_job(array)
    if row is None:
        raise _no_job("last")
    return row


def find_array(connection: sa.Connection, principal: Principal, named: str) -> Row:
    """An array by id, by name (the newest), or `last` where that is one. Raises NotFound."""
    if named == "last":
        try:
            named = look_up(connection, principal, named).name
        except NotOneJob as error:
            named = error.details["array"]
    row = view.find_array(connection, in_scope(principal), named)
    if row is None:
        raise NotFound(f"there is no array {named!r}", hint="gpupool ps --all  lists your jobs")
    return row


def find_all_live(connection: sa.Connection, principal: Principal, named: str) -> tuple[Sequence[Row], Row | None]:
    """The live jobs of that id, name or array, and the array where it has members that are no jobs yet.

    Of a member alone that is no job yet, nothing: see `find_unmade`. Raises NotFound where nothing was ever called so.
    """
    query = sa.select(jobs).where(scope(principal))
    match = _by_id(named) if is_id(named) else called(principal, named)
    rows = connection.execute(query.where(match, jobs.c.state.in_(LIVE))).all()
    array = view.find_array(connection, in_scope(principal), named)
    if array is not None and (array.stopped_ns is not None or array.made == array.size):
        array = None
    if not rows and array is None and connection.execute(query.where(match).limit(1)).one_or_none() is None:
        raise _no_job(named)
    return rows, array


def find_unmade(connection: sa.Connection, principal: Principal, named: str) -> Unmade | None:
    """The member of that name, or by its reference, where it is no job yet and still waits."""
    member = view.find_member(connection, in_scope(principal), named)
    if member is None or member[0].stopped_ns is not None or view.member_key(connection, *member) is not None:
        return None
    return Unmade(*member)


def _by_id(named: str) -> sa.ColumnElement[bool]:
    if not is_array_id(named):
        return jobs.c.public_id == named
    return jobs.c.array_id.in_(sa.select(arrays.c.id).where(arrays.c.public_id == named))


def in_scope(principal: Principal) -> sa.ColumnElement[bool]:
    """What the caller may see of `arrays`, in the words of the index on names, which begins with the tenant."""
    if principal.sees_all:
        return arrays.c.tenant_id.in_(sa.select(tenants.c.id))
    return arrays.c.tenant_id == principal.tenant_id


def _in_tenants(principal: Principal) -> sa.ColumnElement[bool]:
    """The caller's scope in the words of the indexes on names, which begin with the tenant."""
    return jobs.c.tenant_id.in_(sa.select(tenants.c.id)) if principal.sees_all else scope(principal)


def called(principal: Principal, name: str) -> sa.ColumnElement[bool]:
    """Jobs of a name or of an array: two look-ups, where an OR would read all jobs of the tenant."""
    ids = sa.select(jobs.c.id).where(_in_tenants(principal)).correlate(None)
    return jobs.c.id.in_(sa.union_all(ids.where(jobs.c.name == name), ids.where(jobs.c.array_name == name)))


def _no_job(named: str) -> NotFound:
    return NotFound(f"there is no job {named!r}", hint="gpupool ps --all  lists yours")
