"""Reads and writes services and replicas; the callers check permissions."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.store.tables import allocations, jobs
from gpupool.fleet.tables import nodes
from gpupool.serving.replicas import (
    DRAINING,
    ENDED,
    LIVE,
    WANTED,
    choose_port,
    compute_pause,
    is_failed_start,
)
from gpupool.serving.tables import service_replicas, services
from gpupool.store.database import WriteTransaction
from gpupool.store.tables import events
from gpupool.tenancy.tables import tenants, users
from gpupool.tenancy.user_names import find_ended_users
from gpupool.wire.common import Event

Row = sa.Row[Any]
#: Topic of every change of a service or replica.
TOPIC: Final = "services"
#: Replicas that have ended and are kept, of each service.
KEPT_REPLICAS: Final = 20
#: Newest events of the tenant among which those of one service are looked for: the log has an index
#: by tenant and none by subject.
MOST_EVENTS: Final = 20_000

SERVICE = (
    sa.select(
        services,
        tenants.c.name.label("tenant"),
        users.c.name.label("user"),
        users.c.role,
        users.c.default_project,
        users.c.tenant_id.label("user_tenant_id"),
        users.c.disabled_ns,
        users.c.retired_ns,
        users.c.unix_uid,
        users.c.run_as_uid,
    )
    .join(tenants, tenants.c.id == services.c.tenant_id)
    .join(users, users.c.id == services.c.user_id)
)
REPLICA = (
    sa.select(
        service_replicas,
        jobs.c.state.label("job_state"),
        jobs.c.reason.label("job_reason"),
        jobs.c.started_ns.label("started_ns"),
        jobs.c.stop_requested,
        jobs.c.total_milli,
    )
    .outerjoin(jobs, jobs.c.public_id == service_replicas.c.job)
    .order_by(service_replicas.c.service_id, service_replicas.c.number)
)
IS_OVER = service_replicas.c.state == ENDED


def read_replicas(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> list[Row]:
    """Read replicas with the states of their jobs, by service and number."""
    return list(connection.execute(REPLICA.where(*where)))


def read_agents(connection: sa.Connection, names: list[str]) -> dict[str, str]:
    """Return the agents of those jobs that hold cards now."""
    query = (
        sa.select(jobs.c.public_id, nodes.c.agent)
        .join(allocations, allocations.c.job_id == jobs.c.id)
        .join(nodes, nodes.c.id == allocations.c.node_id)
        .where(
            jobs.c.public_id.in_(names),
            # Word for word the condition of the partial index on held allocations.
            allocations.c.state != sa.literal_column("'released'"),
        )
    )
    return {row.public_id: row.agent for row in connection.execute(query)}


def read_events(connection: sa.Connection, service: Row, limit: int) -> list[Event]:
    """Read the latest events of a service, the newest first.

    Those of an earlier service of its name are left out.
    """
    newest = (
        sa.select(events)
        .where(events.c.tenant_id == service.tenant_id)
        .order_by(events.c.seq.desc())
        .limit(MOST_EVENTS)
        .subquery()
    )
    mine = (
        sa.select(newest)
        .where(
            newest.c.kind.like("service.%"),
            newest.c.subject == service.name,
            newest.c.at_ns >= service.created_ns,
        )
        .order_by(newest.c.seq.desc())
        .limit(limit)
    )
    found = list[Event]()
    for row in connection.execute(mine):
        found.append(
            Event(
                seq=row.seq,
                at_ns=row.at_ns,
                kind=row.kind,
                subject=row.subject,
                tenant=service.tenant,
                data=row.data,
            )
        )
    return found


def change_service(write: WriteTransaction, service: Row, **values: Any) -> bool:
    """Write values of a service. Returns False where another write came first.

    Args:
        service: As it was read; its generation is named.
    """
    mine = sa.and_(services.c.id == service.id, services.c.generation == service.generation)
    done = write.execute(
        services.update().where(mine).values(generation=service.generation + 1, **values)
    )
    write.announce(TOPIC)
    return bool(done.rowcount)


def delete_service(write: WriteTransaction, service: Row, **data: Any) -> None:
    """Let the replicas of a service end, and the service with the last one. Idempotent."""
    if service.state == "active":
        change_service(write, service, state="deleting")
        write.event("service.deleting", service.name, tenant_id=service.tenant_id, data=data)


def delete_of_ended_users(write: WriteTransaction) -> None:
    """Delete the services of users that end in this transaction. Idempotent."""
    ended = find_ended_users(write)
    if not ended:
        return
    for row in write.execute(sa.select(services).where(services.c.user_id.in_(ended))).all():
        delete_service(write, row)


def add_replicas(write: WriteTransaction, service: Row, count: int) -> int:
    """Add so many replicas, as far as there are ports. Returns how many; 0 where another write came
    first.
    """
    taken = set(write.execute(sa.select(service_replicas.c.port).where(sa.not_(IS_OVER))).scalars())
    rows = list[dict[str, Any]]()
    for number in range(service.next_number, service.next_number + count):
        port = choose_port(service.port, number, taken)
        if port is None:
            break
        taken.add(port)
        rows.append(
            {
                "service_id": service.id,
                "number": number,
                "state": WANTED,
                "port": port,
                "reason": "",
                "created_ns": write.now_ns,
            }
        )
    if not rows or not change_service(write, service, next_number=rows[-1]["number"] + 1):
        return 0
    write.execute(service_replicas.insert(), rows)
    return len(rows)


def set_replica(write: WriteTransaction, replica: Row, **values: Any) -> None:
    """Write values of a replica that has not ended. Idempotent."""
    write.execute(_update(replica).values(**values))
    write.announce(TOPIC)


def drain_replica(
    write: WriteTransaction, service: Row, replica: Row, reason: str, *, is_fault: bool = False
) -> None:
    """Let a replica get no more requests, and end once it has none. Idempotent.

    Args:
        write: The transaction; the caller commits it.
        service: Its service.
        replica: The replica.
        reason: Why.
        is_fault: It is not healthy.
    """
    live = service_replicas.c.state.in_(LIVE)
    values = {"state": DRAINING, "drain_ns": write.now_ns, "reason": reason[:400]}
    if write.execute(_update(replica).where(live).values(**values)).rowcount:
        if is_fault:
            _count_end(write, replica)
        data = {"replica": replica.number, "job": replica.job, "reason": reason}
        write.event("service.draining", service.name, tenant_id=service.tenant_id, data=data)
    write.announce(TOPIC)


def end_replica(write: WriteTransaction, service: Row, replica: Row, reason: str) -> None:
    """Record that a replica's job has ended, and when the next one may start. Idempotent."""
    values = {"state": ENDED, "ended_ns": write.now_ns, "reason": reason[:400]}
    if not write.execute(_update(replica).values(**values)).rowcount:
        return
    if replica.state in LIVE:
        _count_end(write, replica)
    data = {"replica": replica.number, "job": replica.job, "reason": reason}
    write.event("service.replica-ended", service.name, tenant_id=service.tenant_id, data=data)
    write.announce(TOPIC)
    _forget_old(write, service.id)


