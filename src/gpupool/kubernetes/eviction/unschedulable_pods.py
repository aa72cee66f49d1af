"""Finds released pods that no node takes: without a gate, nothing of them can be changed.

After 30 seconds users are told by an event; the condition belongs to kube-scheduler. A pod with an
owner is deleted after a longer time if kube-scheduler reported it unschedulable: while
kube-scheduler is silent, a replacement would wait as well. All due pods of one owner are deleted
together, and the next time comes after twice as long. Takes the time as an argument; a new leader
counts from zero; writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.resources.pod import Pod

TELL_SECONDS = 30.0
MOST_SECONDS = 3600.0
MOST_AT_ONCE = 16


@dataclass(frozen=True)
class UnschedulableActions:
    """Pods to report now, and pods to delete."""

    tell: tuple[Pod, ...] = ()
    delete: tuple[Pod, ...] = ()


@dataclass
class _Owner:
    wait: float
    last: float


class UnschedulablePods:
    """Released pods without a node.

    `seconds` is a monotonic clock; `grace` is the time before a deletion, in seconds. 0 deletes no
    pod.
    """

    def __init__(
        self, seconds: Callable[[], float], grace: float, tell: float = TELL_SECONDS
    ) -> None:
        self._seconds = seconds
        self.grace = grace
        self._tell_after = tell
        self._since: dict[str, float] = {}
        self._told: set[str] = set()
        self._owners: dict[str, _Owner] = {}

    @property
    def _tell(self) -> float:
        return min(self._tell_after, self.grace) if self.grace else self._tell_after

    def find_due_pods(self, cluster: ClusterCache) -> UnschedulableActions:
        """Pods that are due now; each is reported once, and deleted as often as needed."""
        now = self._seconds()
        unbound = {uid: cluster.pods[uid] for uid in sorted(cluster.awaiting_binding)}
        self._since = {uid: self._since.get(uid, now) for uid in unbound}
        self._told &= unbound.keys()
        owners = {}
        for uid, one in self._owners.items():
            if now - one.last < 2 * MOST_SECONDS:
                owners[uid] = one
        self._owners = owners
        unreported = []
        for uid, pod in unbound.items():
            if uid not in self._told and self._age(uid) >= self._tell:
                unreported.append(pod)
        tell = tuple(unreported)
        self._told |= {pod.uid for pod in tell}
        delete = []
        for pod in unbound.values():
            if pod.owner and pod.refusal and self._seconds_left(pod) <= 0:
                delete.append(pod)
        return UnschedulableActions(tell, tuple(delete[:MOST_AT_ONCE]))

    def note_deleted(self, pods: tuple[Pod, ...]) -> None:
        """These pods were deleted together: their owners' next pods get twice the time."""
        now = self._seconds()
        for owner in {pod.owner for pod in pods}:
            known = self._owners.get(owner)
            wait = min(MOST_SECONDS, 2 * (known.wait if known else self.grace))
            self._owners[owner] = _Owner(max(wait, self.grace), now)

    def next_look(self, cluster: ClusterCache) -> float | None:
        """Seconds until the next pod is due; None if no pod waits."""
        tell = []
        for uid in self._since:
            if uid not in self._told:
                tell.append(self._tell - self._age(uid))
        pods = (cluster.pods.get(uid) for uid in self._since)
        delete = []
        for pod in pods:
            if pod is not None and pod.owner and pod.refusal and self.grace:
                delete.append(self._seconds_left(pod))
        return min([*tell, *delete], default=None)

    def _age(self, uid: str) -> float:
        return self._seconds() - self._since[uid]

    def _seconds_left(self, pod: Pod) -> float:
        """Seconds until it is deleted."""
        if not self.grace:
            return float("inf")
        known = self._owners.get(pod.owner)
        return (known.wait if known else self.grace) - self._age(pod.uid)


def unschedulable_message(pod: Pod, node: str, grace: float) -> str:
    """What users read about a pod that no node takes. `node` is that of its cards; empty if it has
    none."""
    why = pod.refusal or "the scheduler has said nothing about it: does it run?"
    then = "make room there, or delete the pod: nobody would make another in its place"
    if pod.owner and grace:
        then = f"it is deleted after {grace:.0f} s so that its owner makes another"
    where = f"has its cards on {node} and no scheduling gate, and is not bound"
    if not node:
        where = "has no cards on its node and no scheduling gate, and is not bound"
    return f"{where}; {then}. {why}"[:1024]
