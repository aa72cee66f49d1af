"""Evidence that agents read on their nodes: kept with its time, and ended when it is too old. Thread-safe."""

from __future__ import annotations

import json
import threading
from typing import Final

import sqlalchemy as sa

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.network.planes.node_readings import (
    AGENT,
    STALE,
    name_host_file,
    name_rail_file,
)
from gpupool.network.planes.partitions import name_key_file
from gpupool.network.planes.reading import (
    find_node_agent,
    hash_text,
    is_used,
    read_inventory,
)
from gpupool.network.planes.tables import plane_evidence
from gpupool.store.database import Store
from gpupool.store.write_transaction import WriteTransaction
from gpupool.wire.network.planes import PlaneReading

#: After so long without a reading a plane is not in force. Agents read with each heartbeat, 25 s.
STALE_SECONDS: Final = 180
_STALE_NS: Final = STALE_SECONDS * NANOS_PER_SECOND
#: Between two looks for old readings.
_LOOK_NS: Final = 10 * NANOS_PER_SECOND


class AgentEvidence:
    """The readings of agents in the pool's database."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._last_look_ns = 0

    def apply_reading(self, agent: str, reading: PlaneReading) -> None:
        """Keep what an agent reads on its node, where planes are used. Idempotent.

        A node that another agent serves, or that the inventory lacks, is passed over.
        """
        with self._store.read() as connection:
            inventory = read_inventory(connection) if is_used(connection) else None
            names = set() if inventory is None else {node.name for node in inventory.nodes}
            is_own = find_node_agent(connection, reading.node) == agent
        if reading.node not in names or not is_own:
            return
        with self._store.write() as write:
            has_news = False
            for target, text in write_readings(reading).items():
                has_news |= _keep(write, target, text, agent)
            if has_news:
                write.announce("fleet")

    def end_old_readings(self) -> None:
        """Let readings end that were not renewed. Cheap: it looks every ten seconds."""
        now_ns = self._store.clock.now_ns()
        with self._lock:
            if now_ns < self._last_look_ns + _LOOK_NS:
                return
            self._last_look_ns = now_ns
        old = sa.and_(
            plane_evidence.c.source == AGENT, plane_evidence.c.seen_ns < now_ns - _STALE_NS
        )
        with self._store.read() as connection:
            if connection.execute(sa.select(plane_evidence.c.id).where(old)).first() is None:
                return
        with self._store.write() as write:
            query = sa.select(plane_evidence.c.target, plane_evidence.c.reporter).where(old)
            for row in write.execute(query).all():
                write.event("network.plane_reading_ended", row.target, data={"agent": row.reporter})
            write.execute(plane_evidence.update().where(old).values(source=STALE))
            write.announce("fleet")


def write_readings(reading: PlaneReading) -> dict[str, str]:
    """Write a reading as texts by target; what the machine has none of is left out."""
    found = dict[str, str]()
    if reading.ports:
        lines = []
        for port in reading.ports:
            keys = [f"{int(key, 16):#06x}" for key in port.keys] or ["0x0000"]
            lines.append(f"{port.name} guid {int(port.guid, 16):#018x} keys {' '.join(keys)}\n")
        found[name_key_file(reading.node)] = "".join(lines)
    if reading.rails:
        rails = [rail.model_dump(mode="json") for rail in reading.rails]
        found[name_rail_file(reading.node)] = _write(rails)
    if reading.nvme_hosts or reading.nvme_subsystems:
        storage = {"hosts": reading.nvme_hosts, "subsystems": reading.nvme_subsystems}
        found[name_host_file(reading.node)] = _write(storage)
    return found


def _write(value: object) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def _keep(write: WriteTransaction, target: str, text: str, agent: str) -> bool:
    """Keep one text; whether it is news beside its time."""
    values = {
        "source": AGENT,
        "hash": hash_text(text),
        "text": text,
        "reporter": agent,
    }
    ours = plane_evidence.c.target == target
    before = write.execute(sa.select(plane_evidence).where(ours)).one_or_none()
    if before is None:
        write.insert(plane_evidence, target=target, seen_ns=write.now_ns, **values)
    else:
        write.execute(plane_evidence.update().where(ours).values(seen_ns=write.now_ns, **values))
        if all(getattr(before, name) == value for name, value in values.items()):
            return False
    data = {"source": AGENT, "hash": values["hash"]}
    write.event("network.plane_reported", target, data=data)
    return True
