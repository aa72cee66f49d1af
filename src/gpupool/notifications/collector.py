"""Reads the event log, and the queue of jobs, into deliveries.

How far the log was read is written with the deliveries, in one transaction: none is lost or made
twice, whenever the process ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.store.schedule_tables import schedules
from gpupool.allocations.store.tables import allocations, arrays, jobs
from gpupool.base.ids import new_id
from gpupool.model.job import JobState
from gpupool.model.tenant import PERMISSIONS, Permission, UserRole
from gpupool.notifications.outlook import read_beginning_reservations, read_expiring_tokens
from gpupool.notifications.tables import deliveries, notification_settings, subscriptions
from gpupool.notifications.timing import NANOS, compute_due, read_quiet_hours
from gpupool.notifications.topics import (
    HANDOVER_KINDS,
    JOB_KINDS,
    LOOKED_TOPICS,
    SCHEDULE_KINDS,
    Occurrence,
    Scope,
    Topic,
    is_within,
    list_kinds,
    list_topics,
)
from gpupool.store.database import Store, WriteTransaction
from gpupool.store.tables import events, pool
from gpupool.tenancy.tables import users

#: By topic, what finds its occurrences without an event; jobs that wait have a time for each.
_LOOKS: Final[Mapping[Topic, Callable[[sa.Connection, int], list[Occurrence]]]] = {
    Topic.TOKEN_EXPIRING: read_expiring_tokens,
    Topic.RESERVATION_BEGINS: read_beginning_reservations,
}
#: Events of one look. After so many without a delivery the position is written all the same.
EVENTS_AT_ONCE: Final = 5000
#: Names in one query.
_NAMES_AT_ONCE: Final = 500


class Collector:
    """Makes deliveries. One thread at a time may call it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        #: How far the log was read without a delivery since the position was written last.
        self._read_seq = 0

    def collect_events(self) -> bool:
        """Make the deliveries of the next piece of the log; return whether there is more of it."""
        with self._store.read() as connection:
            log = connection.execute(sa.select(pool.c.event_seq, pool.c.event_epoch)).one()
            position = connection.execute(sa.select(notification_settings)).one_or_none()
            if position is None:
                return False
            since = max(position.read_seq, self._read_seq)
            until = min(log.event_seq, since + EVENTS_AT_ONCE)
            is_same_log = position.event_epoch == log.event_epoch
            active = read_active(connection) if is_same_log else []
            kinds = list_kinds(topic for one in active for topic in one.topics)
            found = _read_occurrences(connection, since, until, kinds) if kinds else []
        if not is_same_log:
            self._begin_log(log)
            return False
        rows = list(_list_deliveries(active, found, self._store.clock.now_ns()))
        if rows or until - position.read_seq >= EVENTS_AT_ONCE:
            with self._store.write() as write:
                write.execute(notification_settings.update().values(read_seq=until))
                _insert_deliveries(write, rows)
        self._read_seq = until
        return bool(until < log.event_seq)

    def _begin_log(self, log: Any) -> None:
        """Begin at the end of a log whose past was replaced: its numbers are of other events."""
        values = {"read_seq": log.event_seq, "event_epoch": log.event_epoch}
        with self._store.write() as write:
            write.execute(notification_settings.update().values(**values))
            write.execute(subscriptions.update().values(since_seq=log.event_seq))
        self._read_seq = 0

    def collect_looked(self) -> None:
        """Make the deliveries of what no event tells: long waits, ends of tokens, reservations."""
        now_ns = self._store.clock.now_ns()
        with self._store.read() as connection:
            active = read_active(connection)
            rows = list(_list_waiting(connection, active, now_ns))
            for topic, read in _LOOKS.items():
                hearing = [one for one in active if topic in one.topics]
                if hearing:
                    rows += _list_deliveries(hearing, read(connection, now_ns), now_ns)
            rows = _drop_known(connection, rows)
        if rows:
            with self._store.write() as write:
                _insert_deliveries(write, rows)


