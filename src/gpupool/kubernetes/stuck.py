"""Pods that have their cards, were released, and that no node takes: without a gate, nothing of them can be changed.

After a while people are told, by an event: the condition is kube-scheduler's own. One that somebody would make anew is
deleted after a longer while, if kube-scheduler has said no: where it is silent, another pod would wait as well. Each
time all that are due of one owner go together, and the next time comes after twice as long. Time comes in, and a new
leader begins to count anew; nothing is written here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpupool.kubernetes.pods import Pod
from gpupool.kubernetes.pool import Pool

TELL_SECONDS = 30.0
MOST_SECONDS = 3600.0
MOST_AT_ONCE = 16


@dataclass(frozen=True)
class Due:
    """Of whom people are to be told, and who is to be deleted."""

    tell: tuple[Pod, ...] = ()
    delete: tuple[Pod, ...] = ()


@dataclass
class _Owner:
    wait: float
    last: float


class Stuck:
    """`seconds` is a monotonic clock; nobody is deleted where `grace` is 0."""

    def __init__(self, seconds: Callable[[], float], grace: float, tell: float = TELL_SECONDS) -> None:
        self._seconds, self.grace, self._tell_after = seconds, grace, tell
        self._since: dict[str, float] = {}
        self._told: set[str] = set()
        self._owners: dict[str, _Owner] = {}

    @property
    def _tell(self) -> float:
        return min(self._tell_after, self.grace) if self.grace else self._tell_after

    def due(self, pool: Pool) -> Due:
        """Who is due now; each is told of once, and deleted as often as it takes."""
        now = self._seconds()
        unbound = {uid: pool.pods[uid] for uid in sorted(pool.unbound)}
        self._since = {uid: self._since.get(uid, now) for uid in unbound}
        self._told &= unbound.keys()
        self._owners = {uid: one for uid, one in self._owners.items() if now - one.last < 2 * MOST_SECONDS}
        tell = tuple(pod for uid, pod in unbound.items() if uid not in self._told and self._age(uid) >= self._tell)
        self._told |= {pod.uid for pod in tell}
        delete = [pod for pod in unbound.values() if pod.owner and pod.refusal and self._left(pod) <= 0]
        return Due(tell, tuple(delete[:MOST_AT_ONCE]))

    def deleted(self, pods: tuple[Pod, ...]) -> None:
        """These were deleted together: their owners' next ones have twice as long."""
        now = self._seconds()
        for owner in {pod.owner for pod in pods}:
            known = self._owners.get(owner)
            wait = min(MOST_SECONDS, 2 * (known.wait if known else self.grace))
            self._owners[owner] = _Owner(max(wait, self.grace), now)

    def next_look(self, pool: Pool) -> float | None:
        """Seconds until somebody is due; None where nobody is looked at."""
        tell = [self._tell - self._age(uid) for uid in self._since if uid not in self._told]
        pods = (pool.pods.get(uid) for uid in self._since)
        delete = [self._left(pod) for pod in pods if pod is not None and pod.owner and pod.refusal and self.grace]
        return min([*tell, *delete], default=None)

    def _age(self, uid: str) -> float:
        return self._seconds() - self._since[uid]

    def _left(self, pod: Pod) -> float:
        """Seconds until it is deleted."""
        if not self.grace:
            return float("inf")
        known = self._owners.get(pod.owner)
        return (known.wait if known else self.grace) - self._age(pod.uid)


def sentence(pod: Pod, node: str, grace: float) -> str:
    """What people are told of one that no node takes."""
    why = pod.refusal or "the scheduler has said nothing about it: does it run?"
    then = "make room there, or delete the pod: nobody would make another in its place"
    if pod.owner and grace:
        then = f"it is deleted after {grace:.0f} s so that its owner makes another"
    return f"has its cards on {node}, was let go and is not bound; {then}. {why}"[:1024]
