"""Keeps the seats of gang members that left and come back: evicted, deleted or failed pods.

The controller of the pod creates each of them anew. The other members run on or wait, so the seat
is not given to a smaller, quicker pod. When the node's agent has released the cards, the entry
becomes a seat for a future member, in the ledger itself, which the gang's next pod takes. The seat
is not kept if the member was evicted for another claim, had completed, was rejected by the kubelet,
has no controller that creates another, or could not return: its card has failed or its node is
closed. How long a seat is kept is decided in `gang_timeouts`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.resources import gang as gangs
from gpupool.kubernetes.resources.gpu_node import Entry, EntryState, GpuNode, Mode
from gpupool.kubernetes.resources.pod import Pod
from gpupool.model.device import DeviceHealth

#: Prefix of the taints of nodes that take no pods now: cordoned, unreachable, not ready.
CLOSED = "node.kubernetes.io/"


def retained_seats(cluster: ClusterCache, nodes: Iterable[str]) -> frozenset[str]:
    """Uids of departed pods whose seats on these nodes are kept for their replacements."""
    ledgers = []
    for name in nodes:
        if name in cluster.ledgers:
            ledgers.append(cluster.ledgers[name])
    retained = set()
    for node in ledgers:
        for entry in node.entries:
            if _comes_back(cluster, node, entry):
                retained.add(entry.uid)
    return frozenset(retained)


def _comes_back(cluster: ClusterCache, node: GpuNode, entry: Entry) -> bool:
    if (
        not entry.gang
        or entry.state is not EntryState.DRAINING
        or any(entry.order)
        or entry.uid in cluster.not_replaced
    ):
        return False
    pod = cluster.pods.get(entry.uid)
    # A pod with several entries comes back with several containers: one seat would not be enough.
    is_alone = len(cluster.entries_of(entry.uid)) == 1
    has_finished = pod is not None and (pod.is_over or bool(pod.kubelet_rejection))
    if not is_alone or has_finished:
        return False
    return _is_usable(cluster, node.name, entry) and _count_lacking(cluster, entry.gang) > 0


def unusable_seats(cluster: ClusterCache) -> frozenset[str]:
    """Seats of future members on nodes or cards that no pod may use any more."""
    unusable = set()
    for name in cluster.gang_seats.list_partial_gangs():
        for seat in gangs.kept_seats(cluster.members.present_members(name).entered):
            if not _is_usable(cluster, cluster.ledger_node_of(seat.uid), seat):
                unusable.add(seat.uid)
    return frozenset(unusable)


def _count_lacking(cluster: ClusterCache, gang: str) -> int:
    """Count the members that the gang has room for and that have no seat; negative: too many."""
    entered, over, _ = cluster.members.present_members(gang)
    known = _find_member(cluster, gang, entered)
    # Only a pod names the size of its gang. Without one the seats that it had are the best guess.
    if known is None:
        return len(cluster.members.entries_of(gang)) - len(entered)
    return known.gang_size - over - len(entered)


def _find_member(cluster: ClusterCache, gang: str, seated: Iterable[str]) -> Pod | None:
    """Return any pod of the gang; None if there is none."""
    for uid in seated:
        if uid in cluster.pods:
            return cluster.pods[uid]
    return next(iter(cluster.queue.gang_pods(gang)), None)


def _is_usable(cluster: ClusterCache, name: str, entry: Entry) -> bool:
    """Whether a pod may use these cards of that node."""
    host = cluster.hosts.get(name)
    node = cluster.ledgers.get(name)
    if host is None or node is None or node.mode is Mode.OBSERVE:
        return False
    barred = any(str(taint.get("key", "")).startswith(CLOSED) for taint in host.taints)
    well = set()
    for card in node.cards:
        if card.health is not DeviceHealth.FAILED:
            well.add(card.uuid)
    return not barred and all(seat.device in well for seat in entry.seats)
