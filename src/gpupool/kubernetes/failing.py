"""Pods whose card has failed, or is not shown by its node any more.

The card is out of the pool at once, by its health. After a while, in which it may have come back, people are told, and
a pod that an owner makes anew is to leave, so that the next one is placed elsewhere. Nobody would make a bare pod
again: it stays, with the reason. Nothing is written down here, so a new leader begins to count anew; but who was
ordered to leave has waited already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from gpupool.kubernetes.objects import Entry, EntryState, GpuNode
from gpupool.kubernetes.pods import Pod
from gpupool.kubernetes.pool import Pool
from gpupool.model.device import Health

GRACE_SECONDS = 30.0
GONE = "its node does not show it any more"


@dataclass(frozen=True)
class Failed:
    """One pod, and why its cards are of no use."""

    pod: Pod
    why: str

    @property
    def sentence(self) -> str:
        """What people are told."""
        then = "delete it: nobody would make another in its place"
        if self.pod.owner:
            then = "it is asked to leave, so that its owner makes another elsewhere"
        return f"{self.why}; {then}"[:1024]


@dataclass(frozen=True)
class Due:
    """Of whom people are to be told now, and who is to leave, as long as it is there."""

    tell: tuple[Failed, ...] = ()
    leave: tuple[Failed, ...] = ()


@dataclass
class _Known:
    since: float
    told: bool = False


class Failing:
    """`seconds` is a monotonic clock. `note` has to be told of every GpuNode as its agent reports it."""

    def __init__(self, seconds: Callable[[], float], grace: float = GRACE_SECONDS) -> None:
        self._seconds, self._grace = seconds, grace
        self._nodes: set[str] = set()
        """Whose cards some pod may not be able to use: the others need no look."""
        self._known: dict[str, _Known] = {}

    def note(self, name: str, node: GpuNode | None) -> None:
        """A ledger as it is now; None: it is gone."""
        ill = node is not None and (_failed(node) or any(_whys(node)))
        (self._nodes.add if ill else self._nodes.discard)(name)

    def due(self, pool: Pool) -> Due:
        """Each is told of once."""
        now, found = self._seconds(), {one.pod.uid: one for one in self._found(pool)}
        self._known = {uid: self._known.get(uid) or self._seen(one.pod, pool) for uid, one in found.items()}
        late = {uid: known for uid, known in self._known.items() if now - known.since >= self._grace}
        tell = tuple(found[uid] for uid, known in late.items() if not known.told)
        leave = tuple(found[uid] for uid in late if found[uid].pod.owner)
        for one in tell:
            self._known[one.pod.uid].told = True
        return Due(tell, leave)

    def _seen(self, pod: Pod, pool: Pool) -> _Known:
        """For the first time."""
        ordered = any(entry.leaving_at and not entry.leaving_for for entry in pool.entries_of(pod.uid))
        return _Known(self._seconds() - (self._grace if ordered else 0.0), told=ordered)

    def next_look(self) -> float | None:
        """Seconds until somebody is due; None where nobody is looked at."""
        now = self._seconds()
        waits = [known.since + self._grace - now for known in self._known.values() if not known.told]
        return min(waits, default=None)

    def _found(self, pool: Pool) -> Iterator[Failed]:
        """Pods that are there and hold such a card. One that still wears its gate has lost nothing yet."""
        for name in sorted(self._nodes):
            node = pool.ledgers.get(name)
            for entry, why in zip(node.entries, _whys(node), strict=True) if node else ():
                pod = pool.pods.get(entry.uid)
                gone = pod is None or pod.gated or pod.ended or pod.deleting or entry.state is EntryState.DRAINING
                if why and not gone and pod is not None:
                    yield Failed(pod, why)


def _failed(node: GpuNode) -> dict[str, str]:
    """By uuid what the agent says of cards that have failed."""
    return {card.uuid: card.health_reason or "it failed" for card in node.cards if card.health is Health.FAILED}


def _whys(node: GpuNode) -> list[str]:
    """By entry why its cards are of no use; empty where all are well, or the node says nothing of its cards."""
    if not (node.ready and node.cards):
        return [""] * len(node.entries)
    reasons = dict.fromkeys((card.uuid for card in node.cards), "") | _failed(node)
    return [_why(node.name, entry, reasons) for entry in node.entries]


def _why(name: str, entry: Entry, reasons: Mapping[str, str]) -> str:
    for seat in entry.seats:
        if reason := reasons.get(seat.device, GONE):
            return f"card {seat.device} of node {name}: {reason}"
    return ""
