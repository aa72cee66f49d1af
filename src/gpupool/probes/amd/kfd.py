"""Reads the KFD: which agents ROCm sees, how they are joined, and which processes use them.

Layout: drivers/gpu/drm/amd/amdkfd/kfd_topology.c and kfd_process.c of Linux. Properties are lines
of a name and a decimal number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gpupool.probes.common.sysfs import read_number, read_text

KFD: Final = "class/kfd/kfd"
#: PCI vendor of AMD. Hygon's nodes are alike and have another.
AMD_VENDOR: Final = 0x1002
#: HSA_IOLINK_TYPE_XGMI of kfd_crat.h.
XGMI: Final = 11
#: HSA_MEM_HEAP_TYPE_FB_PUBLIC and _PRIVATE: memory on the card.
_CARD_HEAPS: Final = (1, 2)


@dataclass(frozen=True)
class KfdNode:
    """One agent: a card, or a compute partition of a card.

    Attributes:
        number: number of its directory.
        gpu_id: number by which the KFD names it in files of processes.
        product: the chip's name, such as `vega20`.
        links: XGMI links by the number of the node at the other end.
    """

    number: int
    gpu_id: int
    product: str
    properties: Mapping[str, int]
    memory_bytes: int = 0
    links: Mapping[int, int] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """PCI address. A partition has the card's, with its own number as function."""
        place = self.properties.get("location_id", 0)
        domain = self.properties.get("domain", 0)
        return f"{domain:04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7}"

    @property
    def compute_units(self) -> int:
        return self.properties.get("simd_count", 0) // max(self.properties.get("simd_per_cu", 1), 1)

    @property
    def target(self) -> str:
        """Name of the instruction set: gfx942; empty where the kernel does not tell.

        >>> KfdNode(1, 2, "", {"gfx_target_version": 90010}).target
        'gfx90a'
        """
        version = self.properties.get("gfx_target_version", 0)
        if not version:
            return ""
        return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def read_nodes(sys_root: Path) -> tuple[KfdNode, ...]:
    """Return the agents on AMD cards in the order in which ROCm counts them."""
    folder = sys_root / KFD / "topology/nodes"
    if not folder.is_dir():
        return ()
    nodes = []
    for entry in folder.iterdir():
        node = _read_node(entry) if entry.name.isdigit() else None
        if node is not None:
            nodes.append(node)
    return tuple(sorted(nodes, key=lambda node: node.number))


def _read_node(entry: Path) -> KfdNode | None:
    """Return an agent; None for a processor, and where a cgroup forbids to see it."""
    properties = _read_properties(entry / "properties")
    if properties.get("vendor_id") != AMD_VENDOR or not properties.get("simd_count"):
        return None
    return KfdNode(
        int(entry.name),
        read_number(entry / "gpu_id") or 0,
        read_text(entry / "name") or "",
        properties,
        _read_memory(entry, properties),
        _read_links(entry),
    )


def _read_memory(entry: Path, properties: Mapping[str, int]) -> int:
    total = 0
    for bank in entry.glob("mem_banks/*/properties"):
        found = _read_properties(bank)
        if found.get("heap_type") in _CARD_HEAPS:
            total += found.get("size_in_bytes", 0)
    return total or properties.get("local_mem_size", 0)


def _read_links(entry: Path) -> Mapping[int, int]:
    links: dict[int, int] = {}
    for path in sorted(entry.glob("io_links/*/properties")):
        link = _read_properties(path)
        if link.get("type") == XGMI:
            end = link.get("node_to", -1)
            links[end] = links.get(end, 0) + 1
    return links


def _read_properties(path: Path) -> dict[str, int]:
    found = {}
    for line in (read_text(path) or "").splitlines():
        name, _, value = line.partition(" ")
        if value.strip().lstrip("-").isdigit():
            found[name] = int(value)
    return found


def read_processes(sys_root: Path) -> Mapping[int, Mapping[int, int]] | None:
    """Return bytes of card memory by `gpu_id` and pid of those with memory or a queue on it.

    None where the kernel does not list them. Pids are those of the host.
    """
    folder = sys_root / KFD / "proc"
    if not folder.is_dir():
        return None
    used: dict[int, dict[int, int]] = {}
    for process in folder.iterdir():
        if process.name.isdigit():
            for gpu_id, memory_bytes in _iterate_uses(process):
                used.setdefault(gpu_id, {})[int(process.name)] = memory_bytes
    return used


def _iterate_uses(process: Path) -> Iterator[tuple[int, int]]:
    queues = {read_number(path) for path in process.glob("queues/*/gpuid")}
    for path in process.glob("vram_*"):
        number = path.name.removeprefix("vram_")
        memory_bytes = read_number(path)
        # A process that opened the KFD has a file for every card, also for those it never touched.
        if number.isdigit() and (memory_bytes or int(number) in queues):
            yield int(number), memory_bytes or 0
