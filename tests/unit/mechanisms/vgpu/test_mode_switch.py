"""The switch of NVIDIA's cards to virtual GPUs, with the vendor's programs played by scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.base.errors import WrongState
from gpupool.mechanisms.vgpu import VgpuSwitch
from gpupool.model.device import CardMode
from tests.support.handover_builders import CARD, make_device, read_tree
from tests.support.handover_machines import TYPES, make_gvt_card
from tests.support.pci_kernel import FakeKernel, FunctionFacts, InlineRunner, build_tree

#: Plays a vendor's program: writes its arguments down.
PROGRAM = '#!/bin/sh\necho "$(basename "$0") $@" >>"$(dirname "$0")/calls"\n'


@pytest.fixture
def kernel(tmp_path: Path) -> FakeKernel:
    root = build_tree(tmp_path / "root", [FunctionFacts(CARD, 10, total=16)])
    (root / "sys/bus/pci/devices" / CARD / "nvidia_types").write_text(TYPES)
    return FakeKernel(root)


def install(kernel: FakeKernel, name: str) -> Path:
    folder = kernel.root / "usr/bin"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(PROGRAM)
    (folder / name).chmod(0o755)
    return folder / "calls"


def test_without_the_manager_there_is_no_offer(kernel: FakeKernel) -> None:
    switch = VgpuSwitch(kernel.root, InlineRunner(kernel))
    assert switch.describe_offer(make_device()) is None
    assert "install NVIDIA's vGPU manager" in switch.find_problem(make_device())


def test_mixed_sizes_are_set_after_the_functions_exist(kernel: FakeKernel, tmp_path: Path) -> None:
    install(kernel, "sriov-manage")
    calls = install(kernel, "nvidia-smi")
    switch = VgpuSwitch(kernel.root, InlineRunner(kernel))
    device = make_device(labels={"vgpu-sizes": "mixed"})
    assert switch.list_steps(device) == (
        f"enable-functions {CARD}",
        f"set-mixed-sizes {CARD} True",
    )
    # The functions appear while the switch waits for them.
    kernel.write(kernel.root / "sys/bus/pci/devices" / CARD / "sriov_numvfs", "4")
    device = make_device(labels={"vgpu-sizes": "mixed"})
    before = read_tree(kernel.root)
    assert switch.enter(device, tmp_path) is None
    assert switch.leave(device, tmp_path) is None
    assert calls.read_text().splitlines() == [
        f"nvidia-smi vgpu -i {CARD} -shm 1",
        f"nvidia-smi vgpu -i {CARD} -shm 0",
    ]
    calls.unlink()
    assert read_tree(kernel.root) == before


def test_the_vendor_s_program_makes_and_removes_the_functions(
    kernel: FakeKernel, tmp_path: Path
) -> None:
    calls = install(kernel, "sriov-manage")
    entry = (kernel.root / "sys/bus/pci/devices" / CARD).resolve()
    runner = InlineRunner(kernel)
    # What the program does to the kernel, while the operation looks again and again.
    looks = iter([lambda: kernel.write(entry / "sriov_numvfs", "4")])
    runner.pause = lambda _: next(looks, lambda: None)()
    switch = VgpuSwitch(kernel.root, runner)
    assert switch.enter(make_device(), tmp_path) is None
    virtual = switch.tree.list_virtual(CARD)
    assert len(virtual) == 4
    kind = switch.tree.locate(virtual[3]) / "nvidia/current_vgpu_type"
    kernel.write(kind, "1420")
    with pytest.raises(WrongState, match=f"{virtual[3]} is still a virtual GPU"):
        switch.leave(make_device(), tmp_path)
    kernel.write(kind, "0")
    assert switch.leave(make_device(), tmp_path) is None
    assert calls.read_text().splitlines() == [
        f"sriov-manage -e {CARD}",
        f"sriov-manage -d {CARD}",
    ]


def test_a_card_with_mediated_devices_needs_no_step(tmp_path: Path) -> None:
    kernel, _, view = make_gvt_card(tmp_path / "root")
    switch = VgpuSwitch(kernel.root, InlineRunner(kernel))
    device = make_device(vendor="intel")
    offer = switch.describe_offer(device)
    assert offer is not None
    assert (offer.mode, offer.blocked_by) == (CardMode.VGPU, "")
    assert switch.list_steps(view.granted[0].device) == ()
