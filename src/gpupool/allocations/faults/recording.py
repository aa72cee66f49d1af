"""Writes the XIDs that an agent reports: each joins an incident of its node, or begins one.

Idempotent: card, XID and time name an XID, so a report that comes again, also after a server was
killed, changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.faults.tables import fault_evidence, fault_incidents, fault_jobs
from gpupool.allocations.store.tables import allocations, jobs, seats
from gpupool.base.ids import new_id
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.fleet.lookup import agent_cards, name_of
from gpupool.fleet.tables import devices
from gpupool.metering.tables import intervals
from gpupool.model.faults.actions import RecoveryAction, Repair
from gpupool.model.faults.incident import SILENCE_NS, CardXid, sum_up
from gpupool.store.database import WriteTransaction
from gpupool.wire.faults.incidents import CardFaultIn

#: XIDs that are kept of one incident: a card that is ill may report thousands a minute.
MOST_EVIDENCE: Final = 200
#: A node's clock and the ledger's may differ by so much.
CLOCK_SLACK_NS: Final = 2 * NANOS_PER_SECOND
#: Repairs that are older say nothing of a card's state now.
REPAIR_MEMORY_NS: Final = 30 * 24 * 3600 * NANOS_PER_SECOND
#: What an incident says until the sum of its evidence is written, in the same transaction.
_UNKNOWN: Final = "--"


def record_faults(write: WriteTransaction, agent: str, faults: Sequence[CardFaultIn]) -> None:
    """Add XIDs to the incidents of their nodes. Those of other agents' cards are ignored."""
    cards = agent_cards(write.connection, agent, [fault.uuid for fault in faults])
    news = _NewFaults(write)
    for fault in sorted(faults, key=lambda one: one.at_ns):
        card = cards.get(fault.uuid)
        if card is not None and not _is_known(write, card.id, fault):
            news.add(card, fault)
    news.finish()


class _NewFaults:
    """The XIDs of one report: each incident's evidence is read once, and its sum written once."""

    def __init__(self, write: WriteTransaction) -> None:
        self._write = write
        #: By incident, its evidence; by incident and card, the new XIDs' first and last time.
        self._evidence: dict[int, list[CardXid]] = {}
        self._spans: dict[tuple[int, int], tuple[int, int]] = {}
        self._names: dict[int, str] = {}

    def add(self, card: Any, fault: CardFaultIn) -> None:
        write = self._write
        seen = _read_fault(card.id, fault)
        incident = _find_incident(write, card.node_id, fault.at_ns)
        incident_id = _open_incident(write, card, fault) if incident is None else int(incident.id)
        if incident is not None:
            _extend_incident(write, incident, fault.at_ns)
        if incident_id not in self._evidence:
            self._evidence[incident_id] = _read_evidence(write, incident_id)
        self._names[card.id] = name_of(card)
        first, _ = self._spans.get((incident_id, card.id), (fault.at_ns, 0))
        self._spans[incident_id, card.id] = (first, fault.at_ns)
        if len(self._evidence[incident_id]) < MOST_EVIDENCE:
            self._evidence[incident_id].append(seen)
            _insert_evidence(write, incident_id, seen)

    def finish(self) -> None:
        for (incident_id, device_id), (first_ns, last_ns) in self._spans.items():
            _add_holders(self._write, incident_id, device_id, first_ns, last_ns)
        for incident_id, evidence in self._evidence.items():
            self._sum_up(incident_id, evidence)

    def _sum_up(self, incident_id: int, evidence: Sequence[CardXid]) -> None:
        write = self._write
        query = sa.select(fault_incidents).where(fault_incidents.c.id == incident_id)
        incident = write.execute(query).one()
        blamed = sum_up(evidence).blamed
        summary = sum_up(evidence, _count_useless_repairs(write, blamed))
        values: dict[str, Any] = {
            "device_id": blamed.device,
            "xid": blamed.xid,
            "containment": str(summary.containment),
            "repair": str(summary.repair),
        }
        now = (values["containment"], values["repair"])
        if now != (incident.containment, incident.repair):
            kind = "fault.opened" if incident.repair == _UNKNOWN else "fault.changed"
            # Of an incident that is new, every card is of this report.
            cause = blamed if kind == "fault.opened" else evidence[-1]
            data = {"incident": incident.public_id, "xid": cause.xid}
            data |= {"containment": now[0], "repair": now[1]}
            write.event(kind, self._names[cause.device], data=data)
            if kind == "fault.changed":
                # What a person accepted was another repair.
                values |= {"state": "open", "accepted_by": None, "accepted_ns": None}
        write.execute(
            fault_incidents.update().where(fault_incidents.c.id == incident_id).values(**values)
        )


def _is_known(write: WriteTransaction, device_id: int, fault: CardFaultIn) -> bool:
    query = sa.select(fault_evidence.c.id).where(
        fault_evidence.c.device_id == device_id,
        fault_evidence.c.xid == fault.xid,
        fault_evidence.c.at_ns == fault.at_ns,
    )
    return write.execute(query).first() is not None


