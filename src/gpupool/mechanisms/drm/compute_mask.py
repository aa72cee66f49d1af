"""Gives each share of an AMD card compute units of its own, by a mask that ROCm reads.

`HSA_CU_MASK` names the units for each card in the order of ROCR_VISIBLE_DEVICES, such as
`0:0-75;1:0-75` (https://rocm.docs.amd.com, "GPU isolation techniques" and "Setting the number of
compute units"). It is a variable of the program, so it is advice. Disjoint masks run side by side
and do not divide bandwidth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpupool.base.units import WHOLE
from gpupool.mechanisms.contract import (
    AllocationView,
    EnforcementLevels,
    FenceLevel,
    GrantedDevice,
    PreparedAllocation,
)
from gpupool.mechanisms.layers.layer_notes import LayerNote, LayerNoteBook, refuse_stale
from gpupool.mechanisms.offers.summaries import MechanismSummary
from gpupool.mechanisms.whole import is_whole
from gpupool.model.device import RUNTIME_ID

VARIABLE: Final = "HSA_CU_MASK"
#: From gfx10 on (RDNA) two units share a workgroup processor and only both can be masked.
PAIRED: Final = ("gfx10", "gfx11", "gfx12", "rdna")
#: First unit and number of units, by card.
Ranges = Mapping[str, tuple[int, int]]


class ComputeMask:
    """The layer `cu-mask`."""

    name = "cu-mask"
    summary = MechanismSummary(
        EnforcementLevels(compute=FenceLevel.ADVISORY),
        cards="AMD cards that ROCm sees as one agent",
        tested="a recorded MI210: the variable reaches the job; no real card",
        mechanisms=("share",),
    )

    def explain_absence(self, view: AllocationView) -> str:
        if not view.fence:
            return "the job asked for no fence"
        cards = [grant for grant in view.granted if grant.device.vendor == "amd"]
        if not any(is_masked(grant) for grant in cards):
            return "it has no share of an AMD card with known compute units"
        return ""

    def prepare(
        self, view: AllocationView, prepared: PreparedAllocation, state_dir: Path
    ) -> PreparedAllocation:
        if self.explain_absence(view):
            return prepared
        notes = LayerNoteBook(state_dir, self.name)
        old = notes.find_note(view.allocation)
        if old is not None:
            refuse_stale(old, view.generation)
        # A job that starts again keeps its units: its neighbours have all others.
        ranges = _read_ranges(old) if old is not None and _fits(old, view) else None
        if ranges is None:
            others = [n for n in notes.iterate_notes() if n.allocation != view.allocation]
            ranges = choose_ranges(view, others)
        made = {
            "ranges": {uuid: list(pair) for uuid, pair in ranges.items()},
            "milli": {g.device.uuid: g.gpu_milli for g in view.granted},
        }
        notes.begin_preparing(LayerNote(view.allocation, view.generation, made=made))
        levels = _raise_compute(prepared.enforcement)
        env = {**prepared.env, VARIABLE: format_mask(view, ranges)}
        text = f"compute: {VARIABLE} names its compute units; a program can ignore it"
        return replace(prepared, env=env, levels=levels, notes=(*prepared.notes, text))

    def is_recorded(self, allocation: str, state_dir: Path) -> bool:
        return LayerNoteBook(state_dir, self.name).has_note(allocation)

    def resize(self, view: AllocationView, state_dir: Path) -> None:
        """Record other sizes. A running program keeps its mask, so nothing holds them."""
        notes = LayerNoteBook(state_dir, self.name)
        note = notes.find_note(view.allocation)
        if note is None:
            return
        refuse_stale(note, view.generation)
        changed = not _fits(note, view)
        made = {**note.made, "outgrown": bool(note.made.get("outgrown")) or changed}
        notes.begin_preparing(LayerNote(view.allocation, view.generation, made=made))

    def unprepare(self, allocation: str, generation: int, state_dir: Path) -> None:
        notes = LayerNoteBook(state_dir, self.name)
        note = notes.find_note(allocation)
        if note is not None:
            refuse_stale(note, generation)
        # Without a note as well: a first one may have been killed before it had its name.
        notes.remove_note(allocation)

    def read_enforcement(
        self, allocation: str, levels: EnforcementLevels, state_dir: Path
    ) -> EnforcementLevels:
        note = LayerNoteBook(state_dir, self.name).find_note(allocation)
        if note is None or note.made.get("outgrown"):
            return levels
        return _raise_compute(levels)


def is_masked(grant: GrantedDevice) -> bool:
    """Whether a part of a card can have a mask: a card that ROCm sees as one agent."""
    device = grant.device
    return (
        device.vendor == "amd"
        and not device.simulated
        and bool(device.multiprocessors)
        and RUNTIME_ID not in device.labels
        and grant.gpu_milli > 0
        and not is_whole(grant)
    )


def choose_ranges(view: AllocationView, others: Iterable[LayerNote]) -> Ranges:
    """Return free compute units for each share; those with the fewest neighbours if none is free."""
    known = [_read_ranges(note) for note in others]
    ranges = {}
    for grant in view.granted:
        if is_masked(grant):
            uuid = grant.device.uuid
            taken = [found[uuid] for found in known if uuid in found]
            ranges[uuid] = choose_range(grant, taken)
    return ranges


def choose_range(grant: GrantedDevice, taken: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Return the first unit and the number of units of a share beside those of others.

    The number is rounded down, and at least what can be masked.
    """
    total = grant.device.multiprocessors or 1
    step = 2 if (grant.device.architecture or "").startswith(PAIRED) else 1
    count = max(grant.gpu_milli * total // WHOLE // step * step, step)
    uses = [0] * total
    for first, length in taken:
        for unit in range(first, min(first + length, total)):
            uses[unit] += 1
    starts = range(0, max(total - count, 0) + 1, step)
    best = min(starts, key=lambda first: (sum(uses[first : first + count]), first))
    return best, count


def format_mask(view: AllocationView, ranges: Ranges) -> str:
    """Return the variable's value: cards are counted as ROCR_VISIBLE_DEVICES lists them."""
    parts = []
    cards = [grant.device.uuid for grant in view.granted if grant.device.vendor == "amd"]
    for number, uuid in enumerate(cards):
        if uuid in ranges:
            first, count = ranges[uuid]
            parts.append(f"{number}:{first}-{first + count - 1}")
    return ";".join(parts)


def _fits(note: LayerNote, view: AllocationView) -> bool:
    return bool(note.made.get("milli") == {g.device.uuid: g.gpu_milli for g in view.granted})


def _read_ranges(note: LayerNote) -> Ranges:
    found: dict[str, tuple[int, int]] = {}
    for uuid, (first, count) in note.made.get("ranges", {}).items():
        found[uuid] = (int(first), int(count))
    return found


def _raise_compute(levels: EnforcementLevels) -> EnforcementLevels:
    advisory = FenceLevel.ADVISORY
    return replace(levels, compute=max(levels.compute, advisory, key=lambda level: level.rank))
