"""Reservations in the ledger: created, listed, ended. `scheduling` judges whether there is room."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.store.hold_tables import reservations
from gpupool.base.errors import BadDuration, NameTaken, NotFound
from gpupool.base.ids import check_name, new_id
from gpupool.base.units import NANOS_PER_SECOND, format_share
from gpupool.model.claim import Rejection, Shape
from gpupool.model.reservation import Reservation, ReservationState
from gpupool.model.tenant import Principal
from gpupool.scheduling import (
    NEVER,
    ReservationOccurrence,
    Snapshot,
    describe_calendar_error,
    iterate_occurrences,
    judge_reservation,
)
from gpupool.store.database import WriteTransaction
from gpupool.tenancy.tables import tenants, users
from gpupool.tenancy.tenants import TenantRef
from gpupool.wire.reservations import ReservationIn, ReservationOut

_ROWS = (
    sa.select(reservations, tenants.c.name.label("tenant"), users.c.name.label("user"))
    .join(tenants, tenants.c.id == reservations.c.tenant_id)
    .join(users, users.c.id == reservations.c.user_id)
    .order_by(reservations.c.start_ns, reservations.c.id)
)
# The state in the row is only planned or ended. Whether a reservation is active, or over by time,
# is computed from the clock when it is read, so that no writer has to run at that instant.
_KEPT = reservations.c.state != ReservationState.ENDED


def read_reservations(connection: sa.Connection) -> tuple[Reservation, ...]:
    """Read the reservations that were not ended, also those that are over by time."""
    return tuple(build_reservation(row) for row in connection.execute(_ROWS.where(_KEPT)))


def require_reservation(known: Iterable[Reservation], name: str, tenant: str, now_ns: int) -> None:
    """Raise NotFound unless the tenant has a reservation of that name that is not over."""
    theirs = [held for held in known if held.name == name and held.tenant == tenant]
    if all(_is_over(held, now_ns) for held in theirs):
        raise NotFound(
            f"there is no reservation {name!r} of {tenant}", hint="gpupool reservation list"
        )


def build_reservation(row: Any) -> Reservation:
    """Build a reservation from its row and the name of its tenant."""
    labels = tuple(sorted(row.labels.items()))
    return Reservation(
        row.public_id,
        row.tenant,
        Shape(row.gpu_milli, row.memory_bytes, row.cards, row.model, labels),
        row.start_ns,
        row.end_ns,
        ReservationState(row.state),
        row.name,
        row.replicas,
        row.every_ns,
        row.until_ns,
    )


def check_reservation(
    body: ReservationIn, shape: Shape, tenant: TenantRef, view: Snapshot, now_ns: int
) -> Rejection | None:
    """Return the rejection where there is no room beside the other reservations; None if it fits.

    Raises:
        BadDuration: The times contradict each other or lie in the past.
    """
    asked = _build_request(body, shape, tenant.name, new_id("v"))
    if (wrong := describe_calendar_error(asked, now_ns)) is not None:
        raise BadDuration(
            wrong, hint="gpupool reservation create NAME --start 2026-12-01T08:00 --for 4h"
        )
    others = [one for one in view.reservations if not _is_over(one, now_ns)]
    return judge_reservation(
        asked, others, view.cards, view.running, view.tenants[tenant.name], now_ns
    )


def _build_request(body: ReservationIn, shape: Shape, tenant: str, public_id: str) -> Reservation:
    return Reservation(
        public_id,
        tenant,
        shape,
        body.start_ns,
        body.end_ns,
        name=check_name(body.name, "reservation"),
        replicas=body.replicas,
        every_ns=None if body.every_seconds is None else body.every_seconds * NANOS_PER_SECOND,
        until_ns=body.until_ns,
    )


def insert_reservation(
    write: WriteTransaction,
    body: ReservationIn,
    shape: Shape,
    tenant: TenantRef,
    principal: Principal,
) -> ReservationOut:
    """Write a checked reservation.

    Raises:
        NameTaken: The tenant has a reservation of that name that is not over.
    """
    theirs = sa.and_(reservations.c.tenant_id == tenant.id, reservations.c.name == body.name, _KEPT)
    # Only here, in the transaction, is the name safe from another request of the same moment.
    rows = write.execute(_ROWS.where(theirs)).all()
    if any(not _is_over(build_reservation(row), write.now_ns) for row in rows):
        raise NameTaken(
            f"{tenant.name} has a reservation named {body.name}",
            hint=f"choose another name, or end it: gpupool reservation delete {body.name}",
        )
    made = write.insert(
        reservations,
        public_id=new_id("v"),
        tenant_id=tenant.id,
        user_id=principal.user_id,
        name=body.name,
        gpu_milli=shape.gpu_milli,
        memory_bytes=shape.memory_bytes,
        cards=shape.count,
        model=shape.model,
        labels=dict(shape.labels),
        replicas=body.replicas,
        state=ReservationState.PLANNED,
        start_ns=body.start_ns,
        end_ns=body.end_ns,
        every_ns=None if body.every_seconds is None else body.every_seconds * NANOS_PER_SECOND,
        until_ns=body.until_ns,
        created_ns=write.now_ns,
    )
    out = describe_reservation(
        write.execute(_ROWS.where(reservations.c.id == made)).one(), write.now_ns
    )
    data = {
        "name": out.name,
        "share": out.share,
        "replicas": out.replicas,
        "start_ns": out.start_ns,
    }
    write.event("reservation.created", out.id, tenant_id=tenant.id, data=data)
    write.announce("reservations")
    return out


def end_reservation(write: WriteTransaction, name: str, tenant: TenantRef) -> ReservationOut:
    """Release what a reservation holds. Jobs that run in it go on.

    Raises:
        NotFound: The tenant has no such reservation, or it was ended.
    """
    theirs = sa.and_(reservations.c.tenant_id == tenant.id, reservations.c.name == name, _KEPT)
    # The newest of a name is the one that may not be over.
    newest = _ROWS.where(theirs).order_by(None).order_by(reservations.c.id.desc()).limit(1)
    row = write.execute(newest).one_or_none()
    if row is None:
        raise NotFound(
            f"{tenant.name} has no reservation {name!r}", hint="gpupool reservation list"
        )
    write.execute(
        reservations.update()
        .where(reservations.c.id == row.id)
        # Charges count what it reserved up to here, so it is in the same transaction.
        .values(state=ReservationState.ENDED, ended_ns=write.now_ns)
    )
    write.event("reservation.ended", row.public_id, tenant_id=tenant.id, data={"name": name})
    write.announce("reservations")
    return describe_reservation(
        write.execute(_ROWS.where(reservations.c.id == row.id)).one(), write.now_ns
    )


def list_reservations(
    connection: sa.Connection, principal: Principal, now_ns: int, *, everything: bool
) -> list[ReservationOut]:
    """List the reservations of the caller's tenant, of all tenants for an admin.

    Args:
        connection: A read transaction.
        principal: The caller.
        now_ns: The ledger's time.
        everything: Whether to list those that are over too.
    """
    query = _ROWS
    if not principal.sees_all:
        query = query.where(reservations.c.tenant_id == principal.tenant_id)
    found = list[ReservationOut]()
    for row in connection.execute(query):
        out = describe_reservation(row, now_ns)
        if everything or out.state != "ended":
            found.append(out)
    return found


def describe_reservation(row: Any, now_ns: int) -> ReservationOut:
    """Describe a row with its state as of now, and the times of its present or next occurrence."""
    asked = build_reservation(row)
    coming = _find_occurrence(asked, now_ns)
    state = ReservationState.ENDED
    if coming is not None:
        state = ReservationState.ACTIVE if coming.start_ns <= now_ns else ReservationState.PLANNED
    start, end_ns = (coming.start_ns, coming.end_ns) if coming else (row.start_ns, row.end_ns)
    return ReservationOut(
        id=row.public_id,
        name=row.name,
        tenant=row.tenant,
        user=row.user,
        share=format_share(row.gpu_milli, row.memory_bytes, row.cards),
        count=row.cards,
        model=row.model,
        replicas=row.replicas,
        state=state.value,
        start_ns=start,
        end_ns=None if end_ns == NEVER else end_ns,
        every_seconds=None if row.every_ns is None else row.every_ns // NANOS_PER_SECOND,
        until_ns=row.until_ns,
    )


def find_next_boundary(kept: tuple[Reservation, ...], now_ns: int) -> int | None:
    """Return the next instant at which one of them begins or ends; None if there is none."""
    times = list[int]()
    for reservation in kept:
        occurrence = _find_occurrence(reservation, now_ns)
        if occurrence is not None:
            times += [occurrence.start_ns, occurrence.end_ns]
    # A reservation without an end has `NEVER` as its end.
    return min((at_ns for at_ns in times if now_ns < at_ns < NEVER), default=None)


def _find_occurrence(asked: Reservation, now_ns: int) -> ReservationOccurrence | None:
    return next(iter(iterate_occurrences(asked, now_ns, NEVER)), None)


def is_reservation_over(row: Any, now_ns: int) -> bool:
    """Whether a reservation, by its row with the name of its tenant, is over by time."""
    return _is_over(build_reservation(row), now_ns)


def _is_over(asked: Reservation, now_ns: int) -> bool:
    return _find_occurrence(asked, now_ns) is None
