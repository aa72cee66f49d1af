"""Resolves the name of a job or an array in the caller's scope, with a fixed number of queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from gpupool.allocations.arrays import view
from gpupool.allocations.arrays.references import is_array_id
from gpupool.allocations.store.tables import arrays, jobs
from gpupool.allocations.views.job import Row, WaitReason
from gpupool.base.errors import NotFound, NotOneJob, WrongState
from gpupool.base.ids import is_id
from gpupool.model.job import ENDED, LIVE
from gpupool.model.tenant import Permission, Principal
from gpupool.tenancy.tables import tenants
from gpupool.wire.jobs import JobOut


def jobs_in_scope(principal: Principal) -> sa.ColumnElement[bool]:
    """Return the condition on `jobs` for what the caller may see."""
    return sa.true() if principal.sees_all else jobs.c.tenant_id == principal.tenant_id


def can_see_content(principal: Principal, user: str) -> bool:
    """Return whether the caller may see command, output and processes of the user's jobs."""
    return user == principal.user or principal.has_permission(Permission.MANAGE_TENANT)


def hide_content(principal: Principal, job: JobOut) -> JobOut:
    """Return the job without its content if it is a colleague's."""
    if can_see_content(principal, job.user):
        return job
    use = None if job.use is None else job.use.model_copy(update={"processes": []})
    return job.model_copy(
        update={"command": [], "attach_socket": None, "use": use, "private": True}
    )


def find_job(connection: sa.Connection, principal: Principal, named: str) -> Row:
    """Find a job by id, by name (the live one, else the newest), or `last`.

    The name of a gang is its first job.

    Raises:
        NotFound: The caller's scope has no such job.
        NotOneJob: The name is that of an array.
        WrongState: The member has no row yet.
    """
    found = find_job_or_member(connection, principal, named)
    if isinstance(found, UncreatedMember):
        state = found.describe(lambda _job: "").state
        raise WrongState(
            f"job {found.name} is {state}, and was never started", hint=f"gpupool show {found.name}"
        )
    return found


@dataclass(frozen=True)
class UncreatedMember:
    """A member of an array that has no row in `jobs` yet."""

    array: Row
    index: int

    @property
    def name(self) -> str:
        """The name that it will have as a job."""
        return f"{self.array.name}.{self.index}"

    def describe(self, why: WaitReason) -> JobOut:
        """Describe it as the job that it will be."""
        return view.describe_uncreated_member(self.array, self.index, why)


def find_job_or_member(
    connection: sa.Connection, principal: Principal, named: str
) -> Row | UncreatedMember:
    """Find a job as `find_job` does, or a member of an array that has no row yet.

    Raises:
        NotFound: The caller's scope has no such job.
        NotOneJob: The name is that of an array.
    """
    if named == "last":
        return _find_last(connection, principal)
    query = sa.select(jobs).limit(1)
    if is_id(named) and not is_array_id(named):
        row = connection.execute(
            query.where(jobs_in_scope(principal), jobs.c.public_id == named)
        ).one_or_none()
        if row is None:
            raise _build_not_found(named)
        return row
    query = query.where(_tenants_in_scope(principal), jobs.c.name == named)
    live_first = query.order_by(jobs.c.state.in_(ENDED), jobs.c.id.desc())
    row = connection.execute(live_first).one_or_none()
    if row is not None and row.state not in ENDED:
        return row
    newer = _find_newer_array(connection, principal, named, row)
    if newer is not None:
        return newer
    if row is not None:
        return row
    return _find_first_of_gang(connection, principal, named)


def _find_newer_array(
    connection: sa.Connection, principal: Principal, named: str, ended: Row | None
) -> Row | UncreatedMember | None:
    """Find a member of an array by name, if its array is newer than the `ended` job of that name.

    Raises:
        NotOneJob: The name is that of a newer array.
    """
    array = view.find_array(connection, arrays_in_scope(principal), named)
    if array is not None and (ended is None or array.submitted_ns > ended.submitted_ns):
        raise view.build_not_one_job_error(array)
    member = view.find_member(connection, arrays_in_scope(principal), named)
    if member is None or (ended is not None and member[0].submitted_ns <= ended.submitted_ns):
        return None
    key = view.find_member_key(connection, *member)
    if key is None:
        return UncreatedMember(*member)
    return connection.execute(sa.select(jobs).where(jobs.c.id == key)).one()


