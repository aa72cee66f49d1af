"""GPU time of processes that ended between two looks: whose they were, and what is not counted yet. Reads /proc.

A card tells of an ended process by its pid alone. Whose it was is known from before: it was seen on a card, or the
arbiter told that it took a slot. A pid that came round again is told apart by the start of its process.
Rule and figures: docs/decisions/0020-audit-of-gpu-time.md.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpupool.audit import process_look
from gpupool.audit.card_processes import OnCards
from gpupool.audit.sight import FencedJob
from gpupool.mechanisms.fence import FencedFiles
from gpupool.probes.contract import EndedProcess

#: By so much two accounts of one process's start may differ: a clock tick, a clock that was set, and the way to the
#: agent of what the arbiter tells. No pid comes round again in that time.
START_TOLERANCE_NS: Final = 1_000_000_000
#: A card may tell of a process so long after it has ended.
AWAITED_NS: Final = 5_000_000_000
#: Time of a card that is believed to be unaccounted for at most: what looks that came late may lag behind.
ROOM_NS: Final = 1_000_000_000
#: Processes of all allocations that are remembered; the oldest are forgotten.
REMEMBERED: Final = 4096

Ended = Callable[[Collection[str], Collection[int]], Mapping[str, Sequence[EndedProcess]]]
"""What cards say of these pids' processes that have ended, by card."""
EndedNs = Mapping[str, Mapping[str, int]]
"""Nanoseconds by allocation, then by card."""