def remove_service(write: WriteTransaction, service: Row) -> None:
    """Remove a service whose replicas have all ended. Idempotent."""
    left = sa.and_(service_replicas.c.service_id == service.id, sa.not_(IS_OVER))
    if write.execute(sa.select(service_replicas.c.number).where(left).limit(1)).first():
        return
    write.execute(service_replicas.delete().where(service_replicas.c.service_id == service.id))
    if write.execute(services.delete().where(services.c.id == service.id)).rowcount:
        write.event("service.removed", service.name, tenant_id=service.tenant_id)
    write.announce(TOPIC)


def _count_end(write: WriteTransaction, replica: Row) -> None:
    """Count a replica that ended unasked, and say when the next one may start."""
    mine = services.c.id == replica.service_id
    known = write.execute(sa.select(services.c.failures).where(mine)).scalar_one()
    failures = known + 1 if is_failed_start(replica.ready_ns, write.now_ns) else 0
    retry_ns = write.now_ns + compute_pause(failures)
    write.execute(services.update().where(mine).values(failures=failures, retry_ns=retry_ns))


def _update(replica: Row) -> sa.Update:
    return service_replicas.update().where(
        service_replicas.c.service_id == replica.service_id,
        service_replicas.c.number == replica.number,
        sa.not_(IS_OVER),
    )


def _forget_old(write: WriteTransaction, service_id: int) -> None:
    mine = sa.and_(service_replicas.c.service_id == service_id, IS_OVER)
    oldest = (
        sa.select(service_replicas.c.number)
        .where(mine)
        .order_by(service_replicas.c.number.desc())
        .limit(1)
        .offset(KEPT_REPLICAS)
    )
    number = write.execute(oldest).scalar_one_or_none()
    if number is not None:
        old = sa.and_(mine, service_replicas.c.number <= number)
        write.execute(service_replicas.delete().where(old))
