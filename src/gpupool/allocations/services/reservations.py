"""Reservations: create one where there is room, list them, end them."""

from __future__ import annotations

from gpupool.allocations.cache import reservations
from gpupool.allocations.placement.placer import Placer
from gpupool.allocations.submission import validate
from gpupool.allocations.submission.shapes import check_shape
from gpupool.model.tenant import Principal
from gpupool.store.database import Store
from gpupool.tenancy.service import TenancyService
from gpupool.wire.reservations import ReservationIn, ReservationOut


class ReservationService:
    """Serves reservations. Thread-safe; every call is at most two short transactions."""

    def __init__(self, store: Store, tenancy: TenancyService, placer: Placer) -> None:
        self._store = store
        self._tenancy = tenancy
        self._placer = placer

    def create_reservation(self, body: ReservationIn, principal: Principal) -> ReservationOut:
        """Reserve capacity from a time on.

        Raises:
            BadDuration: The times contradict each other or lie in the past.
            NameTaken: The tenant has a reservation of that name.
            RequestRejection: There is too little room beside the others. Nothing is reserved then.
        """
        shape = check_shape(body.shape)
        with self._store.read() as connection:
            tenant = self._tenancy.resolve_tenant(connection, principal, body.tenant)
        # Two requests at once would each find the cards that the other one is about to reserve.
        with self._placer.pause_placement() as snapshot:
            now_ns = self._store.clock.now_ns()
            rejection = reservations.check_reservation(body, shape, tenant, snapshot, now_ns)
            validate.refuse_rejection(rejection)
            with self._store.write() as write:
                # Again: a tenant that was deleted meanwhile would hold its cards for ever.
                tenant = self._tenancy.resolve_tenant(write.connection, principal, body.tenant)
                out = reservations.insert_reservation(write, body, shape, tenant, principal)
                write.answer(201, out.model_dump(mode="json"))
        return out

    def list_reservations(self, principal: Principal, *, everything: bool) -> list[ReservationOut]:
        """List the reservations of the caller's tenant, or of all tenants for an admin.

        Args:
            principal: The caller.
            everything: Whether to list those that are over too.
        """
        with self._store.read() as connection:
            return reservations.list_reservations(
                connection, principal, self._store.clock.now_ns(), everything=everything
            )

    def end_reservation(
        self, name: str, tenant: str | None, principal: Principal
    ) -> ReservationOut:
        """Release what a reservation holds. Jobs that run in it go on.

        Raises:
            NotFound: The tenant has no such reservation, or it has ended.
        """
        with self._store.write() as write:
            # Tenants could once be deleted with reservations that go on.
            owner = self._tenancy.resolve_tenant(
                write.connection, principal, tenant, with_deleted=True
            )
            out = reservations.end_reservation(write, name, owner)
            write.answer(200, out.model_dump(mode="json"))
        return out
