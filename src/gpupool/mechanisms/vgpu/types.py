"""Reads which virtual GPUs a card can have, in both forms that drivers use.

Until kernel 6.7 a card has a directory for each type of mediated device. From 6.8 on each virtual
function of an NVIDIA card lists the numbers of the types that it can become.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.mechanisms.pci.virtual_gpus import locate_type_attribute, locate_types
from gpupool.probes.common.sysfs import read_number, read_text

#: `H200X-1-18C`, `A40-8Q`: GB of memory before the series' letter.
_NAME = re.compile(r".*-(?P<gigabytes>\d+)[QCBA](?:ME)?")
#: A type that is backed by a MIG instance has the number of its slices before its memory.
_MIG_NAME = re.compile(r".*-\d+-\d+[QCBA](?:ME)?")
_FRAMEBUFFER = re.compile(r"framebuffer=(\d+)M")
_INSTANCES = re.compile(r"max_instance=(\d+)")
#: GVT-g writes `low_gm_size: 128MB`, `high_gm_size: 512MB` one a line.
_GVT_MEMORY = re.compile(r"(?:low|high)_gm_size: (\d+)MB")
#: GVT-g's types, such as `i915-GVTg_V5_4`.
GVT_PREFIX = "i915-GVTg"


@dataclass(frozen=True)
class VgpuType:
    """One type of virtual GPU.

    Attributes:
        identifier: what the driver wants: a directory's name, or a number.
        available: how many more can be made now.
        most: how many a card can have of it; None where the driver does not say.
    """

    identifier: str
    name: str
    memory_bytes: int
    available: int
    most: int | None = None

    @property
    def is_gvt(self) -> bool:
        return self.identifier.startswith(GVT_PREFIX)

    @property
    def is_mig(self) -> bool:
        return _MIG_NAME.fullmatch(self.name) is not None


def is_mediated(tree: PciTree, address: str) -> bool:
    """Whether the driver of a card makes mediated devices."""
    return locate_types(tree, address).is_dir()


def list_types(tree: PciTree, address: str) -> tuple[VgpuType, ...]:
    """Return the types that a card can have now, also those of which none is left, by name."""
    if is_mediated(tree, address):
        folders = sorted(locate_types(tree, address).iterdir())
        found = [_read_mediated(folder) for folder in folders]
    else:
        found = _read_functions(tree, tree.list_virtual(address))
    return tuple(sorted(found, key=lambda kind: kind.name))


def list_sizes(tree: PciTree, address: str) -> frozenset[int]:
    """Return the numbers of the types that virtual functions of a card have now."""
    numbers = set()
    for virtual in tree.list_virtual(address):
        numbers.add(read_number(locate_type_attribute(tree, virtual)) or 0)
    return frozenset(numbers - {0})


def read_memory(name: str) -> int:
    """Return the bytes in a type's name; 0 where it has none.

    >>> read_memory("H200X-1-18C") >> 30
    18
    """
    match = _NAME.fullmatch(name)
    return 0 if match is None else int(match.group("gigabytes")) << 30


def shorten_name(name: str) -> str:
    """Return a type's name as claims use it, without the vendor.

    >>> shorten_name("NVIDIA A40-8Q")
    'A40-8Q'
    """
    return name.removeprefix("NVIDIA ").removeprefix("GRID ")


def format_types(types: Iterable[VgpuType]) -> str:
    """Return the types that can be made now, for people."""
    names = [f"{one.name} ({one.available})" for one in types if one.available]
    return ", ".join(names) or "none"


def _read_mediated(folder: Path) -> VgpuType:
    # NVIDIA's types have a name in a file of their own; GVT-g's are named by their directory.
    name = shorten_name(read_text(folder / "name") or folder.name)
    description = read_text(folder / "description") or ""
    match = _FRAMEBUFFER.search(description)
    if match is not None:
        memory = int(match.group(1)) << 20
    else:
        memory = sum(int(size) << 20 for size in _GVT_MEMORY.findall(description))
    most = _INSTANCES.search(description)
    available = read_number(folder / "available_instances") or 0
    return VgpuType(
        folder.name, name, memory, available, None if most is None else int(most.group(1))
    )


def _read_functions(tree: PciTree, functions: Iterable[str]) -> list[VgpuType]:
    names: dict[str, str] = {}
    counts: dict[str, int] = {}
    for address in functions:
        is_free = read_number(locate_type_attribute(tree, address)) == 0
        text = read_text(tree.locate(address) / "nvidia/creatable_vgpu_types") or ""
        for line in text.splitlines():
            number, _, name = line.partition(":")
            # The first line is a heading.
            if number.strip().isdecimal():
                names[number.strip()] = shorten_name(name.strip())
                counts[number.strip()] = counts.get(number.strip(), 0) + is_free
    found = []
    for number, name in names.items():
        found.append(VgpuType(number, name, read_memory(name), counts[number]))
    return found
