"""Nodes that had less than was known of them: their kubelet turned a pod away that was bound there.

Who binds without kube-scheduler may meet what that binds in the same moment; the kubelet takes one of both. What takes
the room is then somebody's of whom the node's agent has not told yet. Until it tells something new, or for a while
where it is silent, the pod counts there as if it ran: the next one like it, which its owner makes at once, would be
turned away as well. Time comes in; it writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gpupool.kubernetes.pods import Pod
from gpupool.kubernetes.reported import Others

COUNTED_SECONDS = 60.0


class _One(NamedTuple):
    pod: Pod
    others: Others
    """What was told of the node until then."""
    until: float


class Turned:
    """`seconds` is a monotonic clock."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._on: dict[str, list[_One]] = {}

    def note(self, pod: Pod, others: Others) -> None:
        """Its node turned the pod away, of which so much was known."""
        self._on.setdefault(pod.node, []).append(_One(pod, others, self._seconds() + COUNTED_SECONDS))

    def counted(self, node: str, others: Others) -> list[Pod]:
        """Pods that count there as if they ran, while this is what is told of the node."""
        now = self._seconds()
        return [one.pod for one in self._on.get(node, ()) if one.others == others and one.until > now]

    def over(self) -> list[str]:
        """Nodes where one counts no more, since it has counted for long enough; each is told once."""
        now = self._seconds()
        late = [name for name, found in self._on.items() if any(one.until <= now for one in found)]
        for name in late:
            self._on[name] = [one for one in self._on[name] if one.until > now]
        self._on = {name: found for name, found in self._on.items() if found}
        return late

    def next_look(self) -> float | None:
        """Seconds until one counts no more."""
        now = self._seconds()
        return min((one.until - now for found in self._on.values() for one in found), default=None)


def sentence(pod: Pod) -> str:
    """What people are told."""
    then = "its owner makes another" if pod.owner else "create it again: nobody makes another in its place"
    return f"{pod.node} did not take it, its cards are free again; {then}. {pod.turned_away}"
