"""Finds how much memory an Intel card has, without a tool.

`lmem_total_bytes` is in Intel's own i915 (DKMS) alone. Since Linux 6.14 the cgroup controller dmem
names the regions of all cards with their sizes
(https://docs.kernel.org/admin-guide/cgroup-v2.html, "DMEM").
"""

from __future__ import annotations

from pathlib import Path

from gpupool.probes.common.sysfs import read_number, read_text


def read_card_memory(address: str, sys_root: Path) -> int | None:
    """Return bytes of the card at a PCI address; None where the kernel does not tell."""
    for path in (sys_root / "bus/pci/devices" / address / "drm").glob("card*/lmem_total_bytes"):
        size = read_number(path)
        if size:
            return size
    return read_region_sizes(sys_root).get(address)


def read_region_sizes(sys_root: Path) -> dict[str, int]:
    """Return bytes of memory by PCI address, from lines such as `drm/0000:03:00.0/vram0 85144371`."""
    sizes: dict[str, int] = {}
    text = read_text(sys_root / "fs/cgroup/dmem.capacity") or ""
    for line in text.splitlines():
        region, _, size = line.partition(" ")
        parts = region.split("/")
        # A card of several tiles has a region for each: vram0, vram1. `stolen` is not for programs.
        if len(parts) == 3 and parts[2].startswith("vram") and size.isdigit():
            sizes[parts[1]] = sizes.get(parts[1], 0) + int(size)
    return sizes
