"""Seats of gang members that went and come again: evicted, deleted or failed, each is made anew by its controller.

The others go on meanwhile or wait for it, so its seat is not given to whoever is smaller and quicker. When the node's
agent has let the cards go, the entry becomes a seat for a member to come, in the ledger itself, which the next pod of
the gang takes. Not where the member left for others, was done, was turned away by its node, has no controller that
makes another, or could not go back: its card is ill, its node closed. How long such a seat is kept is `holding`'s to
say. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpupool.kubernetes import gangs
from gpupool.kubernetes.objects import Entry, EntryState, GpuNode, Mode
from gpupool.kubernetes.pool import Pool
from gpupool.model.device import Health

CLOSED = "node.kubernetes.io/"
"""How the taints begin that say that a node takes nobody now: cordoned, unreachable, not ready."""


def kept(pool: Pool, nodes: Iterable[str]) -> frozenset[str]:
    """Pods that are gone whose seats on these nodes are to be kept for those that come in their place."""
    ledgers = [pool.ledgers[name] for name in nodes if name in pool.ledgers]
    return frozenset(entry.uid for node in ledgers for entry in node.entries if _comes_back(pool, node, entry))


def _comes_back(pool: Pool, node: GpuNode, entry: Entry) -> bool:
    if not entry.gang or entry.state is not EntryState.DRAINING or any(entry.order) or entry.uid in pool.for_good:
        return False
    pod = pool.pods.get(entry.uid)
    done = pod is not None and (pod.over or bool(pod.turned_away))
    alone = len(pool.entries_of(entry.uid)) == 1
    return alone and not done and _usable(pool, node.name, entry) and _lacking(pool, entry.gang) > 0


def closed(pool: Pool) -> frozenset[str]:
    """Seats of members to come where nobody may go any more."""
    seats = (one for name in pool.gangs() for one in gangs.kept_seats(pool.members.present(name).entered))
    return frozenset(one.uid for one in seats if not _usable(pool, pool.ledger_of(one.uid), one))


def _lacking(pool: Pool, gang: str) -> int:
    """How many more members the gang has room for than have a seat; less than nothing: it has too many.

    Of a gang without a pod nothing is known any more: as many as had a seat.
    """
    entered, over, _ = pool.members.present(gang)
    seated = (pool.pods[uid] for uid in entered if uid in pool.pods)
    known = next(seated, None) or next(iter(pool.queue.gang(gang)), None)
    return len(pool.members.of(gang)) - len(entered) if known is None else known.gang_size - over - len(entered)


def _usable(pool: Pool, name: str, entry: Entry) -> bool:
    """Whether somebody may come to these cards of that node."""
    host, node = pool.hosts.get(name), pool.ledgers.get(name)
    if host is None or node is None or node.mode is Mode.OBSERVE:
        return False
    barred = any(str(taint.get("key", "")).startswith(CLOSED) for taint in host.taints)
    well = {card.uuid for card in node.cards if card.health is not Health.FAILED}
    return not barred and all(seat.device in well for seat in entry.seats)
