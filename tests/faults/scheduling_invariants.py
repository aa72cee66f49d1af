"""What must hold of gangs, evictions, moves and reservations at any instant, read from the database
file.

Each check yields sentences; none is the good answer.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from gpupool.model.numa import add_numa_parts, read_host_capacity, read_numa_nodes, read_numa_parts

LIVE = ("pending", "starting", "running")


def promises(db: sqlite3.Connection) -> Iterator[str]:
    """All that is here."""
    yield from _nothing_is_over_committed(db)
    yield from _numa_nodes_add_up(db)
    yield from _gangs_are_whole_or_absent(db)
    yield from _who_leaves_is_on_the_way(db)
    yield from _who_moves_is_on_the_way(db)
    yield from _reservations_are_kept(db)


def _nothing_is_over_committed(db: sqlite3.Connection) -> Iterator[str]:
    """Seats, and what is kept on a card for jobs that move, are never more than there is."""
    kept: dict[str, Counter[str]] = defaultdict(Counter)
    for row in db.execute(
        f"SELECT moving_to FROM jobs WHERE moving_to IS NOT NULL AND state IN {LIVE}"
    ):
        for card, milli, size in json.loads(row["moving_to"]) or ():
            kept[card].update(milli=milli, bytes=size)
    for row in db.execute("SELECT uuid, used_milli, used_bytes, memory_bytes FROM devices"):
        milli, size = (
            row["used_milli"] + kept[row["uuid"]]["milli"],
            row["used_bytes"] + kept[row["uuid"]]["bytes"],
        )
        if not (0 <= milli <= 1000 and 0 <= size <= row["memory_bytes"]):
            yield f"card {row['uuid']} has {milli} milli and {size} of {row['memory_bytes']} bytes held or kept"
    for row in db.execute("SELECT name, used_cpu_milli, used_host_bytes, facts FROM nodes"):
        most = read_host_capacity(json.loads(row["facts"])) or (0, 0)
        if not (0 <= row["used_cpu_milli"] <= most[0] and 0 <= row["used_host_bytes"] <= most[1]):
            yield f"node {row['name']} gave {row['used_cpu_milli']} milli and {row['used_host_bytes']} bytes of {most}"


def _numa_nodes_add_up(db: sqlite3.Connection) -> Iterator[str]:
    """What a node says is held of its NUMA nodes is what its allocations have, and never more than
    each has."""
    held: dict[int, list[list[int]]] = defaultdict(list)
    for row in db.execute(
        "SELECT node_id, numa FROM allocations WHERE state <> 'released' AND numa IS NOT NULL"
    ):
        held[row["node_id"]] += json.loads(row["numa"]) or ()
    for row in db.execute("SELECT id, name, used_numa, facts FROM nodes"):
        says, is_ = (
            add_numa_parts((), read_numa_parts(json.loads(row["used_numa"]))),
            add_numa_parts((), read_numa_parts(held[row["id"]])),
        )
        if says != is_:
            yield f"node {row['name']} says {says} of its NUMA nodes, its allocations add up to {is_}"
        sizes = {node.number: node for node in read_numa_nodes(json.loads(row["facts"]))}
        for part in is_:
            node = sizes[part.numa]
            if part.cpu_milli > 1000 * len(node.cpus) or part.host_bytes > node.memory_bytes:
                yield f"NUMA node {part.numa} of {row['name']} gave {part} of {node}"


def _who_moves_is_on_the_way(db: sqlite3.Connection) -> Iterator[str]:
    """Seats are kept for those alone who still have to come to them."""
    query = "SELECT public_id, state, stop_requested, moving_to FROM jobs WHERE state IN ('starting', 'running')"
    for row in db.execute(query):
        if json.loads(row["moving_to"] or "null") and row["stop_requested"] is None:
            yield f"job {row['public_id']} has other seats kept for it and was not asked to leave its own"


def _gangs_are_whole_or_absent(db: sqlite3.Connection) -> Iterator[str]:
    """Of a gang of which nobody has ended, the members that stay are at least its minimum, or none.

    The others have been asked to leave, or wait: for all to wait again, or to join.
    """
    members: dict[str, list[sqlite3.Row]] = defaultdict(list)
    query = (
        "SELECT g.public_id, g.spec, j.gang_role, j.state, j.stop_requested FROM jobs j"
        " JOIN gangs g ON g.id = j.gang_id"
    )
    for row in db.execute(query):
        members[row["public_id"]].append(row)
    for name, rows in members.items():
        staying = Counter(
            row["gang_role"]
            for row in rows
            if row["state"] in ("starting", "running") and row["stop_requested"] is None
        )
        lacking = {
            role: least
            for role, least in _minimum(json.loads(rows[0]["spec"]))
            if staying[role] < least
        }
        if staying and lacking and all(row["state"] in LIVE for row in rows):
            yield f"gang {name} has {dict(staying)} members that hold cards; it needs {lacking}"


def _minimum(spec: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """By role, how many members start together."""
    for part in spec["parts"]:
        if "parts" in part:
            yield from _minimum(part)
        else:
            yield part["role"], part["minimum"]


def _who_leaves_is_on_the_way(db: sqlite3.Connection) -> Iterator[str]:
    """An eviction ends with the job waiting again or over; until then its node is asked to stop
    it."""
    query = (
        "SELECT j.public_id, j.state, j.stop_requested, j.leaving_for, count(a.id) releasing FROM jobs j"
        " LEFT JOIN allocations a ON a.job_id = j.id AND a.state = 'releasing' GROUP BY j.id"
    )
    for row in db.execute(query):
        asked = row["stop_requested"] in ("preempted", "recovered", "regrouped", "moved", "shrunk")
        if asked and row["state"] in LIVE and not row["releasing"]:
            yield f"job {row['public_id']} ({row['state']}) is to leave and nobody stops it"
        if row["leaving_for"] and row["state"] == "pending":
            yield f"job {row['public_id']} waits and still leaves for {row['leaving_for']}"


def _reservations_are_kept(db: sqlite3.Connection) -> Iterator[str]:
    """Whoever came since a reservation began has left it its cards.

    What its own jobs hold counts as its own, and what others held before: of those it waits for the
    end.
    """
    now_ns = db.execute("SELECT ledger_ns FROM pool").fetchone()[0]
    active = (
        "SELECT r.*, t.name tenant FROM reservations r JOIN tenants t ON t.id = r.tenant_id WHERE state <> 'ended'"
        " AND every_ns IS NULL AND memory_bytes IS NOT NULL AND start_ns <= ? AND coalesce(end_ns, ?) > ?"
    )
    for asked in db.execute(active, (now_ns, now_ns + 1, now_ns)).fetchall():
        room = sum(_room_for(asked, card) for card in db.execute(_LATECOMERS, dict(asked)))
        if room < asked["replicas"] * asked["cards"]:
            yield f"reservation {asked['name']} of {asked['tenant']} could have {room} cards since it began"


_LATECOMERS = (
    "SELECT d.memory_bytes, coalesce(sum(h.gpu_milli), 0) milli, coalesce(sum(h.memory_bytes), 0) bytes"
    " FROM devices d LEFT JOIN (SELECT s.* FROM seats s JOIN allocations a ON a.id = s.allocation_id"
    " JOIN jobs j ON j.id = a.job_id JOIN claims c ON c.id = a.claim_id WHERE a.state <> 'released'"
    " AND a.granted_ns > :start_ns AND NOT (j.tenant_id = :tenant_id AND coalesce(c.reservation, '') = :name)) h"
    " ON h.device_id = d.id GROUP BY d.id"
)


def _room_for(asked: sqlite3.Row, card: sqlite3.Row) -> int:
    milli = (1000 - card["milli"]) // asked["gpu_milli"]
    size = (card["memory_bytes"] - card["bytes"]) // asked["memory_bytes"]
    return int(min(milli, size))