def _find_incident(write: WriteTransaction, node_id: int, at_ns: int) -> Any:
    """Return the first incident of a node that an XID belongs to; a closed one takes no more."""
    # The condition of `model.faults.incident.belongs_to`, for the index.
    query = (
        sa.select(fault_incidents)
        .where(
            fault_incidents.c.node_id == node_id,
            fault_incidents.c.last_ns >= at_ns - SILENCE_NS,
            fault_incidents.c.first_ns <= at_ns + SILENCE_NS,
            fault_incidents.c.state != "closed",
        )
        .order_by(fault_incidents.c.first_ns)
        .limit(1)
    )
    return write.execute(query).one_or_none()


def _open_incident(write: WriteTransaction, card: Any, fault: CardFaultIn) -> int:
    """Insert an incident, whose sum follows with its evidence."""
    return write.insert(
        fault_incidents,
        public_id=new_id("x"),
        node_id=card.node_id,
        state="open",
        first_ns=fault.at_ns,
        last_ns=fault.at_ns,
        device_id=card.id,
        xid=fault.xid,
        containment=_UNKNOWN,
        repair=_UNKNOWN,
    )


def _extend_incident(write: WriteTransaction, incident: Any, at_ns: int) -> None:
    values = {"first_ns": min(incident.first_ns, at_ns), "last_ns": max(incident.last_ns, at_ns)}
    write.execute(
        fault_incidents.update().where(fault_incidents.c.id == incident.id).values(**values)
    )


def _insert_evidence(write: WriteTransaction, incident_id: int, seen: CardXid) -> None:
    write.insert(
        fault_evidence,
        incident_id=incident_id,
        device_id=seen.device,
        xid=seen.xid,
        at_ns=seen.at_ns,
        recovery=None if seen.recovery is None else str(seen.recovery),
    )


def _add_holders(
    write: WriteTransaction, incident_id: int, device_id: int, first_ns: int, last_ns: int
) -> None:
    key = {"incident_id": incident_id, "device_id": device_id}
    before = write.execute(sa.select(fault_jobs.c.allocation_id).filter_by(**key)).scalars()
    for allocation_id in sorted(_list_holders(write, device_id, first_ns, last_ns) - set(before)):
        write.execute(
            fault_jobs.insert().values(**key, allocation_id=allocation_id, at_ns=first_ns)
        )


def _list_holders(write: WriteTransaction, device_id: int, first_ns: int, last_ns: int) -> set[int]:
    """List the allocations with a share of the card while it had XIDs.

    The end of a job often comes with the report of the XID that ended it, or before. Each part has
    an index: a card may have had 100,000 seats.
    """
    since_ns = first_ns - CLOCK_SLACK_NS
    until_ns = last_ns + CLOCK_SLACK_NS
    node = sa.select(devices.c.node_id).where(devices.c.id == device_id).scalar_subquery()
    seated = (
        sa.select(allocations.c.id)
        .join(seats, seats.c.allocation_id == allocations.c.id)
        .where(seats.c.device_id == device_id, allocations.c.granted_ns <= until_ns)
    )
    # Word for word the condition of the partial index by node.
    held = seated.where(
        allocations.c.node_id == node, allocations.c.state != sa.literal_column("'released'")
    )
    ended = seated.join(jobs, jobs.c.id == allocations.c.job_id).where(
        jobs.c.ended_ns >= since_ns, allocations.c.released_ns >= since_ns
    )
    # Jobs that wait again. One that held its share for less than a second has no interval.
    requeued = sa.select(intervals.c.allocation_id).where(
        intervals.c.end_s >= since_ns // NANOS_PER_SECOND,
        intervals.c.start_s <= until_ns // NANOS_PER_SECOND,
        intervals.c.device_id == device_id,
    )
    return set(write.execute(sa.union(held, ended, requeued)).scalars())


def _read_evidence(write: WriteTransaction, incident_id: int) -> list[CardXid]:
    query = sa.select(fault_evidence).where(fault_evidence.c.incident_id == incident_id)
    return [
        CardXid(row.device_id, row.xid, row.at_ns, row.recovery and RecoveryAction(row.recovery))
        for row in write.execute(query)
    ]


def _count_useless_repairs(write: WriteTransaction, blamed: CardXid) -> int:
    """Count accepted resets and reboots for the same XID of a card, after which it came again."""
    query = sa.select(sa.func.count()).where(
        fault_incidents.c.device_id == blamed.device,
        fault_incidents.c.xid == blamed.xid,
        fault_incidents.c.state == "closed",
        fault_incidents.c.accepted_ns.is_not(None),
        fault_incidents.c.repair.in_([str(Repair.RESET), str(Repair.REBOOT)]),
        fault_incidents.c.first_ns >= blamed.at_ns - REPAIR_MEMORY_NS,
    )
    return int(write.execute(query).scalar_one())


def _read_fault(device_id: int, fault: CardFaultIn) -> CardXid:
    recovery = None if fault.recovery is None else RecoveryAction(fault.recovery)
    return CardXid(device_id, fault.xid, fault.at_ns, recovery)
