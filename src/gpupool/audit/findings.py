"""What does not agree between a fenced job's ledger and what its cards say of its processes. Pure.

The ledger is read before and after the cards: a process that is just allocating has reserved first, one that is just
freeing gives back last, so whatever one of the two readings covers is accounted for. Knows no probe and no /proc.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from gpupool.mechanisms.regions import FenceDeviceUsage, FenceProcess, FenceUsage, Limits

MIB: Final = 1 << 20
LEAST_TOLERANCE_BYTES: Final = 16 * MIB
"""Rounding and what a driver keeps for itself; a quarter of a context where that is more."""
CODE_ALLOWANCE_BYTES: Final = 1024 * MIB
"""On a real card: what the first process may hold in code, heaps and stacks, which are charged when they are seen. The
large frameworks bring some hundred MiB of code, and load it when a kernel is first used."""
ALLOWANCE_MOST: Final = 4
"""All processes of an allocation together on one card, in allowances of one: 4 GiB."""
FIRST_GENERATION: Final = 2
"""Of a limits page that was never changed."""


@dataclass(frozen=True)
class Finding:
    """One thing that is not as promised. `kind` is its event's name; `pid` 0 where no process is to blame.

    `only_tell`: its source is not exact enough to end or freeze a job for it.
    """

    kind: str
    text: str
    pid: int = 0
    only_tell: bool = False


@dataclass(frozen=True)
class CardProcess:
    """A process of the job as a card sees it. `names`: its pid in every namespace it is in, the host's first.

    `gpu_ns`: time it had since it came, None where the card does not say.
    """

    names: tuple[int, ...]
    memory_bytes: int
    gpu_ns: int | None = None

    @property
    def pid(self) -> int:
        return self.names[0]


@dataclass(frozen=True)
class Comparison:
    """`unaccounted` is what cards say beyond the ledger, in bytes, by uuid and then by pid; no entry: it agrees."""

    findings: tuple[Finding, ...] = ()
    unaccounted: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    def confirmed(self, again: Comparison) -> Comparison:
        """What a second look says too. Memory taken and given back between two readings of the ledger is in neither,
        and the processes of a card are not read at one instant: a single look can be wrong, and each later one less.
        """
        said = {(finding.kind, finding.pid) for finding in again.findings}
        return Comparison(
            tuple(finding for finding in self.findings if (finding.kind, finding.pid) in said),
            {uuid: _least(sizes, again.unaccounted.get(uuid, {})) for uuid, sizes in self.unaccounted.items()},
        )

    def beyond(self, known: Mapping[str, Mapping[int, int]]) -> int:
        """How many bytes more than `known` of one process on one card, at most."""
        more = (
            size - known.get(uuid, {}).get(pid, 0)
            for uuid, sizes in self.unaccounted.items()
            for pid, size in sizes.items()
        )
        return max(more, default=0)


def _least(one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    return {pid: min(size, other[pid]) for pid, size in one.items() if pid in other}


class Shrunk:
    """What jobs hold beyond shares that were made smaller under them: theirs to keep, but not to grow again.

    Remembers the last look at each allocation. Of one that was resized before the first look (by an agent before us)
    what is found is taken as left over.
    """

    def __init__(self) -> None:
        self._limits: dict[str, Mapping[str, int]] = {}
        self._most: dict[str, dict[str, int]] = {}

    def allowed(self, allocation: str, limits: Limits, held: Mapping[str, int]) -> Mapping[str, int]:
        """By uuid, the most that it may hold where that is more than its share. `held` is what its cards say now."""
        before, most = self._limits.get(allocation), self._most.setdefault(allocation, {})
        for limit in limits.devices:
            found = held.get(limit.uuid, 0)
            was = found if before is None and limits.generation > FIRST_GENERATION else limit.memory_bytes
            was = max(was, (before or {}).get(limit.uuid, 0), most.get(limit.uuid, 0))
            most[limit.uuid] = was
        told = {uuid: size for uuid, size in most.items() if size > _share(limits, uuid)}
        self._most[allocation] = {uuid: min(size, held.get(uuid, 0)) for uuid, size in told.items()}
        self._limits[allocation] = {limit.uuid: limit.memory_bytes for limit in limits.devices}
        return told

    def forget(self, live: Collection[str]) -> None:
        """Keep these allocations alone."""
        for gone in self._limits.keys() - set(live):
            del self._limits[gone], self._most[gone]


def _share(limits: Limits, uuid: str) -> int:
    return next((limit.memory_bytes for limit in limits.devices if limit.uuid == uuid), 0)


def held_on(cards: Mapping[str, Iterable[CardProcess]]) -> dict[str, int]:
    """What cards say of a job's processes together, by uuid."""
    return {uuid: sum(one.memory_bytes for one in processes) for uuid, processes in cards.items()}