def _find_first_of_gang(connection: sa.Connection, principal: Principal, named: str) -> Row:
    first = sa.select(jobs).where(
        _tenants_in_scope(principal), jobs.c.array_name == named, jobs.c.gang_id.is_not(None)
    )
    row = connection.execute(
        first.order_by(jobs.c.submitted_ns.desc(), jobs.c.array_index).limit(1)
    ).one_or_none()
    if row is None:
        raise _build_not_found(named)
    return row


def _find_last(connection: sa.Connection, principal: Principal) -> Row:
    """Find the first job of the caller's newest submission."""
    # Without members of arrays: they get their rows later than what was submitted after the array.
    mine = sa.select(jobs).where(
        jobs_in_scope(principal), jobs.c.user_id == principal.user_id, jobs.c.array_id.is_(None)
    )
    row = connection.execute(mine.order_by(jobs.c.id.desc()).limit(1)).one_or_none()
    my_arrays = view.ARRAY.where(arrays_in_scope(principal), arrays.c.user_id == principal.user_id)
    array = connection.execute(my_arrays.order_by(arrays.c.id.desc()).limit(1)).one_or_none()
    if array is not None and (row is None or array.submitted_ns > row.submitted_ns):
        raise view.build_not_one_job_error(array)
    if row is None:
        raise _build_not_found("last")
    return row


def find_array(connection: sa.Connection, principal: Principal, named: str) -> Row:
    """Find an array by id, by name (the newest), or `last`.

    Raises:
        NotFound: The caller's scope has no such array.
    """
    if named == "last":
        try:
            named = find_job_or_member(connection, principal, named).name
        except NotOneJob as error:
            named = error.details["array"]
    row = view.find_array(connection, arrays_in_scope(principal), named)
    if row is None:
        raise NotFound(f"there is no array {named!r}", hint="gpupool ps --all  lists your jobs")
    return row


def find_live_jobs(
    connection: sa.Connection, principal: Principal, named: str
) -> tuple[Sequence[Row], Row | None]:
    """Find the live jobs of an id, a name or an array, and the array if it has a rest.

    Raises:
        NotFound: The caller's scope never had such a job.
    """
    query = sa.select(jobs).where(jobs_in_scope(principal))
    match = _match_id(named) if is_id(named) else find_named_jobs(principal, named)
    rows = connection.execute(query.where(match, jobs.c.state.in_(LIVE))).all()
    array = view.find_array(connection, arrays_in_scope(principal), named)
    if array is not None and (array.stopped_ns is not None or array.made == array.size):
        array = None
    if (
        not rows
        and array is None
        and connection.execute(query.where(match).limit(1)).one_or_none() is None
    ):
        raise _build_not_found(named)
    return rows, array


def find_waiting_member(
    connection: sa.Connection, principal: Principal, named: str
) -> UncreatedMember | None:
    """Find the member of that name or reference that has no row yet and still waits."""
    member = view.find_member(connection, arrays_in_scope(principal), named)
    if (
        member is None
        or member[0].stopped_ns is not None
        or view.find_member_key(connection, *member) is not None
    ):
        return None
    return UncreatedMember(*member)


def _match_id(named: str) -> sa.ColumnElement[bool]:
    if not is_array_id(named):
        return jobs.c.public_id == named
    return jobs.c.array_id.in_(sa.select(arrays.c.id).where(arrays.c.public_id == named))


def arrays_in_scope(principal: Principal) -> sa.ColumnElement[bool]:
    """Return the condition on `arrays` for what the caller may see.

    It begins with the tenant, as the index on names does.
    """
    if principal.sees_all:
        return arrays.c.tenant_id.in_(sa.select(tenants.c.id))
    return arrays.c.tenant_id == principal.tenant_id


def _tenants_in_scope(principal: Principal) -> sa.ColumnElement[bool]:
    # The indexes on names begin with the tenant, so an admin's scope names all tenants: without
    # the column, SQLite would read the whole table.
    if principal.sees_all:
        return jobs.c.tenant_id.in_(sa.select(tenants.c.id))
    return jobs_in_scope(principal)


def find_named_jobs(principal: Principal, name: str) -> sa.ColumnElement[bool]:
    """Select jobs by name or by array, in two index look-ups.

    An OR would read all jobs of the tenant.
    """
    ids = sa.select(jobs.c.id).where(_tenants_in_scope(principal)).correlate(None)
    return jobs.c.id.in_(
        sa.union_all(ids.where(jobs.c.name == name), ids.where(jobs.c.array_name == name))
    )


def _build_not_found(named: str) -> NotFound:
    return NotFound(f"there is no job {named!r}", hint="gpupool ps --all  lists yours")
