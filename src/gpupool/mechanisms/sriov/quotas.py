"""Finds the files in which a PF's driver takes a VF's quotas, and what to write there.

Places by driver: xe from kernel 6.19 on has `sriov_admin` in the PF's directory, before it debugfs; i915
(out of tree) has `prelim_iov`. AMD's GIM and other devices divide themselves equally and take none.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpupool.mechanisms.pci.operations import Operation
from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.probes.common.sysfs import read_number

#: Milliseconds in which each VF of a full card has its turn once.
PERIOD_MS = 100
#: A VF that does not yield within this many of its quanta is reset.
TIMEOUT_QUANTA = 2
#: Drivers round memory to the pages of their tables.
TOLERANCE_BYTES = 64 << 20
_MEMORY = ("vram_quota", "lmem_quota")


@dataclass(frozen=True)
class QuotaValue:
    """One attribute, and what an allocation needs there.

    Attributes:
        path: below the root.
        tolerance: by how much the driver may round.
    """

    path: str
    value: int
    tolerance: int = 0


def plan_quotas(
    tree: PciTree, physical: str, index: int, memory_bytes: int, gpu_milli: int
) -> tuple[QuotaValue, ...]:
    """Return the quotas of a VF; none where the driver takes none.

    Args:
        index: of the VF, from 0 on; the drivers count from 1.
    """
    folders = _list_folders(tree, physical, index + 1)
    memory = [file for folder in folders for file in _find_memory(folder)]
    quantum = max(1, PERIOD_MS * gpu_milli // 1000)
    values = []
    for file in memory:
        # A card of several tiles has one file for each tile's memory.
        values.append(_make_value(tree, file, memory_bytes // len(memory), TOLERANCE_BYTES))
    for folder in folders:
        for name, value in (
            ("exec_quantum_ms", quantum),
            ("preempt_timeout_us", quantum * TIMEOUT_QUANTA * 1000),
        ):
            if (folder / name).exists():
                values.append(_make_value(tree, folder / name, value))
    return tuple(values)


def has_quotas(tree: PciTree, physical: str) -> bool:
    """Whether the driver of a card takes quotas for its first VF."""
    return any(any(folder.iterdir()) for folder in _list_folders(tree, physical, 1))


def plan_changes(
    tree: PciTree, quotas: tuple[QuotaValue, ...]
) -> tuple[tuple[Operation, ...], tuple[Operation, ...]]:
    """Return the operations to set quotas and to put back what is there now."""
    enter: list[Operation] = []
    leave: list[Operation] = []
    for one in quotas:
        before = read_number(tree.root / one.path) or 0
        enter.append(
            {
                "verb": "set-attribute",
                "path": one.path,
                "value": one.value,
                "tolerance": one.tolerance,
            }
        )
        leave.append({"verb": "restore-attribute", "path": one.path, "value": before})
    return tuple(enter), tuple(reversed(leave))


def _list_folders(tree: PciTree, physical: str, number: int) -> list[Path]:
    entry = tree.locate(physical)
    name = f"vf{number}"
    found = [entry / "sriov_admin" / name / "profile"]
    found += sorted(entry.glob(f"drm/card*/prelim_iov/{name}/gt*"))
    found += sorted((tree.root / "sys/kernel/debug/dri" / physical).glob(f"gt*/{name}"))
    folders = [folder for folder in found if folder.is_dir()]
    # debugfs repeats what sysfs has; a value is written in one place only.
    return [one for one in folders if one.is_relative_to(entry)] or folders


def _find_memory(folder: Path) -> list[Path]:
    for name in _MEMORY:
        if (folder / name).exists():
            return [folder / name]
    return []


def _make_value(tree: PciTree, file: Path, value: int, tolerance: int = 0) -> QuotaValue:
    return QuotaValue(str(file.relative_to(tree.root)), value, tolerance)
