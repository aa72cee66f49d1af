"""Cards of pods that were deleted so that their owner makes another: the new one inherits them, for a short while.

Only a pod of the same owner that wants just the same is an heir, so the order of the queue is nobody's loss: the cards
were given out before. All containers' cards go to one heir. The seat of a gang's member stays the gang's meanwhile, so
that the others are not judged as if one were missing. It lives in memory; after a crash the entry drains like that of
any pod that is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpupool.kubernetes.hosts import Host
from gpupool.kubernetes.pods import Pod

KEPT_SECONDS = 60.0


@dataclass
class _Will:
    pod: Pod
    node: str
    until: float
    heir: str = ""


class Heirs:
    """`seconds` is a monotonic clock, `hosts` the nodes as they are known."""

    def __init__(self, seconds: Callable[[], float], hosts: Mapping[str, Host]) -> None:
        self._seconds, self._hosts = seconds, hosts
        self._wills: dict[str, _Will] = {}

    def __contains__(self, uid: object) -> bool:
        """Whether the cards of this pod, which is gone or about to be, are kept."""
        return uid in self._wills

    def leave(self, pod: Pod, node: str) -> None:
        """What the pod has on the node is kept for the next one like it."""
        self._wills[pod.uid] = _Will(pod, node, self._seconds() + KEPT_SECONDS)

    def end(self, uid: str) -> str:
        """Nothing is kept of that pod's any more; who was to inherit it, if anybody."""
        will = self._wills.pop(uid, None)
        return will.heir if will else ""

    def inherits(self, pod: Pod) -> bool:
        """Whether the pod, which waits, has something to inherit; from then on it is the heir."""
        if any(will.heir == pod.uid for will in self._wills.values()):
            return True
        will = next((one for one in self._wills.values() if not one.heir and self._fits(one, pod)), None)
        if will is not None:
            will.heir = pod.uid
        return will is not None

    def _fits(self, will: _Will, pod: Pod) -> bool:
        """Whether the pod wants just that and may go there: the other one was narrowed to its node at its release."""
        host = self._hosts.get(will.node)
        goes = host is not None and pod.constraint.admits(host.name, host.labels, host.taints)
        return goes and will.pod.uid != pod.uid and _wants(will.pod) == _wants(pod)

    def renounce(self, uid: str) -> None:
        """The pod does not wait any more: another may inherit instead."""
        for will in self._wills.values():
            if will.heir == uid:
                will.heir = ""

    def heirs(self) -> Mapping[str, str]:
        """By pod that is gone, its heir."""
        return {uid: will.heir for uid, will in self._wills.items() if will.heir}

    def over(self) -> list[str]:
        """Pods whose cards were kept long enough."""
        now = self._seconds()
        return [uid for uid, will in self._wills.items() if will.until <= now]

    def next_look(self) -> float | None:
        """Seconds until one of them is over."""
        now = self._seconds()
        return min((will.until - now for will in self._wills.values()), default=None)


def may_leave(pod: Pod) -> bool:
    """Whether somebody would make another in its place, which then inherits all that it has."""
    return bool(pod.owner)


def _wants(pod: Pod) -> tuple[object, ...]:
    place = pod.namespace, pod.owner, pod.within, pod.gang
    return *place, pod.asks, pod.cpu_milli, pod.host_bytes, pod.priority, pod.max_seconds