def _list_waiting(
    connection: sa.Connection, active: Sequence[Any], now_ns: int
) -> Iterable[dict[str, Any]]:
    hearing = [one for one in active if Topic.JOB_WAITING in one.topics]
    if not hearing:
        return
    shortest = min(one.waiting_s for one in hearing)
    for one in _read_waiting(connection, now_ns - shortest * NANOS):
        patient = [sub for sub in hearing if now_ns - one.at_ns >= sub.waiting_s * NANOS]
        yield from _list_deliveries(patient, [_tell_minutes(one, now_ns)], now_ns)


def read_active(connection: sa.Connection) -> Sequence[Any]:
    """Read the subscriptions of users that may still hear of what they subscribed to.

    Their tenant and rights are those of today.
    """
    query = (
        sa.select(subscriptions, users.c.tenant_id.label("user_tenant_id"), users.c.role)
        .join(users, users.c.id == subscriptions.c.user_id)
        .where(users.c.disabled_ns.is_(None), users.c.retired_ns.is_(None))
        .order_by(subscriptions.c.id)
    )
    return [row for row in connection.execute(query) if may_hear(row)]


def may_hear(row: Any) -> bool:
    """Whether the user of a subscription has the right to its scope: by `role` and `scope`."""
    allowed = PERMISSIONS[UserRole(row.role)]
    if row.scope == Scope.POOL:
        return Permission.MANAGE_POOL in allowed
    if row.scope == Scope.TENANT:
        return Permission.MANAGE_TENANT in allowed
    return Permission.READ in allowed


def _read_occurrences(
    connection: sa.Connection, since: int, until: int, kinds: Sequence[str]
) -> list[Occurrence]:
    query = (
        sa.select(events)
        .where(events.c.seq > since, events.c.seq <= until, events.c.kind.in_(kinds))
        .order_by(events.c.seq)
    )
    rows = connection.execute(query).all()
    of_jobs = [one.subject for one in rows if one.kind in JOB_KINDS - HANDOVER_KINDS]
    owners = _read_owners(connection, of_jobs)
    heirs = _read_users(connection, [one.data for one in rows if one.kind in HANDOVER_KINDS])
    planners = _read_planners(connection) if any(r.kind in SCHEDULE_KINDS for r in rows) else {}
    return [
        Occurrence(
            cause=f"event/{row.seq}",
            kind=row.kind,
            subject=row.subject,
            data=row.data,
            at_ns=row.at_ns,
            tenant_id=row.tenant_id,
            user_id=_find_user(row, owners, heirs, planners),
        )
        for row in rows
    ]


def _find_user(
    row: Any,
    owners: Mapping[str, int],
    heirs: Mapping[str, int],
    planners: Mapping[tuple[int | None, str], int],
) -> int | None:
    if row.kind in HANDOVER_KINDS:
        return heirs.get(str(row.data.get("to")))
    if row.kind in SCHEDULE_KINDS:
        return planners.get((row.tenant_id, row.subject))
    return owners.get(row.subject) if row.kind in JOB_KINDS else None


def _read_users(
    connection: sa.Connection, handovers: Sequence[Mapping[str, Any]]
) -> dict[str, int]:
    """Read the users that got something, by their names, which are unique in a pool."""
    names = {str(data.get("to")) for data in handovers}
    query = sa.select(users.c.name, users.c.id).where(users.c.name.in_(sorted(names)))
    return {row.name: row.id for row in connection.execute(query)} if names else {}


def _read_owners(connection: sa.Connection, names: Sequence[str]) -> dict[str, int]:
    found = dict[str, int]()
    for table in (jobs, arrays):
        for n in range(0, len(names), _NAMES_AT_ONCE):
            query = sa.select(table.c.public_id, table.c.user_id)
            query = query.where(table.c.public_id.in_(names[n : n + _NAMES_AT_ONCE]))
            found |= {row.public_id: row.user_id for row in connection.execute(query)}
    return found


