"""Nodes of a cluster and their cards, as its meter tells them.

The pool counts them and never places there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import WriteConflict
from gpupool.base.ids import check_name
from gpupool.base.units import MIB, WHOLE
from gpupool.fleet import spans
from gpupool.fleet.changing import set_device_state, write_cards, write_node
from gpupool.fleet.lookup import select_cards
from gpupool.fleet.registration import check_body
from gpupool.fleet.tables import device_spans, devices, nodes
from gpupool.model.device import DeviceState
from gpupool.store.database import WriteTransaction
from gpupool.wire.cluster import ClusterNodeIn
from gpupool.wire.fleet import DeviceIn, NodeIn

UNKNOWN_MODEL = "unknown"


def known_node(write: WriteTransaction, name: str, teller: str) -> Any | None:
    """Return the node's row, if that meter may tell it.

    Raises:
        WriteConflict: The node belongs to this pool or to another cluster.
    """
    known = write.execute(sa.select(nodes).where(nodes.c.name == name)).one_or_none()
    if known is not None and known.cluster_generation is None:
        raise WriteConflict(
            f"node {name} is this pool's own",
            hint="one node is served by one pool, or by a cluster",
        )
    if known is not None and known.agent != teller and _is_told_by(write, known.agent, name):
        raise WriteConflict(
            f"node {name} is told by {known.agent}",
            hint="each cluster's meter is a user of its own, and two clusters have no node of one "
            "name",
        )
    return known


def write_cluster_node(
    write: WriteTransaction, name: str, body: ClusterNodeIn, teller: str, known: Any | None
) -> Any:
    """Write the node's row with its cards as told; `known` is its row so far.

    Raises:
        BadName: The node's name cannot be one.
        BadInput: The cards contradict each other.
    """
    check_name(name, "node name")
    cards = []
    simulated = False
    for card in body.cards:
        cards.append(DeviceIn(vendor="", **card.model_dump()))
        simulated = simulated or card.simulated
    # `check_body` refuses a node with cards of both kinds.
    told = NodeIn(devices=cards, simulated=simulated, agent=teller)
    check_body(told)
    row = write_node(write, name, known, told)
    mark = {
        "cluster_born_ns": body.born_ns,
        "cluster_generation": body.generation,
        "ready": body.ready,
    }
    write.execute(nodes.update().where(nodes.c.id == row.id).values(**mark))
    # What is held is written anew below, so that a card may change its size.
    write.execute(
        devices.update()
        .where(devices.c.node_id == row.id)
        .values(used_milli=0, used_bytes=0, shares=0)
    )
    write_cards(write, row, told)
    wanted = DeviceState.ADOPTED if body.managed else DeviceState.OBSERVED
    event = "device.adopted" if body.managed else "device.released"
    seen = {card.uuid for card in body.cards}
    shown = [one for one in _read_cards(write, row.id).values() if one.uuid in seen]
    set_device_state(write, shown, wanted, event)
    return row


def _is_told_by(write: WriteTransaction, teller: str, name: str) -> bool:
    return any(row.name == name for row in cluster_nodes(write.connection, teller))


def cluster_nodes(connection: sa.Connection, teller: str) -> list[Any]:
    """List the nodes that this meter told, of which cards are there or something is held."""
    there = sa.exists().where(
        devices.c.node_id == nodes.c.id, sa.or_(devices.c.state != "lost", devices.c.shares > 0)
    )
    query = sa.select(nodes).where(
        nodes.c.cluster_generation.is_not(None), nodes.c.agent == teller, there
    )
    return list(connection.execute(query.order_by(nodes.c.id)))


def end_cluster_node(write: WriteTransaction, row: Any) -> None:
    """End a node that is no more: nothing of its cards is held, and they give nothing."""
    write.execute(nodes.update().where(nodes.c.id == row.id).values(ready=False))
    write.execute(
        devices.update()
        .where(devices.c.node_id == row.id)
        .values(used_milli=0, used_bytes=0, shares=0)
    )
    write_cards(write, row, NodeIn(devices=[], simulated=row.simulated, agent=row.agent))
    write_held(write, row.id, [])


def ensure_cards(write: WriteTransaction, node_id: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the keys of these cards, by uuid with the memory that is held of them.

    A card that was never shown is noted as lost.
    """
    known = _read_cards(write, node_id)
    strangers = [uuid for uuid in sizes if uuid not in known]
    # Behind all indexes: the true one is unknown, and (node, index) is unique.
    first = max((row.idx for row in known.values()), default=-1) + 1
    for number, uuid in enumerate(strangers):
        row = {
            "uuid": uuid,
            "node_id": node_id,
            "idx": first + number,
            "model": UNKNOWN_MODEL,
            "product": "",
        }
        how = {"simulated": False, "state": str(DeviceState.LOST), "health": "unknown", "facts": {}}
        write.execute(devices.insert().values(**row, **how, memory_bytes=max(sizes[uuid], MIB)))
    cards = _read_cards(write, node_id) if strangers else known
    return {uuid: row.id for uuid, row in cards.items()}


