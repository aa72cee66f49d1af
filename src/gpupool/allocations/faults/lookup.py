"""Reads incidents as a caller may see them.

A pool's admin, operator or auditor sees all. A tenant sees those that ended a job of its own, and of
them its own jobs and the XIDs of their cards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.faults.recording import CLOCK_SLACK_NS
from gpupool.allocations.faults.tables import fault_evidence, fault_incidents, fault_jobs
from gpupool.allocations.store.tables import allocations, jobs
from gpupool.base.errors import UnknownIncident
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.fleet.tables import devices, nodes
from gpupool.model.job import JobState
from gpupool.model.tenant import Principal
from gpupool.tenancy.access import match_visible
from gpupool.tenancy.tables import tenants, users

#: A job that an XID ended is gone by then: it has its grace to end, and its node reports it.
ENDING_NS: Final = 600 * NANOS_PER_SECOND

#: Whether a job's share ended within the incident and the job did not end well or by its user then.
IS_ENDED: Final = sa.and_(
    allocations.c.released_ns.is_not(None),
    allocations.c.released_ns >= fault_jobs.c.at_ns - CLOCK_SLACK_NS,
    allocations.c.released_ns <= fault_incidents.c.last_ns + ENDING_NS,
    sa.not_(
        sa.and_(
            jobs.c.state.in_([str(JobState.DONE), str(JobState.STOPPED)]),
            jobs.c.ended_ns <= fault_incidents.c.last_ns + ENDING_NS,
        )
    ),
)


def select_incidents(caller: Principal) -> sa.Select[Any]:
    """Select the incidents that a caller may see, with the names of node and card."""
    query = (
        sa.select(
            fault_incidents,
            nodes.c.name.label("node_name"),
            devices.c.idx.label("idx"),
        )
        .join(nodes, nodes.c.id == fault_incidents.c.node_id)
        .join(devices, devices.c.id == fault_incidents.c.device_id)
    )
    if caller.sees_all:
        return query
    hit = (
        sa.select(fault_jobs.c.incident_id)
        .join(allocations, allocations.c.id == fault_jobs.c.allocation_id)
        .join(jobs, jobs.c.id == allocations.c.job_id)
        .where(
            fault_jobs.c.incident_id == fault_incidents.c.id,
            match_visible(caller, jobs.c.tenant_id),
            IS_ENDED,
        )
        .correlate(fault_incidents)
    )
    return query.where(hit.exists())


def find_incident(connection: sa.Connection, caller: Principal, public_id: str) -> Any:
    """Find one incident. Raises UnknownIncident, also for one of other tenants."""
    row = None
    if public_id.isprintable():
        query = select_incidents(caller).where(fault_incidents.c.public_id == public_id)
        row = connection.execute(query).one_or_none()
    if row is None:
        raise UnknownIncident(
            f"incident {public_id[:40]!r} is not known", hint="gpupool faults list --all"
        )
    return row


def read_affected(
    connection: sa.Connection, caller: Principal, incident_ids: Sequence[int]
) -> list[Any]:
    """Read the jobs that held shares of failed cards, of the caller's scope."""
    query = (
        sa.select(
            fault_jobs.c.incident_id,
            fault_jobs.c.device_id,
            devices.c.idx,
            nodes.c.name.label("node_name"),
            jobs.c.public_id,
            jobs.c.name,
            jobs.c.state,
            tenants.c.name.label("tenant"),
            users.c.name.label("user"),
            IS_ENDED.label("is_ended"),
        )
        .select_from(fault_jobs)
        .join(fault_incidents, fault_incidents.c.id == fault_jobs.c.incident_id)
        .join(devices, devices.c.id == fault_jobs.c.device_id)
        .join(nodes, nodes.c.id == devices.c.node_id)
        .join(allocations, allocations.c.id == fault_jobs.c.allocation_id)
        .join(jobs, jobs.c.id == allocations.c.job_id)
        .join(tenants, tenants.c.id == jobs.c.tenant_id)
        .join(users, users.c.id == jobs.c.user_id)
        .where(fault_jobs.c.incident_id.in_(incident_ids), match_visible(caller, jobs.c.tenant_id))
        .order_by(fault_jobs.c.at_ns, fault_jobs.c.allocation_id)
    )
    return list(connection.execute(query))


def read_evidence(connection: sa.Connection, incident_ids: Sequence[int]) -> list[Any]:
    """Read the XIDs of incidents, the first ones first."""
    query = (
        sa.select(
            fault_evidence,
            devices.c.uuid,
            devices.c.idx,
            nodes.c.name.label("node_name"),
        )
        .join(devices, devices.c.id == fault_evidence.c.device_id)
        .join(nodes, nodes.c.id == devices.c.node_id)
        .where(fault_evidence.c.incident_id.in_(incident_ids))
        .order_by(fault_evidence.c.at_ns, fault_evidence.c.id)
    )
    return list(connection.execute(query))