def allowance_of(processes: int, first_bytes: int) -> int:
    """What the processes of an allocation together may hold on one card that no ledger knows, in bytes.

    `first_bytes` for the first, a quarter of it for each further one, at most four times as much: bounded, however
    many processes a job starts.
    """
    return min(first_bytes + max(0, processes - 1) * (first_bytes // 4), ALLOWANCE_MOST * first_bytes)


def compare(
    limits: Limits,
    before: FenceUsage,
    after: FenceUsage,
    cards: Mapping[str, Iterable[CardProcess]],
    allowance_bytes: int = 0,
    allowed: Mapping[str, int] = MappingProxyType({}),
) -> Comparison:
    """`cards` holds, by uuid, the job's own processes there.

    One may hold `allowance_bytes` there that its ledger does not know, several what `allowance_of` says together:
    unaccounted, so charged, and no finding. `allowed` is what the job may hold in all, where that is more than a share
    that was made smaller under it.
    """
    findings: list[Finding] = []
    unaccounted: dict[str, dict[int, int]] = {}
    for limit in limits.devices:
        least = max(LEAST_TOLERANCE_BYTES, limit.context_bytes // 4)
        seen = list(cards.get(limit.uuid, ()))
        together = least * max(1, len(seen)) + allowance_of(len(seen), allowance_bytes)
        extra = {one.pid: _beyond(one, limit.uuid, before, after) for one in seen}
        unaccounted[limit.uuid] = {pid: size for pid, size in extra.items() if size > 0}
        found = list(_of_card(limit.uuid, seen, extra, least + allowance_bytes, before, after))
        findings += found or _of_all(limit.uuid, extra, together)
        held = sum(one.memory_bytes for one in seen)
        if held > max(limit.memory_bytes, allowed.get(limit.uuid, 0)) + together:
            share = f"its share is {limit.memory_bytes // MIB} MiB"
            findings.append(Finding("over", f"its processes hold {held // MIB} MiB of card {limit.uuid}, {share}"))
    return Comparison(tuple(findings), unaccounted)


def _of_card(
    uuid: str,
    seen: Iterable[CardProcess],
    extra: Mapping[int, int],
    tolerance: int,
    before: FenceUsage,
    after: FenceUsage,
) -> Iterator[Finding]:
    for one in seen:
        slots = [slot for usage in (before, after) for slot in _slots(one, usage)]
        if not slots:
            yield Finding("unregistered", f"process {one.pid} is on card {uuid} past the fence", one.pid)
        elif extra[one.pid] > tolerance:
            text = f"process {one.pid} holds {extra[one.pid] // MIB} MiB of card {uuid} that its ledger does not know"
            yield Finding("memory", text, one.pid)


def _of_all(uuid: str, extra: Mapping[int, int], most: int) -> Iterator[Finding]:
    """Many that each hold little beside their ledgers; the one that holds the most of it is named."""
    beyond = sum(size for size in extra.values() if size > 0)
    if beyond > most:
        worst = max(extra, key=lambda pid: extra[pid])
        text = f"{len(extra)} processes hold {beyond // MIB} MiB of card {uuid} that their ledger does not know"
        yield Finding("memory", text, worst)


def _slots(one: CardProcess, usage: FenceUsage) -> list[FenceProcess]:
    return [slot for slot in usage.processes if slot.pid in one.names]


def _beyond(one: CardProcess, uuid: str, before: FenceUsage, after: FenceUsage) -> int:
    known = (sum(_used(slot, uuid).reserved_bytes for slot in _slots(one, usage)) for usage in (before, after))
    return one.memory_bytes - max(known)


def _used(slot: FenceProcess, uuid: str) -> FenceDeviceUsage:
    return slot.devices.get(uuid, FenceDeviceUsage())
