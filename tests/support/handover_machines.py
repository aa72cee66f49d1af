"""Machines on which the contract of the hand-over mechanisms is tested, by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from gpupool.mechanisms.contract import AllocationView, GrantedDevice, PreparedAllocation
from gpupool.mechanisms.passthrough import PassthroughMechanism
from gpupool.mechanisms.pci.fabric import TABLE
from gpupool.mechanisms.pci.handover import CardHandover
from gpupool.mechanisms.sriov import SriovMechanism
from gpupool.mechanisms.vgpu import VgpuMechanism
from gpupool.model.device import CardMode
from tests.support.handover_builders import (
    CARD,
    MEMORY,
    build_card_machine,
    make_device,
    make_view,
)
from tests.support.pci_kernel import (
    AMD,
    INTEL,
    FakeKernel,
    FunctionFacts,
    InlineRunner,
    build_tree,
)

Machine = tuple[FakeKernel, CardHandover, AllocationView]


def make_plain_card(root: Path) -> Machine:
    build_card_machine(root)
    kernel = FakeKernel(root)
    mechanism = PassthroughMechanism(root, InlineRunner(kernel))
    return kernel, mechanism, make_view(make_device())


#: Plays NVIDIA's Fabric Manager for one partition, which is in the file `active`.
FABRIC_PROGRAM = """#!/bin/sh
here="${0%/*}"
read active <"$here/active"
case "$1" in
-l) while read -r line; do echo "$line" | sed "s/ACTIVE/$active/"; done <"$here/table" ;;
-a) echo 1 >"$here/active" ;;
-d) echo 0 >"$here/active" ;;
esac
"""


def make_board(root: Path) -> Machine:
    """Two cards of an HGX board, which are a partition of its NVSwitch fabric."""
    other = "0000:43:00.0"
    build_tree(root, [FunctionFacts(CARD, 10), FunctionFacts(other, 11)])
    gpus = [
        {"physicalId": number, "pciBusId": f"0000{one}"} for number, one in ((1, CARD), (2, other))
    ]
    table = {"partitionInfo": [{"partitionId": 3, "isActive": 0, "gpuInfo": gpus}]}
    (root / TABLE).parent.mkdir(parents=True)
    (root / TABLE).write_text(json.dumps(table))
    folder = root / "usr/bin"
    folder.mkdir(parents=True)
    (folder / "fmpm").write_text(FABRIC_PROGRAM)
    (folder / "fmpm").chmod(0o755)
    (folder / "active").write_text("0\n")
    (folder / "table").write_text(
        json.dumps(table).replace('"isActive": 0', '"isActive": ACTIVE') + "\n"
    )
    kernel = FakeKernel(root)
    view = make_view(make_device(), make_device(other, "GPU-2"))
    return kernel, PassthroughMechanism(root, InlineRunner(kernel)), view


def make_xe_card(root: Path) -> Machine:
    """Intel's xe from kernel 6.19 on: quotas in `sriov_admin`."""
    numbers = {}
    for index in (1, 2):
        for name in ("vram_quota", "exec_quantum_ms", "preempt_timeout_us"):
            numbers[f"sriov_admin/vf{index}/profile/{name}"] = 0
    facts = FunctionFacts(CARD, 10, INTEL, own_driver="xe", total=7, numbers=numbers)
    kernel = _make_functions(root, facts)
    return kernel, SriovMechanism(root, InlineRunner(kernel)), make_part("intel", 300, 40 << 30)


def make_i915_card(root: Path) -> Machine:
    """Intel's i915 (out of tree): quotas in `prelim_iov`, for each tile."""
    numbers = {}
    for index in (1, 2):
        for tile in (0, 1):
            for name in ("lmem_quota", "exec_quantum_ms", "preempt_timeout_us"):
                numbers[f"drm/card0/prelim_iov/vf{index}/gt{tile}/{name}"] = 0
    facts = FunctionFacts(CARD, 10, INTEL, own_driver="i915", total=31, numbers=numbers)
    kernel = _make_functions(root, facts)
    return kernel, SriovMechanism(root, InlineRunner(kernel)), make_part("intel", 500, 20 << 30)


