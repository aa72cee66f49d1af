"""Put a cluster's nodes into the books: one report of one node's ledger is one transaction.

The cluster says from when to when seats were held; the rest is as on one machine: whole seconds,
spans of cards beneath them, the same reports. A hold is identified by pod, container and the
instant from which it is held. So a report that comes again, in another order or from two meters
changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from gpupool.base.units import MIB, NANOS_PER_SECOND
from gpupool.fleet.clusters import (
    cluster_nodes,
    end_cluster_node,
    ensure_cards,
    extend_spans,
    known_node,
    write_cluster_node,
    write_held,
)
from gpupool.metering.samples import (
    SUM_COLUMNS,
    UNKNOWN_SUMS,
    RunningSums,
    add_running_sums,
    compute_kept,
)
from gpupool.metering.service import MeteringService
from gpupool.metering.tables import cluster_holds, intervals, job_usage
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.clusters import ensure_owner
from gpupool.wire.cluster import (
    ClusterEnded,
    ClusterHeld,
    ClusterNodeIn,
    ClusterNodeOut,
    ClusterVersion,
)

#: Called in the transaction in which what was held before now changes, with the earliest second.
PastListener = Callable[[WriteTransaction, int], None]

#: Pod, container, and the instant from which it holds: what identifies a hold.
Key = tuple[str, str, int]


class ClusterBooks:
    """Thread-safe. Decides nothing: the cluster has placed."""

    def __init__(
        self, store: Store, metering: MeteringService, note_past: PastListener | None = None
    ) -> None:
        self._store = store
        self._metering = metering
        self._note_past = note_past

    def list_nodes(self, teller: str) -> list[str]:
        """List the nodes that this meter has reported and not ended."""
        with self._store.read() as connection:
            return [row.name for row in cluster_nodes(connection, teller)]

    def end_node(self, node: str, teller: str) -> None:
        """End a node that this meter has reported: what it held ends now. Idempotent."""
        with self._store.write() as write:
            # A list: the loop writes to the table that it reads.
            for row in list(cluster_nodes(write.connection, teller)):
                if row.name == node:
                    end_cluster_node(write, row)
                    self._close_holds(write, row.id, (), (), {})

    def record_node(self, node: str, body: ClusterNodeIn, teller: str) -> ClusterNodeOut:
        """Take in what a node's ledger says. Raises WriteConflict (the node or a card belongs to another
        meter), BadName."""
        with self._store.write() as write:
            before = known_node(write, node, teller)
            newer = _find_newer_version(before, body)
            if newer is not None and newer != body.instead_of:
                return ClusterNodeOut(node=node, applied=False, known=newer)
            row = write_cluster_node(write, node, body, teller, before)
            told: list[ClusterHeld] = [*body.ended, *body.held]
            sizes: dict[str, int] = {}
            for one in told:
                sizes.update((seat.uuid, seat.memory_bytes) for seat in one.seats)
            cards = ensure_cards(write, row.id, sizes)
            write_held(
                write,
                row.id,
                [(cards[s.uuid], s.gpu_milli, s.memory_bytes) for o in body.held for s in o.seats],
            )
            known = _read_known_holds(write, row.id, told)
            new = {_get_key(one): one for one in told if _get_key(one) not in known}
            numbers = {key: self._open_hold(write, row.id, one, cards) for key, one in new.items()}
            numbers |= {key: found.id for key, found in known.items()}
            if newer is not None:
                self._reopen_holds(write, known, body, cards)
            _record_use(write, row.id, told, numbers)
            ends = self._close_holds(
                write, row.id, body.held, body.ended, numbers, whole=body.whole
            )
            starts = [one.held_ns for one in new.values()]
            if self._note_past is not None and (starts or ends):
                # The server or the meter was down: charges of these hours may be made already.
                self._note_past(write, min([*starts, *ends]) // NANOS_PER_SECOND)
            return ClusterNodeOut(node=node, applied=True, opened=len(new), closed=len(ends))

    def _open_hold(
        self, write: WriteTransaction, node_id: int, one: ClusterHeld, cards: Mapping[str, int]
    ) -> int:
        name = f"{one.namespace}/{one.pod or one.uid}"[:317]
        where = {"node_id": node_id, "uid": one.uid, "container": one.container, "name": name}
        number = write.insert(cluster_holds, **where, held_ns=one.held_ns)
        end_ns = one.ended_ns if isinstance(one, ClusterEnded) else write.now_ns
        self._count_seats(write, number, one, cards, one.held_ns, end_ns)
        return number

    def _reopen_holds(
        self,
        write: WriteTransaction,
        known: Mapping[Key, Any],
        body: ClusterNodeIn,
        cards: Mapping[str, int],
    ) -> None:
        """Count from now on what is held in an older copy that the cluster was restored to.

        The books had ended these holds; a restored etcd has them again.
        """
        over = {_get_key(one) for one in body.ended}
        for one in body.held:
            found = known.get(_get_key(one))
            if found is None or found.ended_ns is None or _get_key(one) in over:
                continue
            write.execute(
                cluster_holds.update().where(cluster_holds.c.id == found.id).values(ended_ns=None)
            )
            self._count_seats(write, found.id, one, cards, write.now_ns, write.now_ns)

    def _count_seats(
        self,
        write: WriteTransaction,
        number: int,
        one: ClusterHeld,
        cards: Mapping[str, int],
        from_ns: int,
        end_ns: int,
    ) -> None:
        owner = ensure_owner(write, one.tenant, one.namespace, one.account)
        seats: list[dict[str, Any]] = []
        for seat in one.seats:
            seats.append(
                {
                    # Negative: pods and jobs share the books and never each other's numbers.
                    "allocation_id": -number,
                    "job_id": -number,
                    "device_id": cards[seat.uuid],
                    "gpu_milli": seat.gpu_milli,
                    "memory_mib": seat.memory_bytes // MIB,
                    **owner._asdict(),
                }
            )
        self._metering.open_seats(write, seats, from_ns)
        within = from_ns // NANOS_PER_SECOND, end_ns // NANOS_PER_SECOND
        for row in seats:
            extend_spans(
                write, row["device_id"], _sum_held_mib(write, row["device_id"], *within), *within
            )

    def _close_holds(
        self,
        write: WriteTransaction,
        node_id: int,
        held: Sequence[ClusterHeld],
        over: Sequence[ClusterEnded],
        numbers: Mapping[Key, int],
        *,
        whole: bool = True,
    ) -> list[int]:
        """Close holds that ended, at their end; return the ends.

        A whole report also closes, now, what the ledger does not have any more: it was lost with
        its node.
        """
        ended = {numbers[_get_key(one)]: one.ended_ns for one in over}
        h = cluster_holds.c
        still = {numbers[_get_key(one)] for one in held}
        rows = write.execute(
            sa.select(h.id, h.held_ns).where(h.node_id == node_id, h.ended_ns.is_(None))
        ).all()
        ends: dict[int, int] = {}
        for row in rows:
            if row.id in ended:
                ends[row.id] = ended[row.id]
            elif whole and row.id not in still:
                # `max`: the cluster's clock may be ahead, and no hold ends before it begins.
                ends[row.id] = max(write.now_ns, row.held_ns)
        for number, at_ns in ends.items():
            self._metering.close_allocations(write, [-number], at_ns)
            write.execute(cluster_holds.update().where(h.id == number).values(ended_ns=at_ns))
        return list(ends.values())


def _find_newer_version(known: Any | None, body: ClusterNodeIn) -> ClusterVersion | None:
    """Return the version that the books have of the node, if it is newer than the report."""
    if known is None or (known.cluster_born_ns, known.cluster_generation) <= (
        body.born_ns,
        body.generation,
    ):
        return None
    return ClusterVersion(born_ns=known.cluster_born_ns, generation=known.cluster_generation)


def _get_key(one: ClusterHeld) -> Key:
    return one.uid, one.container, one.held_ns


def _sum_held_mib(write: WriteTransaction, device_id: int, start_s: int, end_s: int) -> int:
    """Add up the MiB of the card that were held at some time in the range, by all holds together.

    A card whose size is not reported is at least as large as that.
    """
    i = intervals.c
    then = i.start_s < max(end_s, start_s + 1), sa.or_(i.end_s.is_(None), i.end_s > start_s)
    query = sa.select(sa.func.coalesce(sa.func.sum(i.memory_mib), 0)).where(
        i.device_id == device_id, *then
    )
    return int(write.execute(query).scalar_one())


class _UsageOwner(NamedTuple):
    """The owner of some use, as `add_running_sums` reads it."""

    id: int
    tenant_id: int
    project_id: int
    user_id: int


def _record_use(
    write: WriteTransaction, node_id: int, told: Sequence[ClusterHeld], numbers: Mapping[Key, int]
) -> None:
    """Add what is new of containers' running sums.

    A container counts from its start, though it may have several holds (a resize begins another):
    each hold gets what the earlier ones left of the sum.
    """
    last: dict[Key, ClusterHeld] = {}
    # A hold that ended while the report was made is in it twice, held and ended. The larger sum,
    # which is the end's, comes last and stays.
    for one in sorted(told, key=_get_use):
        if one.gpu_milliseconds is not None:
            last[_get_key(one)] = one
    if not last:
        return
    by_container = _read_booked_use(write, node_id, {uid for uid, _, _ in last})
    owners = []
    sums: dict[int, RunningSums] = {}
    for key in sorted(last, key=lambda key: key[2]):
        uid, container, held_ns = key
        one = last[key]
        stretches = by_container[uid, container]
        number = -numbers[key]
        mine = _read_sums(one)
        for began_ns, spent in stretches.items():
            if began_ns < held_ns:
                mine = RunningSums(*map(_subtract_earlier, mine, spent))
        known = stretches.get(held_ns, UNKNOWN_SUMS)
        stretches[held_ns] = RunningSums(*map(_find_larger, mine, known))
        owners.append(
            _UsageOwner(number, *ensure_owner(write, one.tenant, one.namespace, one.account))
        )
        sums[number] = mine
    add_running_sums(write, owners, sums)


def _get_use(one: ClusterHeld) -> int:
    return one.gpu_milliseconds or 0


def _read_sums(one: ClusterHeld) -> RunningSums:
    gpu = one.gpu_milliseconds
    borrowed = one.borrowed_milliseconds
    return RunningSums(
        gpu=gpu,
        kept=compute_kept(gpu, borrowed),
        borrowed=borrowed,
        denied=one.denied_milliseconds,
    )


def _subtract_earlier(now: int | None, earlier: int | None) -> int | None:
    return None if now is None else max(0, now - (earlier or 0))


def _find_larger(one: int | None, other: int | None) -> int | None:
    return other if one is None else max(one, other or 0)


def _read_booked_use(
    write: WriteTransaction, node_id: int, uids: Collection[str]
) -> dict[tuple[str, str], dict[int, RunningSums]]:
    """Read the sums in the books by (pod, container), then by the instant of the hold."""
    h = cluster_holds.c
    found = defaultdict[tuple[str, str], dict[int, RunningSums]](dict)
    columns = [job_usage.c[name] for name in SUM_COLUMNS]
    query = (
        sa.select(h.uid, h.container, h.held_ns, *columns)
        .join_from(cluster_holds, job_usage, job_usage.c.job_id == -h.id)
        .where(h.node_id == node_id, h.uid.in_(uids), job_usage.c.gpu_milliseconds.is_not(None))
    )
    for row in write.execute(query):
        sums = RunningSums(*(row._mapping[name] for name in SUM_COLUMNS))
        found[row.uid, row.container][row.held_ns] = sums
    return found


def _read_known_holds(
    write: WriteTransaction, node_id: int, told: list[ClusterHeld]
) -> dict[Key, Any]:
    h = cluster_holds.c
    query = sa.select(cluster_holds).where(
        h.node_id == node_id, h.held_ns.in_({one.held_ns for one in told})
    )
    known: dict[Key, Any] = {}
    for row in write.execute(query):
        known[row.uid, row.container, row.held_ns] = row
    return known
