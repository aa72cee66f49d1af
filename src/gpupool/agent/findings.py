"""What does not agree between a fenced job's ledger and what its cards say of its processes. Pure.

The ledger is read before and after the cards: a process that is just allocating has reserved first, one that is just
freeing gives back last, so whatever one of the two readings covers is accounted for. Knows no probe and no /proc.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpupool.mechanisms.regions import FenceDeviceUsage, FenceProcess, FenceUsage, Limits

MIB: Final = 1 << 20
LEAST_TOLERANCE_BYTES: Final = 16 * MIB
"""Rounding and what a driver keeps for itself; a quarter of a context where that is more."""
CODE_ALLOWANCE_BYTES: Final = 1024 * MIB
"""On a real card: what a process may hold there in code, heaps and stacks, which are charged when they are seen. The
large frameworks bring some hundred MiB of code, and load it when a kernel is first used."""
TIME_TOLERANCE_NS: Final = 400_000_000
TIME_TOLERANCE_PART: Final = 5
"""Measured time follows what ran by a batch; beyond that and a fifth it was not measured at all."""


@dataclass(frozen=True)
class Finding:
    """One thing that is not as promised. `kind` is its event's name; `pid` 0 where no process is to blame."""

    kind: str
    text: str
    pid: int = 0


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


def compare(
    limits: Limits,
    before: FenceUsage,
    after: FenceUsage,
    cards: Mapping[str, Iterable[CardProcess]],
    allowance_bytes: int = 0,
) -> Comparison:
    """`cards` holds, by uuid, the job's own processes there.

    Each may hold `allowance_bytes` there that its ledger does not know: unaccounted, so charged, and no finding.
    """
    findings: list[Finding] = []
    unaccounted: dict[str, dict[int, int]] = {}
    for limit in limits.devices:
        tolerance = max(LEAST_TOLERANCE_BYTES, limit.context_bytes // 4) + allowance_bytes
        seen = list(cards.get(limit.uuid, ()))
        extra = {one.pid: _beyond(one, limit.uuid, before, after) for one in seen}
        unaccounted[limit.uuid] = {pid: size for pid, size in extra.items() if size > 0}
        findings += _of_card(limit.uuid, seen, extra, tolerance, before, after)
        held = sum(one.memory_bytes for one in seen)
        if held > limit.memory_bytes + tolerance * max(1, len(seen)):
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
        elif (more := _time_beyond(one, uuid, slots)) > 0:
            text = f"process {one.pid} had {more // 1_000_000} ms of card {uuid} that its ledger does not know"
            yield Finding("time", text, one.pid)


def _slots(one: CardProcess, usage: FenceUsage) -> list[FenceProcess]:
    return [slot for slot in usage.processes if slot.pid in one.names]


def _beyond(one: CardProcess, uuid: str, before: FenceUsage, after: FenceUsage) -> int:
    known = (sum(_used(slot, uuid).reserved_bytes for slot in _slots(one, usage)) for usage in (before, after))
    return one.memory_bytes - max(known)


def _time_beyond(one: CardProcess, uuid: str, slots: Sequence[FenceProcess]) -> int:
    if one.gpu_ns is None or not any(_used(slot, uuid).launches for slot in slots):
        return 0  # nothing was measured of it, so there is nothing to compare
    known = max(_used(slot, uuid).gpu_ns + _used(slot, uuid).inflight_ns for slot in slots)
    tolerance = max(TIME_TOLERANCE_NS, one.gpu_ns // TIME_TOLERANCE_PART)
    return one.gpu_ns - known if one.gpu_ns - known > tolerance else 0


def _used(slot: FenceProcess, uuid: str) -> FenceDeviceUsage:
    return slot.devices.get(uuid, FenceDeviceUsage())