def make_gim_card(root: Path) -> Machine:
    """AMD's GIM: equal functions that exist from the load of the module on."""
    facts = FunctionFacts(CARD, 10, AMD, own_driver="gim", total=8)
    kernel = _make_functions(root, facts)
    return kernel, SriovMechanism(root, InlineRunner(kernel)), make_part("amd", 500, MEMORY // 2)


#: As a virtual function lists them (R580), heading first.
TYPES = """ID    : vGPU Name
1414 : NVIDIA H200X-1-18C
1420 : NVIDIA H200X-18C
1421 : NVIDIA H200X-35C
"""
#: As the directories of mediated devices describe them.
MEDIATED = {
    "nvidia-558": (
        "NVIDIA A40-8Q",
        "num_heads=4, frl_config=60, framebuffer=8192M, max_resolution=7680x4320, max_instance=6",
        6,
    ),
    "nvidia-559": (
        "NVIDIA A40-16Q",
        "num_heads=4, frl_config=60, framebuffer=16384M, max_resolution=7680x4320, max_instance=3",
        3,
    ),
}
GVT = {
    "i915-GVTg_V5_4": (
        "",
        "low_gm_size: 128MB\nhigh_gm_size: 512MB\nfence: 4\nresolution: 1920x1200\nweight: 4",
        2,
    )
}


def add_licence(root: Path) -> None:
    folder = root / "etc/gpupool/vgpu-licence"
    folder.mkdir(parents=True)
    (folder / "client_configuration_token_06-01.tok").write_text("token\n")


def set_scheduler(root: Path, policy: str) -> None:
    folder = root / "proc/driver/nvidia"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "params").write_text(f'RegistryDwords: "RmPVMRL={policy}"\n')


def make_vgpu_functions(root: Path) -> Machine:
    """NVIDIA's driver from R580 on kernel 6.8: a type for each virtual function."""
    facts = FunctionFacts(CARD, 10, total=16)
    build_tree(root, [facts])
    kernel = FakeKernel(root)
    entry = root / "sys/bus/pci/devices" / CARD
    (entry / "nvidia_types").write_text(TYPES)
    kernel.write(entry / "sriov_numvfs", "4")
    kernel.writes.clear()
    add_licence(root)
    set_scheduler(root, "0x00030011")
    return kernel, VgpuMechanism(root, InlineRunner(kernel)), make_typed("NVIDIA H200X-35C", 35)


def make_vgpu_mediated(root: Path) -> Machine:
    """NVIDIA's driver before kernel 6.8: mediated devices."""
    kernel = _make_mediated(root, FunctionFacts(CARD, 10, device=0x2235), MEDIATED)
    add_licence(root)
    return kernel, VgpuMechanism(root, InlineRunner(kernel)), make_typed("NVIDIA A40-8Q", 8)


def make_gvt_card(root: Path) -> Machine:
    """Old Intel graphics with `i915.enable_gvt=1`."""
    facts = FunctionFacts(CARD, 10, INTEL, 0x3E92, own_driver="i915")
    kernel = _make_mediated(root, facts, GVT)
    return kernel, VgpuMechanism(root, InlineRunner(kernel)), make_typed("i915-GVTg_V5_4", 1)


def make_typed(profile: str, gigabytes: int) -> AllocationView:
    device = make_device(mode=CardMode.VGPU)
    grant = GrantedDevice(device, 250, gigabytes << 30, profile=profile)
    return make_view(device, granted=(grant,))


def _make_mediated(
    root: Path, facts: FunctionFacts, types: Mapping[str, tuple[str, str, int]]
) -> FakeKernel:
    build_tree(root, [facts])
    for identifier, (name, description, available) in types.items():
        folder = root / "sys/class/mdev_bus" / facts.address / "mdev_supported_types" / identifier
        folder.mkdir(parents=True)
        if name:
            (folder / "name").write_text(f"{name}\n")
        (folder / "description").write_text(f"{description}\n")
        (folder / "available_instances").write_text(f"{available}\n")
        (folder / "create").write_text("")
    return FakeKernel(root)


def make_part(vendor: str, gpu_milli: int, memory_bytes: int) -> AllocationView:
    device = make_device(vendor=vendor, mode=CardMode.SRIOV)
    return make_view(device, granted=(GrantedDevice(device, gpu_milli, memory_bytes),))


def _make_functions(root: Path, facts: FunctionFacts) -> FakeKernel:
    build_tree(root, [facts])
    kernel = FakeKernel(root)
    entry = root / "sys/bus/pci/devices" / facts.address
    kernel.write(entry / "sriov_drivers_autoprobe", "0")
    kernel.write(entry / "sriov_numvfs", "2")
    kernel.writes.clear()
    return kernel


MACHINES: Mapping[str, Callable[[Path], Machine]] = {
    "passthrough": make_plain_card,
    "passthrough-board": make_board,
    "sriov-gim": make_gim_card,
    "sriov-i915": make_i915_card,
    "sriov-xe": make_xe_card,
    "vgpu-function": make_vgpu_functions,
    "vgpu-gvt": make_gvt_card,
    "vgpu-mediated": make_vgpu_mediated,
}


def spoil(kernel: FakeKernel, prepared: PreparedAllocation) -> None:
    """Change the hardware behind the mechanism's back."""
    for identifier in prepared.mediated_devices:
        kernel.write(kernel.root / "sys/bus/mdev/devices" / identifier / "remove", "1")
        return
    address = prepared.pci[0].address
    entry = kernel.root / "sys/bus/pci/devices" / address
    kind = entry / "nvidia/current_vgpu_type"
    if kind.exists():
        kernel.write(kind, "0")
    else:
        kernel.write(entry / "driver/unbind", address)


def remove_process(process: Path) -> None:
    shutil.rmtree(process)
