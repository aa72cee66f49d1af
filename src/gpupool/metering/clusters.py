"""A cluster's nodes in the books: one statement of one node's ledger is one transaction, and twice is once.

The cluster says from when to when seats were held; the rest is as on one machine: whole seconds, cards' history beneath
them, the same reports. A stretch is known by pod, container and the instant from which it is held; so what is told
again, in another order or by two meters changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from gpupool.base.units import MIB
from gpupool.fleet.clusters import (
    cluster_nodes,
    cover,
    end_cluster_node,
    ensure_cards,
    known_node,
    write_cluster_node,
    write_held,
)
from gpupool.metering.samples import take_in
from gpupool.metering.service import Metering
from gpupool.metering.tables import cluster_holds, intervals, job_usage
from gpupool.store.database import Store, Write
from gpupool.tenancy.clusters import owner_of
from gpupool.wire.cluster import ClusterEnded, ClusterHeld, ClusterNodeIn, ClusterNodeOut, ClusterVersion

_NS = 10**9
Key = tuple[str, str, int]


class ClusterBooks:
    """Thread-safe. Decides nothing: the cluster has placed."""

    def __init__(self, store: Store, metering: Metering) -> None:
        self._store, self._metering = store, metering

    def nodes(self, teller: str) -> list[str]:
        """Which nodes that meter has told and not ended."""
        with self._store.read() as connection:
            return [row.name for row in cluster_nodes(connection, teller)]

    def end(self, node: str, teller: str) -> None:
        """A node that this meter told is no more: what it held ends now. Idempotent."""
        with self._store.write() as write:
            for row in [row for row in cluster_nodes(write.connection, teller) if row.name == node]:
                end_cluster_node(write, row)
                self._close(write, row.id, (), (), {})

    def tell(self, node: str, body: ClusterNodeIn, teller: str) -> ClusterNodeOut:
        """Take in what a node's ledger says. Raises Conflict (the node or a card belongs to another meter), BadName."""
        with self._store.write() as write:
            before = known_node(write, node, teller)
            newer = _newer(before, body)
            if newer is not None and newer != body.instead_of:
                return ClusterNodeOut(node=node, applied=False, known=newer)
            row = write_cluster_node(write, node, body, teller, before)
            told: list[ClusterHeld] = [*body.ended, *body.held]
            sizes = {seat.uuid: seat.memory_bytes for one in told for seat in one.seats}
            cards = ensure_cards(write, row.id, sizes)
            write_held(
                write, row.id, [(cards[s.uuid], s.gpu_milli, s.memory_bytes) for o in body.held for s in o.seats]
            )
            known = _known(write, row.id, told)
            new = {_key(one): one for one in told if _key(one) not in known}
            numbers = {key: self._open(write, row.id, one, cards) for key, one in new.items()}
            numbers |= {key: found.id for key, found in known.items()}
            if newer is not None:
                self._hold_again(write, known, body, cards)
            _take_use(write, row.id, told, numbers)
            closed = self._close(write, row.id, body.held, body.ended, numbers, whole=body.whole)
            return ClusterNodeOut(node=node, applied=True, opened=len(new), closed=closed)

    def _open(self, write: Write, node_id: int, one: ClusterHeld, cards: Mapping[str, int]) -> int:
        name = f"{one.namespace}/{one.pod or one.uid}"[:317]
        where = {"node_id": node_id, "uid": one.uid, "container": one.container, "name": name}
        number = write.insert(cluster_holds, **where, held_ns=one.held_ns)
        end_ns = one.ended_ns if isinstance(one, ClusterEnded) else write.now_ns
        self._count(write, number, one, cards, one.held_ns, end_ns)
        return number

    def _hold_again(
        self, write: Write, known: Mapping[Key, Any], body: ClusterNodeIn, cards: Mapping[str, int]
    ) -> None:
        """What ended in the books and is held in the older copy that the cluster was put back to counts from now on."""
        over = {_key(one) for one in body.ended}
        for one in body.held:
            found = known.get(_key(one))
            if found is None or found.ended_ns is None or _key(one) in over:
                continue
            write.execute(cluster_holds.update().where(cluster_holds.c.id == found.id).values(ended_ns=None))
            self._count(write, found.id, one, cards, write.now_ns, write.now_ns)

    def _count(
        self, write: Write, number: int, one: ClusterHeld, cards: Mapping[str, int], from_ns: int, end_ns: int
    ) -> None:
        owner = owner_of(write, one.tenant, one.namespace, one.account)
        seats = [
            {
                "allocation_id": -number,
                "job_id": -number,
                "device_id": cards[seat.uuid],
                "gpu_milli": seat.gpu_milli,
                "memory_mib": seat.memory_bytes // MIB,
                **owner._asdict(),
            }
            for seat in one.seats
        ]
        self._metering.open_seats(write, seats, from_ns)
        within = from_ns // _NS, end_ns // _NS
        for seat in seats:
            cover(write, seat["device_id"], _at_once(write, seat["device_id"], *within), *within)

    def _close(
        self,
        write: Write,
        node_id: int,
        held: Sequence[ClusterHeld],
        over: Sequence[ClusterEnded],
        numbers: Mapping[Key, int],
        *,
        whole: bool = True,
    ) -> int:
        """What ended, when it did; and of a whole statement what the ledger does not know any more, now: it was lost
        with its node."""
        ended = {numbers[_key(one)]: one.ended_ns for one in over}
        h = cluster_holds.c
        still = {numbers[_key(one)] for one in held}
        rows = write.execute(sa.select(h.id, h.held_ns).where(h.node_id == node_id, h.ended_ns.is_(None))).all()
        over_now = [row for row in rows if row.id in ended or (whole and row.id not in still)]
        ends = {row.id: ended.get(row.id, max(write.now_ns, row.held_ns)) for row in over_now}
        for number, at_ns in ends.items():
            self._metering.close_allocations(write, [-number], at_ns)
            write.execute(cluster_holds.update().where(h.id == number).values(ended_ns=at_ns))
        return len(ends)


