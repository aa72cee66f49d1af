"""Compares a fenced job's usage counters with what its cards report of its processes. Pure.

The counters are read before and after the cards. A process reserves before it allocates and gives
back after it freed, so whatever one of the two readings covers is accounted for. Imports no probe
and no /proc. docs/decisions/0020-audit-of-gpu-time.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from gpupool.mechanisms.regions import FenceDeviceUsage, FenceProcess, FenceUsage, ShareLimits

MIB: Final = 1 << 20
#: Bytes for rounding and for what a driver keeps; a quarter of a context where that is more.
LEAST_TOLERANCE_BYTES: Final = 16 * MIB
#: On a real card: what the first process may hold in code, heaps and stacks, which are charged when
#: they are seen. The large frameworks bring some hundred MiB of code, and load it when a kernel is
#: first used.
CODE_ALLOWANCE_BYTES: Final = 1024 * MIB
#: All processes of an allocation together on one card, in allowances of one: 4 GiB.
ALLOWANCE_MOST: Final = 4
#: Of a limits page that was never changed.
FIRST_GENERATION: Final = 2
#: What each change adds to it.
CHANGE: Final = 2


@dataclass(frozen=True)
class AuditFinding:
    """One difference from what was granted.

    Attributes:
        kind: name of the event, after `fence.`.
        pid: process that caused it; 0 where that is unknown.
        only_tell: its source is not exact enough to kill or freeze a job for it.
    """

    kind: str
    text: str
    pid: int = 0
    only_tell: bool = False


@dataclass(frozen=True)
class CardProcess:
    """A process of the job as a card sees it.

    Attributes:
        names: its pid in every pid namespace that it is in, the host's first.
        gpu_ns: GPU time since it came to the card; None where the driver does not report it.
    """

    names: tuple[int, ...]
    memory_bytes: int
    gpu_ns: int | None = None

    @property
    def pid(self) -> int:
        """The pid in the namespace of this agent."""
        return self.names[0]


@dataclass(frozen=True)
class LedgerComparison:
    """Result of one look at a job.

    Attributes:
        unaccounted: bytes that cards report beyond the counters, by uuid, then by pid; none where
            both agree.
    """

    findings: tuple[AuditFinding, ...] = ()
    unaccounted: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    def confirm_with(self, again: LedgerComparison) -> LedgerComparison:
        """Return what a second look reports too.

        A single look can be wrong: memory taken and given back between two readings of the counters
        is in neither, and the processes of a card are not read at one instant.
        """
        repeated = {(finding.kind, finding.pid) for finding in again.findings}
        findings = [one for one in self.findings if (one.kind, one.pid) in repeated]
        unaccounted: dict[str, Mapping[int, int]] = {}
        for uuid, sizes in self.unaccounted.items():
            unaccounted[uuid] = _take_smaller(sizes, again.unaccounted.get(uuid, {}))
        return LedgerComparison(tuple(findings), unaccounted)

    def find_largest_growth(self, known: Mapping[str, Mapping[int, int]]) -> int:
        """Return the most bytes that one process on one card has beyond `known`."""
        growth = []
        for uuid, sizes in self.unaccounted.items():
            before = known.get(uuid, {})
            growth += [size - before.get(pid, 0) for pid, size in sizes.items()]
        return max(growth, default=0)


def _take_smaller(one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    return {pid: min(size, other[pid]) for pid, size in one.items() if pid in other}


class ShrunkShares:
    """What jobs may still hold beyond shares that were made smaller while they ran.

    A job may keep what it held, but not grow again. Remembers the last look at each allocation.
    """

    def __init__(self) -> None:
        self._limits: dict[str, Mapping[str, int]] = {}
        self._generations: dict[str, int] = {}
        self._most: dict[str, dict[str, int]] = {}

    def update_allowed(
        self,
        allocation: str,
        limits: ShareLimits,
        held: Mapping[str, int],
        highest: Mapping[str, int] = MappingProxyType({}),
    ) -> Mapping[str, int]:
        """Return the bytes, by uuid, that a job may hold where that is more than its share.

        Args:
            held: bytes that its cards report now, by uuid.
            highest: the largest share that the job ever had, by uuid, where it is known.
        """
        before = self._limits.get(allocation)
        most = self._most.setdefault(allocation, {})
        # Between two looks a share may have grown and shrunk again, and a previous agent may have
        # changed it before the first look of this one. What is found then counts as left over, as
        # far as the job ever had so much, so that neither resizes nor a restart of the agent end it.
        seen = self._generations.get(allocation, FIRST_GENERATION - CHANGE)
        is_changed_unseen = limits.generation > seen + CHANGE
        for limit in limits.devices:
            found = held.get(limit.uuid, 0)
            had = min(found, highest.get(limit.uuid, found))
            was = had if is_changed_unseen else limit.memory_bytes
            was = max(was, (before or {}).get(limit.uuid, 0), most.get(limit.uuid, 0))
            most[limit.uuid] = was
        shares = {limit.uuid: limit.memory_bytes for limit in limits.devices}
        self._limits[allocation] = shares
        self._generations[allocation] = limits.generation
        allowed: dict[str, int] = {}
        kept: dict[str, int] = {}
        for uuid, size in most.items():
            if size > shares.get(uuid, 0):
                allowed[uuid] = size
                # What the job frees is lost to it: the next look allows no more than it holds now.
                kept[uuid] = min(size, held.get(uuid, 0))
        self._most[allocation] = kept
        return allowed

    def keep_only(self, live: Collection[str]) -> None:
        """Forget every allocation that is not in `live`."""
        for gone in self._limits.keys() - set(live):
            del self._limits[gone], self._most[gone], self._generations[gone]


def sum_held_bytes(cards: Mapping[str, Iterable[CardProcess]]) -> dict[str, int]:
    """Return the bytes that all of a job's processes hold together, by uuid."""
    held = {}
    for uuid, processes in cards.items():
        held[uuid] = sum(one.memory_bytes for one in processes)
    return held


