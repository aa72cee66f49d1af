"""Limits the card memory of a share by the kernel's cgroup controller dmem: AMD and Intel.

The kernel charges what a job's processes allocate and moves what is too much to main memory, so a
program over its limit becomes slow; neighbours keep their memory. It was not measured here whether
all memory of ROCm is charged, so the level is soft and not hard.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpupool.base.errors import RequestRejection
from gpupool.mechanisms.contract import (
    AllocationView,
    EnforcementLevels,
    FenceLevel,
    GrantedDevice,
    PreparedAllocation,
)
from gpupool.mechanisms.drm import dmem
from gpupool.mechanisms.layers.layer_notes import LayerNote, LayerNoteBook, refuse_stale
from gpupool.mechanisms.offers.summaries import MechanismSummary
from gpupool.mechanisms.whole import is_whole

#: Makers whose kernel drivers register their memory with the controller.
VENDORS: Final = frozenset({"amd", "intel"})
LEVEL: Final = FenceLevel.SOFT


class DeviceMemoryLimit:
    """The layer `dmem`."""

    name = "dmem"
    summary = MechanismSummary(
        EnforcementLevels(memory=FenceLevel.SOFT),
        cards="AMD and Intel on kernels with the cgroup controller dmem (6.14)",
        tested="a cgroup tree in plain files; no kernel with dmem and no real card",
        mechanisms=("share",),
    )

    def explain_absence(self, view: AllocationView) -> str:
        grants = list_limited_grants(view)
        if not grants:
            return "it has no share of an AMD or Intel card"
        if not view.fence:
            return "the job asked for no fence"
        if not view.cgroups:
            return "the job has no cgroup of its own"
        group = _find_group(view)
        if group is None:
            return "its cgroups cannot have the controller dmem (cgroup v2, Linux 6.14)"
        for grant in grants:
            if not _compute_limits(group, [grant]):
                return f"the kernel limits no memory of {grant.device.pci_address}"
        return ""

    def prepare(
        self, view: AllocationView, prepared: PreparedAllocation, state_dir: Path
    ) -> PreparedAllocation:
        group = None if self.explain_absence(view) else _find_group(view)
        if group is None:
            return prepared
        try:
            dmem.enable_controller(group)
        except OSError as error:
            # A group with processes of its own cannot pass a controller on. The share stays counted.
            text = f"memory: the kernel does not limit it (dmem: {error.strerror})"
            return replace(prepared, notes=(*prepared.notes, text))
        self._apply(view, state_dir)
        levels = _raise_memory(prepared.enforcement)
        text = "memory: the kernel limits it (dmem)"
        return replace(prepared, levels=levels, notes=(*prepared.notes, text))

    def is_recorded(self, allocation: str, state_dir: Path) -> bool:
        return LayerNoteBook(state_dir, self.name).has_note(allocation)

    def resize(self, view: AllocationView, state_dir: Path) -> None:
        note = LayerNoteBook(state_dir, self.name).find_note(view.allocation)
        if note is not None:
            refuse_stale(note, view.generation)
            self._apply(view, state_dir)

    def unprepare(self, allocation: str, generation: int, state_dir: Path) -> None:
        notes = LayerNoteBook(state_dir, self.name)
        note = notes.find_note(allocation)
        if note is None:
            notes.remove_note(allocation)  # of a first note that was killed before it had its name
            return
        refuse_stale(note, generation)
        group = Path(str(note.made["group"]))
        # The supervisor removes the group with the job; its limits went with it.
        current = dmem.read_limits(group)
        mine = {r: note.before[r] for r in note.before if _is_own(note, r, current.get(r))}
        if mine:
            dmem.write_limits(group, mine)
        notes.remove_note(allocation)

    def read_enforcement(
        self, allocation: str, levels: EnforcementLevels, state_dir: Path
    ) -> EnforcementLevels:
        note = LayerNoteBook(state_dir, self.name).find_note(allocation)
        if note is None:
            return levels
        current = dmem.read_limits(Path(str(note.made["group"])))
        limits: Mapping[str, str] = note.made["limits"]
        holds = all(current.get(region) == limit for region, limit in limits.items())
        return _raise_memory(levels) if holds else levels

    def _apply(self, view: AllocationView, state_dir: Path) -> None:
        """Note the limits, write them, and compare what the kernel made of them.

        Raises RequestRejection where a limit was not taken, such as one below what is in use.
        """
        group = _find_group(view)
        if group is None:
            raise RequestRejection("the job's cgroup with the controller dmem is gone")
        limits = _compute_limits(group, list_limited_grants(view))
        current = dmem.read_limits(group)
        before = {region: current.get(region, dmem.UNLIMITED) for region in limits}
        notes = LayerNoteBook(state_dir, self.name)
        old = notes.find_note(view.allocation)
        # Until the new limits are written the old ones hold, and are ours to undo as well.
        earlier = {}
        for region, limit in current.items():
            is_changed = limit != limits.get(region)
            if old is not None and is_changed and _is_own(old, region, limit):
                earlier[region] = limit
        made = {"group": str(group), "limits": limits, "earlier": earlier}
        notes.begin_preparing(LayerNote(view.allocation, view.generation, before=before, made=made))
        dmem.write_limits(group, limits)
        current = dmem.read_limits(group)
        for region, limit in limits.items():
            if current.get(region) != limit:
                raise RequestRejection(
                    f"the kernel did not take the limit of {region}: "
                    f"got {current.get(region, 'none')}, expected {limit}",
                    hint="a limit below the memory in use is refused",
                )


def _is_own(note: LayerNote, region: str, limit: str | None) -> bool:
    """Whether a limit of a region is what this layer wrote, now or before the last resize."""
    written = (note.made["limits"].get(region), note.made.get("earlier", {}).get(region))
    return limit is not None and limit in written


def list_limited_grants(view: AllocationView) -> list[GrantedDevice]:
    """Return the parts of cards that a kernel may limit: no whole cards, no simulated ones."""
    found = []
    for grant in view.granted:
        device = grant.device
        is_kernels = device.vendor in VENDORS and device.pci_address is not None
        if is_kernels and not device.simulated and not is_whole(grant):
            found.append(grant)
    return found


def _find_group(view: AllocationView) -> Path | None:
    """Return the job's cgroup that can have the controller."""
    for group in map(Path, view.cgroups):
        if group.is_dir() and dmem.find_root(group) and dmem.is_delegated(group):
            return group
    return None


def _compute_limits(group: Path, grants: list[GrantedDevice]) -> dict[str, str]:
    """Return the limit of each region of these cards, as it is written."""
    root = dmem.find_root(group)
    capacities = dmem.read_capacities(root) if root is not None else {}
    limits = {}
    for grant in grants:
        regions = dmem.list_card_regions(capacities, str(grant.device.pci_address))
        for region, size in dmem.split_limit(capacities, regions, grant.memory_bytes).items():
            # The kernel counts pages, so it would show another number.
            limits[region] = str(size & ~0xFFF)
    return limits


def _raise_memory(levels: EnforcementLevels) -> EnforcementLevels:
    return replace(levels, memory=max(levels.memory, LEVEL, key=lambda level: level.rank))
