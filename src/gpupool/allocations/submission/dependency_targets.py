"""Finds what a submission is to wait for, in the scope of the caller."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from gpupool.allocations.dependencies.rows import Dependency, read_wait
from gpupool.allocations.dependencies.standings import ARRAY, GANG, JOB, DependencyTarget
from gpupool.allocations.store.tables import gangs
from gpupool.allocations.submission.submission import Submission
from gpupool.allocations.views import list as job_lookup
from gpupool.allocations.views.job import Row
from gpupool.base.errors import BadDependency, BadOption, NotFound, NotOneJob
from gpupool.model.chains.dependency import DependencyCondition
from gpupool.model.tenant import Principal
from gpupool.wire.chains.dependencies import DependencyIn
from gpupool.wire.submissions import JobIn


def add_dependencies(
    connection: sa.Connection, submission: Submission, body: JobIn, principal: Principal
) -> Submission:
    """Return the submission with the ends that it waits for.

    Raises:
        NotFound: The submission's tenant has no such job, or the caller may not see it.
        BadDependency: One job is named with two conditions.
        DependencyNeverMet: One of the ends can no longer come.
        BadOption: It would wait, and may not.
    """
    if not body.after:
        return submission
    found = dict[DependencyTarget, Dependency]()
    for asked in body.after:
        one = find_dependency(connection, submission.tenant_id, asked, principal)
        known = found.setdefault(one.target, one)
        if known.condition is not one.condition:
            raise BadDependency(
                f"{one.name} is to end {known.condition} and {one.condition}: both cannot be",
                hint=f"name it once, as  --after {one.name}:{one.condition}",
            )
    after = tuple(found.values())
    wait = read_wait(connection, after)
    if wait is not None and not body.wait:
        raise BadOption(
            f"--no-wait, and the job {wait.sentence}", hint="leave out --no-wait or --after"
        )
    return replace(submission, after=after, wait=wait)


def find_dependency(
    connection: sa.Connection, tenant_id: int, asked: DependencyIn, principal: Principal
) -> Dependency:
    """Find what is named, in the scope of the caller and in the tenant. Raises NotFound."""
    condition = DependencyCondition(asked.condition)
    try:
        row = job_lookup.find_job_or_member(connection, principal, asked.job)
    except NotOneJob:
        array = job_lookup.find_array(connection, principal, asked.job)
        _refuse_other_tenant(array.tenant_id, tenant_id, asked.job)
        return Dependency(DependencyTarget(ARRAY, array.id), array.public_id, array.name, condition)
    except NotFound:
        mine = sa.and_(gangs.c.public_id == asked.job, gangs.c.tenant_id == tenant_id)
        gang = connection.execute(sa.select(gangs).where(mine)).one_or_none()
        if gang is None or not (principal.sees_all or gang.tenant_id == principal.tenant_id):
            raise
        return _await_gang(gang, condition)
    if isinstance(row, job_lookup.UncreatedMember):
        array = row.array
        _refuse_other_tenant(array.tenant_id, tenant_id, asked.job)
        target = DependencyTarget(ARRAY, array.id, row.index)
        return Dependency(target, f"{array.public_id}.{row.index}", row.name, condition)
    _refuse_other_tenant(row.tenant_id, tenant_id, asked.job)
    if row.gang_id is not None and asked.job in (row.array_name, "last"):
        gang = connection.execute(sa.select(gangs).where(gangs.c.id == row.gang_id)).one()
        return _await_gang(gang, condition)
    return Dependency(DependencyTarget(JOB, row.id), row.public_id, row.name, condition)


def _await_gang(gang: Row, condition: DependencyCondition) -> Dependency:
    return Dependency(DependencyTarget(GANG, gang.id), gang.public_id, gang.name, condition)


def _refuse_other_tenant(owner: int, tenant_id: int, named: str) -> None:
    # Also for an admin, who sees the jobs of all tenants: one tenant's jobs never hang on another's.
    if owner != tenant_id:
        raise NotFound(f"there is no job {named!r}", hint="gpupool ps --all  lists yours")
