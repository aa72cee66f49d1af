"""Keeps the cards of a deleted pod for a minute, so that its replacement gets them.

Only a pod of the same owner with the same request is a successor, so no other pod loses its turn:
the cards were given out before. All containers' cards go to one successor. The seat of a gang
member belongs to the gang meanwhile, so that the gang does not count as incomplete. Handovers are
in memory alone; after a crash the entry drains like that of any deleted pod.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.kubernetes.resources.pod import Pod

#: Seconds that cards are kept for a replacement.
KEPT_SECONDS = 60.0


@dataclass
class _OpenHandover:
    pod: Pod
    node: str
    until: float
    successor: str = ""


class SeatHandover:
    """Open handovers by uid of the deleted pod.

    `seconds` is a monotonic clock, in seconds; `hosts` are the known nodes.
    """

    def __init__(self, seconds: Callable[[], float], hosts: Mapping[str, NodeFacts]) -> None:
        self._seconds = seconds
        self._hosts = hosts
        self._open: dict[str, _OpenHandover] = {}

    def __contains__(self, uid: object) -> bool:
        """Whether the cards of this pod are kept; the pod is deleted or about to be."""
        return uid in self._open

    def keep_seats(self, pod: Pod, node: str) -> None:
        """Keep the pod's cards on the node for its replacement."""
        self._open[pod.uid] = _OpenHandover(pod, node, self._seconds() + KEPT_SECONDS)

    def end_handover(self, uid: str) -> str:
        """Stop keeping the pod's cards; the uid of its successor, or empty."""
        handover = self._open.pop(uid, None)
        return handover.successor if handover else ""

    def assign_successor(self, pod: Pod) -> bool:
        """Make the waiting pod a successor if some kept cards are for it; whether it is one."""
        if any(one.successor == pod.uid for one in self._open.values()):
            return True
        for handover in self._open.values():
            if not handover.successor and self._is_for(handover, pod):
                handover.successor = pod.uid
                return True
        return False

    def _is_for(self, handover: _OpenHandover, pod: Pod) -> bool:
        """Whether the pod requests exactly the kept cards and may run on their node."""
        host = self._hosts.get(handover.node)
        # The constraint is not part of the comparison: the release narrowed the deleted pod's to
        # its node, so it never equals that of a replacement.
        if host is None or not pod.constraint.admits(host.name, host.labels, host.taints):
            return False
        return handover.pod.uid != pod.uid and _build_request(handover.pod) == _build_request(pod)

    def release_successor(self, uid: str) -> None:
        """The pod does not wait any more; another pod may be the successor instead."""
        for handover in self._open.values():
            if handover.successor == uid:
                handover.successor = ""

    def map_successors(self) -> Mapping[str, str]:
        """By uid of the deleted pod, the uid of its successor."""
        return {uid: one.successor for uid, one in self._open.items() if one.successor}

    def expired_pods(self) -> list[str]:
        """Deleted pods whose cards were kept long enough."""
        now = self._seconds()
        return [uid for uid, handover in self._open.items() if handover.until <= now]

    def next_look(self) -> float | None:
        """Seconds until the next handover expires; None if there is none."""
        now = self._seconds()
        return min((one.until - now for one in self._open.values()), default=None)


def can_be_replaced(pod: Pod) -> bool:
    """Whether an owner creates a replacement for the pod."""
    return bool(pod.owner)


def _build_request(pod: Pod) -> tuple[object, ...]:
    place = pod.namespace, pod.owner, pod.within, pod.gang
    return *place, pod.asks, pod.cpu_milli, pod.host_bytes, pod.priority, pod.max_seconds
