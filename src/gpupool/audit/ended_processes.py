"""Assigns GPU time of processes that ended between two looks to their allocations. Reads /proc.

A card names an ended process by its pid alone. Its allocation is known from before: a look saw the
process on a card, or the arbiter reported that the process took a slot. A reused pid is told apart
by the start of its process. Rule and figures: docs/decisions/0020-audit-of-gpu-time.md.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpupool.audit import proc_reader
from gpupool.audit.card_processes import OnCards
from gpupool.audit.mapping_check import FencedJob
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.mechanisms.fenced_files import FencedFiles
from gpupool.probes.contract import EndedProcess

#: Nanoseconds by which two accounts of one process's start may differ: a clock tick, a clock that
#: was set, and the delay of the arbiter's report. No pid is reused in that time.
START_TOLERANCE_NS: Final = NANOS_PER_SECOND
#: Nanoseconds after its end in which a card may still report a process.
AWAITED_NS: Final = 5_000_000_000
#: Nanoseconds of a card that may be unaccounted for at most: what late looks may lag behind.
ROOM_NS: Final = NANOS_PER_SECOND
#: Processes of all allocations that are remembered; the oldest are dropped, so that a job which
#: starts processes in a loop cannot fill the agent's memory.
REMEMBERED: Final = 4096

#: Returns what cards report of the ended processes of these pids, by card.
Ended = Callable[[Collection[str], Collection[int]], Mapping[str, Sequence[EndedProcess]]]
#: Nanoseconds by allocation, then by card.
EndedNs = Mapping[str, Mapping[str, int]]


def read_boot_ns() -> int:
    """Return the time of CLOCK_BOOTTIME, the clock of starts in /proc."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@dataclass(frozen=True)
class _SlotEntry:
    """A process that took a slot; `start_ns` is None if it had ended when it was reported."""

    allocation: str
    pid: int
    start_ns: int | None
    told_ns: int


@dataclass
class _KnownProcess:
    """A process of an allocation.

    Attributes:
        figure_ns: what each card said of the process at the last look.
        counted_ns: what was counted of it on each card.
    """

    allocation: str
    pid: int
    start_ns: int
    gone_ns: int | None = None
    figure_ns: dict[str, int] = field(default_factory=dict)
    counted_ns: dict[str, int] = field(default_factory=dict)


