"""Remembers pods that a kubelet rejected because their node had less free than the cache assumed.

A controller that binds without kube-scheduler may collide with what kube-scheduler binds in the
same moment: the kubelet then admits one pod of the two. The capacity is used by a pod that the
node's agent has not reported yet. Until the agent reports a change, or for a minute if it is
silent, the rejected pod counts as if it ran. Otherwise its replacement, which the owner creates at
once, would be rejected as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gpupool.kubernetes.resources.gpu_node_status import ForeignUsage
from gpupool.kubernetes.resources.pod import Pod

#: Seconds that a rejected pod counts if the node's agent reports no change.
COUNTED_SECONDS = 60.0


class _CountedRejection(NamedTuple):
    pod: Pod
    #: What the agent had reported of foreign pods when the pod was rejected.
    others: ForeignUsage
    until: float


class KubeletRejections:
    """Rejected pods by node. `seconds` is a monotonic clock, in seconds."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._on: dict[str, list[_CountedRejection]] = {}

    def note_rejection(self, pod: Pod, others: ForeignUsage) -> None:
        """Count the pod on its node while `others` is what the agent reports of foreign pods."""
        self._on.setdefault(pod.node, []).append(
            _CountedRejection(pod, others, self._seconds() + COUNTED_SECONDS)
        )

    def counted_pods(self, node: str, others: ForeignUsage) -> list[Pod]:
        """Rejected pods that count as running on the node, while its agent reports `others`."""
        now = self._seconds()
        counted = []
        for rejection in self._on.get(node, ()):
            # Another report includes the pod that took the capacity: counting both would be twice.
            if rejection.others == others and rejection.until > now:
                counted.append(rejection.pod)
        return counted

    def expire_counts(self) -> list[str]:
        """Drop pods that have counted long enough; the nodes concerned."""
        now = self._seconds()
        late: list[str] = []
        for name in list(self._on):
            counting = [one for one in self._on[name] if one.until > now]
            if len(counting) < len(self._on[name]):
                late.append(name)
                self._on[name] = counting
            if not counting:
                del self._on[name]
        return late

    def next_look(self) -> float | None:
        """Seconds until the next pod stops counting; None if none counts."""
        now = self._seconds()
        return min((one.until - now for found in self._on.values() for one in found), default=None)


def rejection_message(pod: Pod) -> str:
    """What users read about the rejection."""
    then = (
        "its owner makes another"
        if pod.owner
        else "create it again: nobody makes another in its place"
    )
    return f"{pod.node} did not take it, its cards are free again; {then}. {pod.kubelet_rejection}"