def compute_allowance(processes: int, first_bytes: int) -> int:
    """Return the bytes that an allocation's processes may hold on one card outside the counters.

    That is `first_bytes` for the first process and a quarter of it for each further one, at most
    `ALLOWANCE_MOST` times as much: bounded, however many processes a job starts.
    """
    return min(
        first_bytes + max(0, processes - 1) * (first_bytes // 4), ALLOWANCE_MOST * first_bytes
    )


def compare_ledger(
    limits: ShareLimits,
    before: FenceUsage,
    after: FenceUsage,
    cards: Mapping[str, Iterable[CardProcess]],
    allowance_bytes: int = 0,
    allowed: Mapping[str, int] = MappingProxyType({}),
) -> LedgerComparison:
    """Compare a job's usage counters with its processes on its cards.

    Args:
        before: the counters before the cards were read.
        after: the counters after that.
        cards: the job's own processes, by uuid.
        allowance_bytes: what the first process may hold outside its counters: it is charged to the
            share and is no finding. `compute_allowance` says what several may hold.
        allowed: what the job may hold in all, by uuid, where its share was made smaller.
    """
    findings: list[AuditFinding] = []
    unaccounted: dict[str, dict[int, int]] = {}
    for limit in limits.devices:
        least = max(LEAST_TOLERANCE_BYTES, limit.context_bytes // 4)
        seen = list(cards.get(limit.uuid, ()))
        together = least * max(1, len(seen)) + compute_allowance(len(seen), allowance_bytes)
        extra: dict[int, int] = {}
        for one in seen:
            extra[one.pid] = _measure_excess(one, limit.uuid, before, after)
        unaccounted[limit.uuid] = {pid: size for pid, size in extra.items() if size > 0}
        found = list(
            _check_processes(limit.uuid, seen, extra, least + allowance_bytes, before, after)
        )
        findings += found or _check_total(limit.uuid, extra, together)
        held = sum(one.memory_bytes for one in seen)
        if held > max(limit.memory_bytes, allowed.get(limit.uuid, 0)) + together:
            share = f"its share is {limit.memory_bytes // MIB} MiB"
            findings.append(
                AuditFinding(
                    "over", f"its processes hold {held // MIB} MiB of card {limit.uuid}, {share}"
                )
            )
    return LedgerComparison(tuple(findings), unaccounted)


def _check_processes(
    uuid: str,
    seen: Iterable[CardProcess],
    extra: Mapping[int, int],
    tolerance: int,
    before: FenceUsage,
    after: FenceUsage,
) -> Iterator[AuditFinding]:
    for one in seen:
        # Found in neither reading, so it is not one that just takes or gives back its slot.
        if not _find_slots(one, before) and not _find_slots(one, after):
            yield AuditFinding(
                "unregistered", f"process {one.pid} is on card {uuid} past the fence", one.pid
            )
        elif extra[one.pid] > tolerance:
            text = (
                f"process {one.pid} holds {extra[one.pid] // MIB} MiB of card {uuid} "
                "that its ledger does not know"
            )
            yield AuditFinding("memory", text, one.pid)


def _check_total(uuid: str, extra: Mapping[int, int], most: int) -> Iterator[AuditFinding]:
    """Find many processes that each hold little outside their counters; the largest is named."""
    beyond = sum(max(size, 0) for size in extra.values())
    if beyond > most:
        worst = max(extra, key=lambda pid: extra[pid])
        text = (
            f"{len(extra)} processes hold {beyond // MIB} MiB of card {uuid} "
            "that their ledger does not know"
        )
        yield AuditFinding("memory", text, worst)


def _find_slots(one: CardProcess, usage: FenceUsage) -> list[FenceProcess]:
    return [slot for slot in usage.processes if slot.pid in one.names]


def _measure_excess(one: CardProcess, uuid: str, before: FenceUsage, after: FenceUsage) -> int:
    known = max(_sum_reserved(one, uuid, before), _sum_reserved(one, uuid, after))
    return one.memory_bytes - known


def _sum_reserved(one: CardProcess, uuid: str, usage: FenceUsage) -> int:
    reserved = 0
    for slot in _find_slots(one, usage):
        reserved += slot.devices.get(uuid, FenceDeviceUsage()).reserved_bytes
    return reserved
