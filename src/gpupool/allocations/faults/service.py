"""Incidents as people see, accept and close them. Thread-safe. Nothing here touches a card."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gpupool.allocations.faults.advice import WIDE, RepairCard, find_obstacle
from gpupool.allocations.faults.lookup import (
    find_incident,
    read_affected,
    read_evidence,
    select_incidents,
)
from gpupool.allocations.faults.tables import fault_incidents
from gpupool.allocations.faults.views import describe_incident, describe_row
from gpupool.base.errors import CardStillFailed, IncidentOver, NothingProposed, RepairBlocked
from gpupool.fleet.lookup import find_node, name_of, select_cards
from gpupool.fleet.service import FleetService
from gpupool.fleet.tables import devices
from gpupool.model.device import DeviceHealth, DeviceState
from gpupool.model.faults.actions import Containment, RecoveryAction, Repair
from gpupool.model.faults.diagnosis import diagnose_xid
from gpupool.model.tenant import Principal
from gpupool.store.database import Store, WriteTransaction
from gpupool.wire.faults.incidents import IncidentCloseIn, IncidentOut, IncidentRow


class FaultService:
    """What routes call."""

    def __init__(self, store: Store, fleet: FleetService) -> None:
        self._store = store
        self._fleet = fleet

    def list_incidents(
        self, caller: Principal, *, node: str | None, every: bool, limit: int
    ) -> list[IncidentRow]:
        """List incidents, the latest first.

        Args:
            caller: A tenant's sees those that ended its jobs.
            node: Only of this node. Raises NotFound.
            every: Closed ones too.
            limit: The most.
        """
        query = select_incidents(caller).order_by(
            fault_incidents.c.last_ns.desc(), fault_incidents.c.id.desc()
        )
        if not every:
            query = query.where(fault_incidents.c.state != "closed")
        with self._store.read() as connection:
            if node is not None:
                node_id = find_node(connection, node).id
                query = query.where(fault_incidents.c.node_id == node_id)
            rows = list(connection.execute(query.limit(limit)))
            ids = [row.id for row in rows]
            evidence = read_evidence(connection, ids)
            affected = read_affected(connection, caller, ids)
        now_ns = self._store.clock.now_ns()
        return [describe_row(caller, row, evidence, affected, now_ns) for row in rows]

    def find(self, caller: Principal, public_id: str) -> IncidentOut:
        """Describe one incident with its evidence. Raises UnknownIncident."""
        with self._store.read() as connection:
            row = find_incident(connection, caller, public_id)
            return self._describe(connection, caller, row)

    def accept(self, caller: Principal, public_id: str) -> IncidentOut:
        """Take the proposed repair over. An accepted one stays as it is.

        Raises:
            UnknownIncident: There is no such incident.
            IncidentOver: It is closed.
            NothingProposed: It needs no repair.
            RepairBlocked: A card that the repair would touch is in use.
        """
        with self._store.write() as write:
            row = find_incident(write.connection, caller, public_id)
            if row.state == "closed":
                raise IncidentOver(
                    f"incident {public_id} is closed", hint="gpupool faults list  shows open ones"
                )
            if row.repair == Repair.NONE:
                raise NothingProposed(
                    f"incident {public_id} needs no repair: XID {row.xid} is {row.containment}",
                    hint=f"gpupool faults close {public_id}",
                )
            if row.state == "open":
                self._refuse_used(write.connection, row)
                values = {
                    "state": "accepted",
                    "accepted_by": caller.user,
                    "accepted_ns": write.now_ns,
                }
                _change(write, row, "fault.accepted", values)
            out = self._describe(
                write.connection, caller, find_incident(write.connection, caller, public_id)
            )
            write.answer(200, out.model_dump(mode="json"))
        return out

    def close(self, caller: Principal, public_id: str, body: IncidentCloseIn) -> IncidentOut:
        """Close an incident. A closed one stays as it is.

        Raises:
            UnknownIncident: There is no such incident.
            CardStillFailed: A card of it has failed, and the body does not say to close it anyway.
        """
        with self._store.write() as write:
            row = find_incident(write.connection, caller, public_id)
            if row.state != "closed":
                if not body.still_failed:
                    _refuse_failed(write.connection, row)
                values = {
                    "state": "closed",
                    "closed_by": caller.user,
                    "closed_ns": write.now_ns,
                    "note": body.note,
                }
                _change(write, row, "fault.closed", values)
            out = self._describe(
                write.connection, caller, find_incident(write.connection, caller, public_id)
            )
            write.answer(200, out.model_dump(mode="json"))
        return out

    def _describe(self, connection: sa.Connection, caller: Principal, row: Any) -> IncidentOut:
        return describe_incident(
            caller,
            row,
            read_evidence(connection, [row.id]),
            read_affected(connection, caller, [row.id]),
            self._read_repair_cards(connection, row),
            self._store.clock.now_ns(),
        )

    def _refuse_used(self, connection: sa.Connection, row: Any) -> None:
        """Raise RepairBlocked where the repair would end what is on a card."""
        cards = self._read_repair_cards(connection, row)
        obstacle = find_obstacle(Repair(row.repair), cards)
        if obstacle is not None:
            raise RepairBlocked(
                f"a {row.repair} would end {obstacle}",
                hint=obstacle.command,
                cards=list(obstacle.names),
                shares=obstacle.shares,
                processes=obstacle.processes,
            )

    def _read_repair_cards(self, connection: sa.Connection, row: Any) -> list[RepairCard]:
        """Read the cards that the proposed repair touches: failed ones, or all of the node."""
        query = select_cards().where(devices.c.state != str(DeviceState.LOST))
        if row.repair == Repair.REBOOT or Containment(row.containment) in WIDE:
            query = query.where(devices.c.node_id == row.node_id)
        else:
            query = query.where(devices.c.id.in_(_list_drained(connection, row)))
        cards = []
        for card in connection.execute(query.order_by(devices.c.idx)):
            usage = self._fleet.get_usage(card.uuid)
            cards.append(
                RepairCard(
                    name_of(card),
                    card.uuid,
                    card.shares,
                    len(usage.unmanaged) if usage else 0,
                    card.health == DeviceHealth.FAILED,
                )
            )
        return cards


def _change(write: WriteTransaction, row: Any, kind: str, values: dict[str, Any]) -> None:
    write.execute(fault_incidents.update().where(fault_incidents.c.id == row.id).values(**values))
    data = {"incident": row.public_id, "xid": row.xid, "repair": row.repair}
    write.event(kind, f"{row.node_name}:{row.idx}", data=data)


def _list_drained(connection: sa.Connection, row: Any) -> set[int]:
    """List the cards of an incident with an XID that asks for more than a look."""
    drained = {row.device_id}
    for one in read_evidence(connection, [row.id]):
        recovery = None if one.recovery is None else RecoveryAction(one.recovery)
        found = diagnose_xid(one.xid, recovery)
        if found.health is DeviceHealth.FAILED:
            drained.add(one.device_id)
    return drained


def _refuse_failed(connection: sa.Connection, row: Any) -> None:
    """Raise CardStillFailed where a card of the incident has failed."""
    query = select_cards().where(
        devices.c.id.in_([one.device_id for one in read_evidence(connection, [row.id])]),
        devices.c.health == str(DeviceHealth.FAILED),
    )
    failed = [name_of(card) for card in connection.execute(query.order_by(devices.c.idx))]
    if failed:
        raise CardStillFailed(
            f"incident {row.public_id} has failed cards: {', '.join(failed)}",
            hint=f"repair them and restart their agent, or  gpupool faults close "
            f"{row.public_id} --still-failed",
            cards=failed,
        )