def _newer(known: Any | None, body: ClusterNodeIn) -> ClusterVersion | None:
    """What is known of the node, if that is newer."""
    if known is None or (known.cluster_born_ns, known.cluster_generation) <= (body.born_ns, body.generation):
        return None
    return ClusterVersion(born_ns=known.cluster_born_ns, generation=known.cluster_generation)


def _key(one: ClusterHeld) -> Key:
    return one.uid, one.container, one.held_ns


def _at_once(write: Write, device_id: int, start_s: int, end_s: int) -> int:
    """MiB of the card that were held then, by all who held some of it at some time."""
    i = intervals.c
    then = i.start_s < max(end_s, start_s + 1), sa.or_(i.end_s.is_(None), i.end_s > start_s)
    query = sa.select(sa.func.coalesce(sa.func.sum(i.memory_mib), 0)).where(i.device_id == device_id, *then)
    return int(write.execute(query).scalar_one())


class _Used(NamedTuple):
    """Who used something, as `take_in` asks it."""

    id: int
    tenant_id: int
    project_id: int
    user_id: int


def _take_use(write: Write, node_id: int, told: Sequence[ClusterHeld], numbers: Mapping[Key, int]) -> None:
    """What is new of containers' running sums. Of several stretches of one, each has what the earlier ones left.

    One that ended while it was told is among both, held and ended: of these the end says more.
    """
    last = {
        _key(one): (one.gpu_milliseconds, one) for one in sorted(told, key=_used) if one.gpu_milliseconds is not None
    }
    if not last:
        return
    by_container = _used_before(write, node_id, {uid for uid, _, _ in last})
    owners, sums = [], {}
    for key in sorted(last, key=lambda key: key[2]):
        uid, container, held_ns = key
        (used, one), stretches, number = last[key], by_container[uid, container], -numbers[key]
        earlier = sum(spent for began_ns, spent in stretches.items() if began_ns < held_ns)
        mine = max(0, used - earlier)
        stretches[held_ns] = max(mine, stretches.get(held_ns, 0))
        owners.append(_Used(number, *owner_of(write, one.tenant, one.namespace, one.account)))
        sums[number] = mine, None
    take_in(write, owners, sums)


def _used(one: ClusterHeld) -> int:
    return one.gpu_milliseconds or 0


def _used_before(write: Write, node_id: int, uids: Collection[str]) -> dict[tuple[str, str], dict[int, int]]:
    """GPU milliseconds in the books: by pod and container, by the instant from which it was held."""
    h, found = cluster_holds.c, defaultdict[tuple[str, str], dict[int, int]](dict)
    query = (
        sa.select(h.uid, h.container, h.held_ns, job_usage.c.gpu_milliseconds)
        .join_from(cluster_holds, job_usage, job_usage.c.job_id == -h.id)
        .where(h.node_id == node_id, h.uid.in_(uids), job_usage.c.gpu_milliseconds.is_not(None))
    )
    for row in write.execute(query):
        found[row.uid, row.container][row.held_ns] = row.gpu_milliseconds
    return found


def _known(write: Write, node_id: int, told: list[ClusterHeld]) -> dict[Key, Any]:
    h = cluster_holds.c
    query = sa.select(cluster_holds).where(h.node_id == node_id, h.held_ns.in_({one.held_ns for one in told}))
    return {(row.uid, row.container, row.held_ns): row for row in write.execute(query)}