class EndedProcessTimes:
    """Accounts of processes that ended. Call `query_ended` before each look, `settle_ended` after.

    `note_slot` may be called from any thread, the other methods from one.
    """

    def __init__(
        self,
        ended: Ended,
        now_ns: Callable[[], int] = read_boot_ns,
        start_of: Callable[[int], int | None] = proc_reader.read_start_ns,
    ) -> None:
        self._ended = ended
        self._now_ns = now_ns
        self._start_of = start_of
        self._inbox: deque[_SlotEntry] = deque(maxlen=REMEMBERED)
        self._known: dict[tuple[int, int], _KnownProcess] = {}
        #: Nanoseconds, by card, that passed and that no known process used.
        self._room_ns: dict[str, int] = {}
        self._looked_ns = 0

    def note_slot(self, allocation: str, pid: int) -> None:
        """Remember a process that took a slot; it may have ended since. Does not block."""
        self._inbox.append(_SlotEntry(allocation, pid, self._start_of(pid), self._now_ns()))

    def query_ended(self, looked: Iterable[tuple[FencedJob, FencedFiles]]) -> EndedNs:
        """Return the nanoseconds of ended processes beyond what was counted of them.

        Runs before the look at the cards: a process that ends between both is in neither, and is
        found at the next look. In the other order it would count twice.
        """
        self._update_known()
        uuids = {one.allocation: known.uuids for one, known in looked}
        ended_pids = set()
        for one in self._known.values():
            if one.gone_ns is not None and one.allocation in uuids:
                ended_pids.add(one.pid)
        if not ended_pids:
            return {}
        cards = sorted(set().union(*uuids.values()))
        found: dict[str, dict[str, int]] = {}
        for uuid, processes in self._ended(cards, ended_pids).items():
            for process in processes:
                known = self._find_owner(process)
                if known is None or uuid not in uuids.get(known.allocation, ()):
                    continue
                beyond = max(0, process.gpu_ns - known.counted_ns.get(uuid, 0))
                known.counted_ns[uuid] = known.counted_ns.get(uuid, 0) + beyond
                of_cards = found.setdefault(known.allocation, {})
                of_cards[uuid] = of_cards.get(uuid, 0) + beyond
        return found

    def settle_ended(self, ended: EndedNs, seen: OnCards) -> EndedNs:
        """Limit ended time to what the cards had left beside the processes seen on them.

        A card has no more time than passes. Drivers may count the kernels of all processes that ran
        together to each of them, as NVIDIA's documentation says of Kepler.
        """
        now = self._now_ns()
        elapsed = now - self._looked_ns
        self._looked_ns = now
        grown = self._count_growth(seen)
        uuids = self._room_ns.keys() | grown.keys()
        for each in ended.values():
            uuids |= each.keys()
        for uuid in uuids:
            room = self._room_ns.get(uuid, 0) + elapsed - grown.get(uuid, 0)
            self._room_ns[uuid] = max(0, min(room, ROOM_NS))
        allowed: dict[str, dict[str, int]] = {}
        for allocation, cards in ended.items():
            for uuid, beyond in cards.items():
                taken = min(beyond, self._room_ns[uuid])
                self._room_ns[uuid] -= taken
                allowed.setdefault(allocation, {})[uuid] = taken
        return allowed

    def keep_only(self, live: Collection[str]) -> None:
        """Forget all other allocations, and processes of which no card will report any more."""
        now = self._now_ns()
        for key, one in list(self._known.items()):
            late = one.gone_ns is not None and now - one.gone_ns > AWAITED_NS
            if late or one.allocation not in live:
                del self._known[key]

    def list_awaited(self) -> frozenset[str]:
        """Return the allocations of recently ended processes that cards may still report."""
        return frozenset(one.allocation for one in self._known.values() if one.gone_ns is not None)

    def _update_known(self) -> None:
        now = self._now_ns()
        while self._inbox:
            self._take_slot_entry(self._inbox.popleft())
        for one in self._known.values():
            if one.gone_ns is None and self._start_of(one.pid) != one.start_ns:
                one.gone_ns = now
        for key in list(self._known)[: max(0, len(self._known) - REMEMBERED)]:
            del self._known[key]

    def _take_slot_entry(self, one: _SlotEntry) -> None:
        if one.start_ns is None:
            # It had ended when it was reported, so it began a moment before, unless it is known.
            since = one.told_ns - START_TOLERANCE_NS
            for known in self._known.values():
                if known.pid == one.pid and (known.gone_ns is None or known.gone_ns >= since):
                    return
        start = one.told_ns if one.start_ns is None else one.start_ns
        self._known.setdefault((one.pid, start), _KnownProcess(one.allocation, one.pid, start))

    def _find_owner(self, process: EndedProcess) -> _KnownProcess | None:
        """Return the known process that had this pid when the ended process began.

        That is the last one known to begin by then, unless it was gone before.
        """
        by_then = process.start_ns + START_TOLERANCE_NS
        last: _KnownProcess | None = None
        for one in self._known.values():
            if one.pid != process.pid or one.start_ns > by_then:
                continue
            if last is None or one.start_ns > last.start_ns:
                last = one
        if last is None or last.gone_ns is None or process.start_ns > last.gone_ns:
            return None
        return last if process.start_ns >= last.start_ns - START_TOLERANCE_NS else None

    def _count_growth(self, seen: OnCards) -> Mapping[str, int]:
        """Return the nanoseconds by card since the last look, and remember each process seen."""
        grown: dict[str, int] = {}
        for allocation, cards in seen.items():
            for uuid, processes in cards.items():
                for process in processes:
                    start = self._start_of(process.pid)
                    if start is None or process.gpu_ns is None:
                        continue
                    one = self._known.setdefault(
                        (process.pid, start), _KnownProcess(allocation, process.pid, start)
                    )
                    # A smaller figure than before is that of a new context, which began at 0.
                    # A smaller figure than before is that of a new context, which began at 0.
                    before = one.figure_ns.get(uuid, 0)
                    had = process.gpu_ns - before if process.gpu_ns >= before else process.gpu_ns
                    one.figure_ns[uuid] = process.gpu_ns
                    one.counted_ns[uuid] = one.counted_ns.get(uuid, 0) + had
                    grown[uuid] = grown.get(uuid, 0) + had
        return grown
