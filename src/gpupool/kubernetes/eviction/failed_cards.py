"""Finds pods whose card has failed or is not reported by its node any more.

The card leaves the pool at once, by its health. If it is not back after 30 seconds, users are told,
and a pod with an owner is to be evicted, so that its replacement is placed elsewhere. A bare pod
stays, with the reason, because no replacement would be created. Nothing is stored here: a new
leader counts from zero, except for pods whose ledger already orders their eviction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.resources.gpu_node import Entry, EntryState, GpuNode
from gpupool.kubernetes.resources.pod import Pod
from gpupool.model.device import DeviceHealth

GRACE_SECONDS = 30.0
GONE = "its node does not show it any more"


@dataclass(frozen=True)
class AffectedPod:
    """A pod, and why its cards cannot be used."""

    pod: Pod
    why: str

    @property
    def sentence(self) -> str:
        """What users read."""
        then = "delete it: nobody would make another in its place"
        if self.pod.owner:
            then = "it is asked to leave, so that its owner makes another elsewhere"
        return f"{self.why}; {then}"[:1024]


@dataclass(frozen=True)
class FailedCardActions:
    """Pods to report now, and pods to evict as long as they exist."""

    tell: tuple[AffectedPod, ...] = ()
    leave: tuple[AffectedPod, ...] = ()


@dataclass
class _Affliction:
    since: float
    told: bool = False


class FailedCards:
    """Pods on failed cards. `note_ledger` must get every report of a node's agent.

    `seconds` is a monotonic clock, `grace` the time before a pod is due; both in seconds.
    """

    def __init__(self, seconds: Callable[[], float], grace: float = GRACE_SECONDS) -> None:
        self._seconds = seconds
        self._grace = grace
        #: Whose cards some pod may not be able to use: the others need no look.
        self._nodes: set[str] = set()
        self._known: dict[str, _Affliction] = {}

    def note_ledger(self, name: str, node: GpuNode | None) -> None:
        """Note a ledger as it is now; None means deleted."""
        ill = node is not None and (_failed_reasons(node) or any(_entry_reasons(node)))
        (self._nodes.add if ill else self._nodes.discard)(name)

    def find_due_pods(self, cluster: ClusterCache) -> FailedCardActions:
        """Pods that are due now; each is reported once."""
        now = self._seconds()
        found = {one.pod.uid: one for one in self._iterate_affected(cluster)}
        waits = {}
        for uid, one in found.items():
            waits[uid] = self._known.get(uid) or self._begin_wait(one.pod, cluster)
        self._known = waits
        late = {}
        for uid, known in self._known.items():
            if now - known.since >= self._grace:
                late[uid] = known
        unreported = []
        for uid, known in late.items():
            if not known.told:
                unreported.append(found[uid])
        tell = tuple(unreported)
        replaceable = []
        for uid in late:
            if found[uid].pod.owner:
                replaceable.append(found[uid])
        leave = tuple(replaceable)
        for one in tell:
            self._known[one.pod.uid].told = True
        return FailedCardActions(tell, leave)

    def _begin_wait(self, pod: Pod, cluster: ClusterCache) -> _Affliction:
        """For the first time."""
        ordered = any(
            entry.leaving_at and not entry.leaving_for for entry in cluster.entries_of(pod.uid)
        )
        return _Affliction(self._seconds() - (self._grace if ordered else 0.0), told=ordered)

    def next_look(self) -> float | None:
        """Seconds until the next pod is due; None if no pod is affected."""
        now = self._seconds()
        waits = []
        for known in self._known.values():
            if not known.told:
                waits.append(known.since + self._grace - now)
        return min(waits, default=None)

    def _iterate_affected(self, cluster: ClusterCache) -> Iterator[AffectedPod]:
        """Pods that are there and hold such a card. One that still wears its gate has lost nothing
        yet."""
        for name in sorted(self._nodes):
            node = cluster.ledgers.get(name)
            for entry, why in zip(node.entries, _entry_reasons(node), strict=True) if node else ():
                pod = cluster.pods.get(entry.uid)
                gone = (
                    pod is None
                    or pod.gated
                    or pod.ended
                    or pod.deleting
                    or entry.state is EntryState.DRAINING
                )
                if why and not gone and pod is not None:
                    yield AffectedPod(pod, why)


def _failed_reasons(node: GpuNode) -> dict[str, str]:
    """By uuid what the agent says of cards that have failed."""
    reasons = {}
    for card in node.cards:
        if card.health is DeviceHealth.FAILED:
            reasons[card.uuid] = card.health_reason or "it failed"
    return reasons


def _entry_reasons(node: GpuNode) -> list[str]:
    """By entry why its cards are of no use; empty where all are well, or the node says nothing of
    its cards."""
    if not (node.ready and node.cards):
        return [""] * len(node.entries)
    reasons = dict.fromkeys((card.uuid for card in node.cards), "") | _failed_reasons(node)
    return [_entry_reason(node.name, entry, reasons) for entry in node.entries]


def _entry_reason(name: str, entry: Entry, reasons: Mapping[str, str]) -> str:
    for seat in entry.seats:
        if reason := reasons.get(seat.device, GONE):
            return f"card {seat.device} of node {name}: {reason}"
    return ""