def write_held(write: WriteTransaction, node_id: int, held: Iterable[tuple[int, int, int]]) -> None:
    """Write what is held now of the node's cards, and what each counts as.

    Args:
        held: Of each seat the card's key, thousandths and bytes.
    """
    sums: dict[int, list[int]] = {}
    for key, milli, size in held:
        found = sums.setdefault(key, [0, 0, 0])
        found[0] += milli
        found[1] += size
        found[2] += 1
    known = {}
    for row in _read_cards(write, node_id).values():
        known[row.id] = row
    for key, (milli, size, shares) in sums.items():
        used = {
            # A cluster may overcommit; the columns' checks allow no more than the card.
            "used_milli": min(milli, WHOLE),
            "used_bytes": min(size, known[key].memory_bytes),
            "shares": shares,
        }
        write.execute(devices.update().where(devices.c.id == key).values(**used))
    spans.sync_spans(write, _read_cards(write, node_id).values())


def extend_spans(
    write: WriteTransaction, device_id: int, held_mib: int, start_s: int, end_s: int
) -> None:
    """Let a card's history cover a time in which something of it was held.

    The history begins no later, and where it has a gap then, because its node did not show the
    card, it gave just that. One that was never shown is as large as what was held of it.
    """
    s = device_spans.c
    card = write.execute(sa.select(devices).where(devices.c.id == device_id)).one()
    size_mib = card.memory_bytes // MIB
    if card.model == UNKNOWN_MODEL and size_mib < held_mib:
        size_mib = held_mib
        write.execute(
            devices.update().where(devices.c.id == device_id).values(memory_bytes=held_mib * MIB)
        )
        write.execute(
            device_spans.update().where(s.device_id == device_id).values(memory_mib=held_mib)
        )
    found = write.execute(
        sa.select(device_spans).where(s.device_id == device_id).order_by(s.start_s)
    ).all()
    if found and found[0].start_s > start_s:
        write.execute(device_spans.update().where(s.id == found[0].id).values(start_s=start_s))
        start_s = found[0].start_s
    covered = [(one.start_s, one.end_s) for one in found]
    for gap_s, until_s in find_gaps(covered, start_s, end_s):
        span = {
            "device_id": device_id,
            "kind": str(spans.SpanKind.OVERHEAD),
            "memory_mib": size_mib,
        }
        write.execute(device_spans.insert().values(**span, start_s=gap_s, end_s=until_s))


def find_gaps(
    covered: Iterable[tuple[int, int | None]], start_s: int, end_s: int
) -> Iterator[tuple[int, int]]:
    """Yield what of [start, end) is in none of these, which are in order; no end goes on for ever.

    >>> list(find_gaps([(0, 10), (20, 30), (40, None)], 5, 50))
    [(10, 20), (30, 40)]
    """
    for begins, ends in covered:
        if start_s < min(begins, end_s):
            yield start_s, min(begins, end_s)
        start_s = end_s if ends is None else max(start_s, ends)
    if start_s < end_s:
        yield start_s, end_s


def _read_cards(write: WriteTransaction, node_id: int) -> dict[str, Any]:
    cards = {}
    for row in write.execute(select_cards().where(devices.c.node_id == node_id)):
        cards[row.uuid] = row
    return cards