def _read_planners(connection: sa.Connection) -> dict[tuple[int | None, str], int]:
    """Read the user of each schedule, by tenant and name; there are few."""
    query = sa.select(schedules.c.tenant_id, schedules.c.name, schedules.c.user_id)
    return {(row.tenant_id, row.name): row.user_id for row in connection.execute(query)}


def _read_waiting(connection: sa.Connection, before_ns: int) -> list[Occurrence]:
    """Read the jobs, and arrays without a member yet, that wait since before an instant.

    A job that was sent back to wait does so since then, which is another occurrence.
    """
    again = sa.select(sa.func.max(allocations.c.released_ns)).where(
        allocations.c.job_id == jobs.c.id
    )
    pending = sa.select(jobs, again.scalar_subquery().label("again_ns")).where(
        jobs.c.state == str(JobState.PENDING), jobs.c.submitted_ns <= before_ns
    )
    unmade = sa.select(arrays, sa.null().label("again_ns")).where(
        arrays.c.stopped_ns.is_(None), arrays.c.made == 0, arrays.c.submitted_ns <= before_ns
    )
    rows = [*connection.execute(pending), *connection.execute(unmade)]
    return [
        Occurrence(
            cause=f"wait/{row.public_id}" + (f"/{row.again_ns}" if row.again_ns else ""),
            kind=str(Topic.JOB_WAITING),
            subject=row.public_id,
            data={"name": row.name},
            at_ns=row.again_ns or row.submitted_ns,
            tenant_id=row.tenant_id,
            user_id=row.user_id,
        )
        for row in rows
        if (row.again_ns or 0) <= before_ns
    ]


def _tell_minutes(one: Occurrence, now_ns: int) -> Occurrence:
    minutes = (now_ns - one.at_ns) // (60 * NANOS)
    data = {**one.data, "minutes": minutes}
    return Occurrence(one.cause, one.kind, one.subject, data, now_ns, one.tenant_id, one.user_id)


def _list_deliveries(
    active: Iterable[Any], occurrences: Sequence[Occurrence], now_ns: int
) -> Iterable[dict[str, Any]]:
    for row in active:
        quiet = read_quiet_hours(row.quiet_hours, row.time_zone)
        for one in occurrences:
            topic = next((topic for topic in list_topics(one) if topic in row.topics), None)
            is_new = one.kind in LOOKED_TOPICS or _read_seq(one) > row.since_seq
            scope = Scope(row.scope)
            if topic is None or not is_new:
                continue
            if is_within(scope, row.user_tenant_id, row.user_id, one):
                yield {
                    "public_id": new_id("d"),
                    "subscription_id": row.id,
                    "cause": one.cause,
                    "topic": str(topic),
                    "subject": one.subject,
                    "data": dict(one.data),
                    "at_ns": one.at_ns,
                    "state": "waiting",
                    "due_ns": compute_due(one.at_ns, row.digest_s, quiet, now_ns),
                }


def _read_seq(one: Occurrence) -> int:
    return int(one.cause.partition("/")[2])


def _drop_known(connection: sa.Connection, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the deliveries that were not made before."""
    causes = sorted({row["cause"] for row in rows})
    known = set[tuple[int, str]]()
    for n in range(0, len(causes), _NAMES_AT_ONCE):
        query = sa.select(deliveries.c.subscription_id, deliveries.c.cause)
        query = query.where(deliveries.c.cause.in_(causes[n : n + _NAMES_AT_ONCE]))
        known |= {(row.subscription_id, row.cause) for row in connection.execute(query)}
    return [row for row in rows if (row["subscription_id"], row["cause"]) not in known]


def _insert_deliveries(write: WriteTransaction, rows: Sequence[dict[str, Any]]) -> None:
    if rows:
        write.execute(deliveries.insert(), list(rows))
        write.announce("deliveries")
