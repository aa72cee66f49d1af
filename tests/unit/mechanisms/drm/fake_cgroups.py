"""A cgroup hierarchy in plain files, and a share of two AMD cards with its cgroup in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpupool.mechanisms.contract import AllocationView, GrantedDevice, PreparedAllocation
from gpupool.mechanisms.share import CountedShare
from gpupool.model.device import Device

ADDRESSES = ("0000:03:00.0", "0000:43:00.0")
REGIONS = tuple(f"drm/{address}/vram" for address in ADDRESSES)
CARD = Device(
    "GPU-1",
    0,
    "amd",
    "AMD Instinct MI210",
    "MI210",
    64 << 30,
    pci_address=ADDRESSES[0],
    architecture="cdna2",
    multiprocessors=104,
)
CARDS = (CARD, replace(CARD, uuid="GPU-2", index=1, pci_address=ADDRESSES[1]))


def make_group(root: Path, name: str = "job-1") -> Path:
    """Make a job's group below a pool's, as Linux 6.14 shows it with dmem delegated to the pool."""
    group = root / "pool/jobs" / name
    group.mkdir(parents=True)
    lines = "".join(f"{region} {64 << 30}\n" for region in REGIONS)
    (root / "dmem.capacity").write_text(lines)
    (root / "pool/cgroup.controllers").write_text("cpu memory dmem\n")
    for above in (root / "pool", root / "pool/jobs"):
        (above / "cgroup.subtree_control").write_text("cpu memory\n")
    (group / "dmem.max").write_text("".join(f"{region} max\n" for region in REGIONS))
    return group


def make_view(
    *groups: Path, milli: int = 250, cards: tuple[Device, ...] = (CARD,), generation: int = 1
) -> AllocationView:
    """A share of each card: thousandths of its compute and 16 GiB."""
    granted = tuple(GrantedDevice(card, milli, 16 << 30) for card in cards)
    view = AllocationView("pool", "al-1", generation, "job", "team", "fixed", granted, CARDS)
    return replace(view, cgroups=tuple(map(str, groups)))


def prepare_share(view: AllocationView, state: Path) -> PreparedAllocation:
    """Prepare the counted share that a layer is added to."""
    return CountedShare().prepare(view, state)