def boot_ns() -> int:
    """Now, by the clock in which processes begin."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@dataclass(frozen=True)
class _Entered:
    """A process that took a slot. `start_ns`: None where it had ended when that was told."""

    allocation: str
    pid: int
    start_ns: int | None
    told_ns: int


@dataclass
class _Known:
    """A process of an allocation. `figure_ns`: what its cards said of it last; `counted_ns`: what was counted."""

    allocation: str
    pid: int
    start_ns: int
    gone_ns: int | None = None
    figure_ns: dict[str, int] = field(default_factory=dict)
    counted_ns: dict[str, int] = field(default_factory=dict)


class EndedWork:
    """Asked before each look at the cards, told after it. `entered` from any thread, the rest from one."""

    def __init__(
        self,
        ended: Ended,
        now_ns: Callable[[], int] = boot_ns,
        start_of: Callable[[int], int | None] = process_look.start_ns,
    ) -> None:
        self._ended, self._now_ns, self._start_of = ended, now_ns, start_of
        self._inbox: deque[_Entered] = deque(maxlen=REMEMBERED)
        self._known: dict[tuple[int, int], _Known] = {}
        self._room_ns: dict[str, int] = {}
        """By card: time that passed and that no process is known to have had."""
        self._looked_ns = 0

    def entered(self, allocation: str, pid: int) -> None:
        """A process took a slot, and may have ended since."""
        self._inbox.append(_Entered(allocation, pid, self._start_of(pid), self._now_ns()))

    def ask(self, looked: Iterable[tuple[FencedJob, FencedFiles]]) -> EndedNs:
        """What processes that have ended had beyond what was counted of them. Before the look at the cards: who ends
        between the two is in neither, and found at the next look.
        """
        self._remember()
        uuids = {one.allocation: known.uuids for one, known in looked}
        asked = {one.pid for one in self._known.values() if one.gone_ns is not None and one.allocation in uuids}
        if not asked:
            return {}
        cards = sorted({uuid for each in uuids.values() for uuid in each})
        found: dict[str, dict[str, int]] = {}
        for uuid, processes in self._ended(cards, asked).items():
            for process in processes:
                known = self._whose(process)
                if known is None or uuid not in uuids.get(known.allocation, ()):
                    continue
                beyond = max(0, process.gpu_ns - known.counted_ns.get(uuid, 0))
                known.counted_ns[uuid] = known.counted_ns.get(uuid, 0) + beyond
                of_cards = found.setdefault(known.allocation, {})
                of_cards[uuid] = of_cards.get(uuid, 0) + beyond
        return found

    def settle(self, ended: EndedNs, seen: OnCards) -> EndedNs:
        """As much of it as the cards had left beside those who were seen on them; and remember these.

        A card has no more time than passes, whatever a driver says of many processes that ran beside each other.
        """
        now = self._now_ns()
        elapsed, self._looked_ns = now - self._looked_ns, now
        grown = self._grown(seen)
        for uuid in self._room_ns.keys() | grown.keys() | {uuid for each in ended.values() for uuid in each}:
            room = self._room_ns.get(uuid, 0) + elapsed - grown.get(uuid, 0)
            self._room_ns[uuid] = max(0, min(room, ROOM_NS))
        allowed: dict[str, dict[str, int]] = {}
        for allocation, cards in ended.items():
            for uuid, beyond in cards.items():
                taken = min(beyond, self._room_ns[uuid])
                self._room_ns[uuid] -= taken
                allowed.setdefault(allocation, {})[uuid] = taken
        return allowed

    def forget(self, live: Collection[str]) -> None:
        """Keep these allocations alone, and none that ended long ago."""
        now = self._now_ns()
        for key, one in list(self._known.items()):
            late = one.gone_ns is not None and now - one.gone_ns > AWAITED_NS
            if late or one.allocation not in live:
                del self._known[key]

    def awaited(self) -> frozenset[str]:
        """Allocations of processes that ended lately, of which cards may still tell."""
        return frozenset(one.allocation for one in self._known.values() if one.gone_ns is not None)

    def _remember(self) -> None:
        now = self._now_ns()
        while self._inbox:
            self._take_in(self._inbox.popleft())
        for one in self._known.values():
            if one.gone_ns is None and self._start_of(one.pid) != one.start_ns:
                one.gone_ns = now
        for key in list(self._known)[: max(0, len(self._known) - REMEMBERED)]:
            del self._known[key]

    def _take_in(self, one: _Entered) -> None:
        """One that had ended when it was told of began a moment before, unless it is known already."""
        if one.start_ns is None:
            since = one.told_ns - START_TOLERANCE_NS
            those = [known for known in self._known.values() if known.pid == one.pid]
            if any(known.gone_ns is None or known.gone_ns >= since for known in those):
                return
        start = one.told_ns if one.start_ns is None else one.start_ns
        self._known.setdefault((one.pid, start), _Known(one.allocation, one.pid, start))

    def _whose(self, process: EndedProcess) -> _Known | None:
        """Who had this pid when the process began: the last that was known to begin by then, and was not gone yet."""
        by_then = process.start_ns + START_TOLERANCE_NS
        those = [one for one in self._known.values() if one.pid == process.pid and one.start_ns <= by_then]
        last = max(those, key=lambda one: one.start_ns, default=None)
        if last is None or last.gone_ns is None or process.start_ns > last.gone_ns:
            return None
        return last if process.start_ns >= last.start_ns - START_TOLERANCE_NS else None

    def _grown(self, seen: OnCards) -> Mapping[str, int]:
        """What the processes on each card had since the last look; each is remembered."""
        grown: dict[str, int] = {}
        for allocation, cards in seen.items():
            for uuid, processes in cards.items():
                for process in processes:
                    start = self._start_of(process.pid)
                    if start is None or process.gpu_ns is None:
                        continue
                    one = self._known.setdefault((process.pid, start), _Known(allocation, process.pid, start))
                    before = one.figure_ns.get(uuid, 0)
                    had = process.gpu_ns - before if process.gpu_ns >= before else process.gpu_ns
                    one.figure_ns[uuid] = process.gpu_ns
                    one.counted_ns[uuid] = one.counted_ns.get(uuid, 0) + had
                    grown[uuid] = grown.get(uuid, 0) + had
        return grown
