"""Machines and allocations for the mechanisms that hand hardware to virtual machines."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gpupool.mechanisms.contract import AllocationView, GrantedDevice, HostKind, JobSeat
from gpupool.model.device import CardMode, Device
from tests.support.kill_points import run_killed
from tests.support.pci_kernel import FakeKernel, FunctionFacts, build_tree

MEMORY = 141 << 30
CARD = "0000:1b:00.0"
AUDIO = "0000:1b:00.1"


def build_card_machine(root: Path) -> Path:
    """A card with an audio function, and the bridge above them in their group."""
    return build_tree(
        root,
        [
            FunctionFacts("0000:00:01.0", 10, class_code=0x060400, own_driver="pcieport"),
            FunctionFacts(CARD, 10),
            FunctionFacts(AUDIO, 10, class_code=0x040300, own_driver="snd_hda_intel"),
        ],
    )


def make_device(address: str = CARD, uuid: str = "GPU-1", **facts: object) -> Device:
    """A real card, which a claim may switch to any mode."""
    labels = {"switchable": "passthrough,sriov,vgpu"}
    device = Device(uuid, 0, "nvidia", "NVIDIA H200", "H200", MEMORY, address, labels=labels)
    return replace(device, **facts)  # type: ignore[arg-type]


def make_view(*devices: Device, **facts: object) -> AllocationView:
    """An allocation of whole cards for a virtual machine."""
    granted = tuple(GrantedDevice(one, 1000, one.memory_bytes) for one in devices)
    seat = JobSeat(uid=os.getuid(), gid=os.getgid(), own_pool=os.getuid() != 0)
    view = AllocationView(
        "pool", "al-1", 5, "job-1", "team", "fixed", granted, devices, seat, host=HostKind.VM
    )
    return replace(view, **facts)  # type: ignore[arg-type]


def in_mode(device: Device, mode: CardMode) -> Device:
    return replace(device, mode=mode)


def read_tree(folder: Path) -> dict[str, str]:
    """Everything below a directory, links with their targets, in one comparable form."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name] = path.read_bytes().decode("latin-1")
        else:
            found[name] = "folder"
    return found


def crash_at(point: int, kernel: FakeKernel, state_dir: Path, call: Callable[[], object]) -> bool:
    """Run `call` in a child that ends at its `point`-th change, without any clean-up.

    A change is one to a file of the state directory, or one of the kernel's: before its effect and
    after it. False: the call finished before that.
    """
    kernel.crash_at = point
    kernel.points = 0
    killed = run_killed(point, call, pass_change=kernel.pass_point, below=state_dir)
    kernel.crash_at = None
    return killed
