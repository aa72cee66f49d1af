"""Compute partition modes on a recorded tree of an MI300X, whose kernel answers each write."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from gpupool.base.errors import RequestRejection, WrongState
from gpupool.mechanisms.card_modes import SWITCHES
from gpupool.mechanisms.compute_partitions import ComputePartitionSwitch, MemoryPartitionSwitch
from gpupool.mechanisms.pci.mode_switch import mark_modes
from gpupool.mechanisms.pci.partition_modes import set_compute_partition
from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.mechanisms.pci.tools import OperationFailure, OperationTools
from gpupool.model.device import (
    COMPUTE_PARTITION_MODES,
    MEMORY_PARTITION_MODES,
    RUNTIME_ID,
    CardMode,
    Device,
    ModeNeed,
)
from gpupool.probes.amd import AmdProbe
from tests.support.compute_partitions import ADDRESS, make_kernel
from tests.support.handover_builders import read_tree
from tests.support.pci_kernel import FakeKernel, InlineRunner


def scan(root: Path, state: Path) -> Device:
    (device,) = mark_modes(AmdProbe(root).scan().devices, state)
    return device


def make_switch(kernel: FakeKernel, mode: CardMode = CardMode.CPX) -> ComputePartitionSwitch:
    return ComputePartitionSwitch(mode, kernel.root, InlineRunner(kernel))


def read_mode(kernel: FakeKernel) -> str:
    entry = kernel.root / "sys/bus/pci/devices" / ADDRESS
    return (entry / "current_compute_partition").read_text().strip()


def test_the_probe_shows_the_agents_of_the_new_mode(tmp_path: Path) -> None:
    kernel = make_kernel(tmp_path / "root")
    plain = scan(kernel.root, tmp_path)
    before = read_tree(kernel.root)
    switch = make_switch(kernel)
    for _ in range(2):
        assert switch.enter(plain, tmp_path) is None
    cut = scan(kernel.root, tmp_path)
    assert (cut.uuid, cut.mode) == (plain.uuid, CardMode.CPX)
    assert cut.labels["compute-partition"] == "CPX"
    assert cut.labels[RUNTIME_ID] == "0,1,2,3,4,5,6,7"
    assert cut.memory_bytes == plain.memory_bytes, "it stays one card of the pool"
    for _ in range(2):
        assert switch.leave(cut, tmp_path) is None
    assert read_tree(kernel.root) == before
    assert scan(kernel.root, tmp_path) == plain
    assert list((tmp_path / "modes").iterdir()) == []


def test_leaving_puts_back_the_mode_that_an_operator_had_set(tmp_path: Path) -> None:
    kernel = make_kernel(tmp_path / "root", "DPX")
    device = scan(kernel.root, tmp_path)
    assert device.mode is CardMode.PLAIN
    switch = make_switch(kernel)
    switch.enter(device, tmp_path)
    assert read_mode(kernel) == "CPX"
    switch.leave(device, tmp_path)
    assert read_mode(kernel) == "DPX"


def test_a_program_on_any_card_is_a_refusal_that_changes_nothing(tmp_path: Path) -> None:
    kernel = make_kernel(tmp_path / "root")
    device = scan(kernel.root, tmp_path)
    folder = kernel.root / "proc/812"
    (folder / "fd").mkdir(parents=True)
    (folder / "comm").write_text("python\n")
    (folder / "fd/3").symlink_to(kernel.root / "dev/kfd")
    before = read_tree(kernel.root)
    offer = make_switch(kernel).describe_offer(device)
    assert offer is not None
    assert "another AMD card of the node is in use by python (pid 812)" in offer.blocked_by
    with pytest.raises(RequestRejection, match=r"python \(pid 812\)"):
        make_switch(kernel).enter(device, tmp_path)
    assert read_tree(kernel.root) == before
    # A program may come between the look and the change.
    tools = OperationTools(PciTree(kernel.root), kernel)
    with pytest.raises(OperationFailure, match=r"in use by python \(pid 812\)"):
        set_compute_partition(tools, ADDRESS, "CPX", [str(kernel.root / "dev/kfd")])
    assert read_tree(kernel.root) == before


def test_what_the_kernel_refuses_leaves_the_card_plain(tmp_path: Path) -> None:
    kernel = make_kernel(tmp_path / "root")
    device = scan(kernel.root, tmp_path)
    before = read_tree(kernel.root)
    kernel.refusal = errno.EBUSY
    with pytest.raises(WrongState, match=r"is plain again: .*resource busy"):
        make_switch(kernel).enter(device, tmp_path)
    kernel.refusal = 0
    kernel.is_deaf = True
    with pytest.raises(WrongState, match="is in mode SPX, expected CPX"):
        make_switch(kernel).enter(device, tmp_path)
    assert read_tree(kernel.root) == before
    assert scan(kernel.root, tmp_path).mode is CardMode.PLAIN


def test_a_mode_with_fewer_agents_than_memories_is_refused(tmp_path: Path) -> None:
    kernel = make_kernel(tmp_path / "root", "CPX", "NPS4")
    device = scan(kernel.root, tmp_path)
    offer = make_switch(kernel, CardMode.DPX).describe_offer(device)
    assert offer is not None
    assert offer.blocked_by == "its memory is in mode NPS4, which needs at least 4 agents"
    offer = make_switch(kernel, CardMode.QPX).describe_offer(device)
    assert offer is not None
    assert offer.blocked_by == ""


def test_modes_are_offered_as_the_card_lists_them(tmp_path: Path) -> None:
    kernel = make_kernel(tmp_path / "root")
    device = scan(kernel.root, tmp_path)
    offered = {}
    for mode in COMPUTE_PARTITION_MODES:
        offer = make_switch(kernel, mode).describe_offer(device)
        if offer is not None:
            offered[mode] = (offer.needs, offer.blocked_by)
    idle = (ModeNeed.IDLE_BOARD, "")
    assert offered == {CardMode.DPX: idle, CardMode.QPX: idle, CardMode.CPX: idle}
    steps = make_switch(kernel).list_steps(device)
    kfd = kernel.root / "dev/kfd"
    assert steps == (f"set-compute-partition CPX {ADDRESS} ['{kfd}']",)


def test_a_memory_mode_says_that_it_needs_a_reload(tmp_path: Path) -> None:
    kernel = make_kernel(tmp_path / "root")
    device = scan(kernel.root, tmp_path)
    before = read_tree(kernel.root)
    assert MemoryPartitionSwitch(CardMode.NPS8, kernel.root).describe_offer(device) is None
    switch = MemoryPartitionSwitch(CardMode.NPS4, kernel.root)
    offer = switch.describe_offer(device)
    assert offer is not None
    assert offer.needs is ModeNeed.RELOAD
    assert "needs a reload of amdgpu and changes for all cards" in offer.blocked_by
    assert switch.list_steps(device) == (f"not possible: {offer.blocked_by}",)
    with pytest.raises(RequestRejection, match="--memory-partition NPS4"):
        switch.enter(device, tmp_path)
    assert read_tree(kernel.root) == before


def test_every_mode_has_a_switch() -> None:
    for mode in (*COMPUTE_PARTITION_MODES, *MEMORY_PARTITION_MODES):
        assert SWITCHES[mode].mode is mode
