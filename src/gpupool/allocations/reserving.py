"""Reservations in the ledger: made, listed, ended. Whether there is room for one is scheduling's to judge."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gpupool.allocations.tables import reservations
from gpupool.base.errors import BadDuration, NameTaken, NotFound
from gpupool.base.ids import check_name, new_id
from gpupool.base.units import format_share
from gpupool.model.claim import Rejection, Shape
from gpupool.model.reservation import Reservation, ReservationState
from gpupool.model.tenant import Principal
from gpupool.scheduling.admit_reservation import bad_times, judge
from gpupool.scheduling.reservation import Occurrence, occurrences
from gpupool.scheduling.snapshot import Snapshot
from gpupool.scheduling.timeline import NEVER
from gpupool.store.database import Write
from gpupool.tenancy.tables import tenants, users
from gpupool.tenancy.tenants import TenantRef
from gpupool.wire.reservations import ReservationIn, ReservationOut

NS = 10**9

_ROWS = (
    sa.select(reservations, tenants.c.name.label("tenant"), users.c.name.label("user"))
    .join(tenants, tenants.c.id == reservations.c.tenant_id)
    .join(users, users.c.id == reservations.c.user_id)
    .order_by(reservations.c.start_ns, reservations.c.id)
)
_KEPT = reservations.c.state != ReservationState.ENDED


def read_reservations(connection: sa.Connection) -> tuple[Reservation, ...]:
    """All that nobody has ended."""
    return tuple(reservation_of(row) for row in connection.execute(_ROWS.where(_KEPT)))


def reservation_of(row: Any) -> Reservation:
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


def check(body: ReservationIn, shape: Shape, tenant: TenantRef, view: Snapshot, now_ns: int) -> Rejection | None:
    """Raises BadDuration for times that make no sense; the refusal where there is no room, or None."""
    asked = _asked(body, shape, tenant.name, new_id("v"))
    if (wrong := bad_times(asked, now_ns)) is not None:
        raise BadDuration(wrong, hint="gpupool reservation create NAME --start 2026-12-01T08:00 --for 4h")
    others = [one for one in view.reservations if not _over(one, now_ns)]
    return judge(asked, others, view.cards, view.running, view.tenants[tenant.name], now_ns)


def _asked(body: ReservationIn, shape: Shape, tenant: str, public_id: str) -> Reservation:
    return Reservation(
        public_id,
        tenant,
        shape,
        body.start_ns,
        body.end_ns,
        name=check_name(body.name, "reservation"),
        replicas=body.replicas,
        every_ns=None if body.every_seconds is None else body.every_seconds * NS,
        until_ns=body.until_ns,
    )


def insert(write: Write, body: ReservationIn, shape: Shape, tenant: TenantRef, principal: Principal) -> ReservationOut:
    """Write a checked reservation. Raises NameTaken."""
    theirs = sa.and_(reservations.c.tenant_id == tenant.id, reservations.c.name == body.name, _KEPT)
    rows = write.execute(_ROWS.where(theirs)).all()
    if any(not _over(reservation_of(row), write.now_ns) for row in rows):
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
        every_ns=None if body.every_seconds is None else body.every_seconds * NS,
        until_ns=body.until_ns,
        created_ns=write.now_ns,
    )
    out = reservation_out(write.execute(_ROWS.where(reservations.c.id == made)).one(), write.now_ns)
    data = {"name": out.name, "share": out.share, "replicas": out.replicas, "start_ns": out.start_ns}
    write.event("reservation.created", out.id, tenant_id=tenant.id, data=data)
    write.announce("reservations")
    return out


def end(write: Write, name: str, tenant: TenantRef) -> ReservationOut:
    """Give back what a reservation holds; jobs that run in it go on. Raises NotFound."""
    theirs = sa.and_(reservations.c.tenant_id == tenant.id, reservations.c.name == name, _KEPT)
    row = write.execute(_ROWS.where(theirs).order_by(reservations.c.id.desc()).limit(1)).one_or_none()
    if row is None:
        raise NotFound(f"{tenant.name} has no reservation {name!r}", hint="gpupool reservation list")
    write.execute(reservations.update().where(reservations.c.id == row.id).values(state=ReservationState.ENDED))
    write.event("reservation.ended", row.public_id, tenant_id=tenant.id, data={"name": name})
    write.announce("reservations")
    return reservation_out(write.execute(_ROWS.where(reservations.c.id == row.id)).one(), write.now_ns)


def list_all(connection: sa.Connection, principal: Principal, now_ns: int, *, everything: bool) -> list[ReservationOut]:
    """The caller's tenant's, an admin's everybody's; those that are over only with `everything`."""
    query = _ROWS if principal.sees_all else _ROWS.where(reservations.c.tenant_id == principal.tenant_id)
    found = [reservation_out(row, now_ns) for row in connection.execute(query)]
    return [one for one in found if everything or one.state != "ended"]


def reservation_out(row: Any, now_ns: int) -> ReservationOut:
    """A row as it is shown: its state and its time are those of now."""
    asked = reservation_of(row)
    coming = _next(asked, now_ns)
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
        every_seconds=None if row.every_ns is None else row.every_ns // NS,
        until_ns=row.until_ns,
    )


def next_boundary(kept: tuple[Reservation, ...], now_ns: int) -> int | None:
    """When one of them begins or ends next."""
    times = [at for one in kept if (coming := _next(one, now_ns)) for at in (coming.start_ns, coming.end_ns)]
    return min((at for at in times if now_ns < at < NEVER), default=None)


def _next(asked: Reservation, now_ns: int) -> Occurrence | None:
    return next(iter(occurrences(asked, now_ns, NEVER)), None)


def _over(asked: Reservation, now_ns: int) -> bool:
    return _next(asked, now_ns) is None
