"""Virtual functions: quotas by driver, sizes, levels, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpupool.mechanisms.contract import FenceLevel, GrantedDevice, PreparedAllocation
from gpupool.mechanisms.sriov import SriovMechanism
from gpupool.mechanisms.sriov.quotas import plan_quotas
from gpupool.model.device import CardMode
from tests.support.handover_builders import CARD, MEMORY, make_device, make_view
from tests.support.handover_machines import (
    make_gim_card,
    make_i915_card,
    make_part,
    make_xe_card,
)
from tests.support.pci_kernel import INTEL, FakeKernel, FunctionFacts, InlineRunner, build_tree


def test_xe_gets_memory_and_time_before_the_vm_gets_the_function(tmp_path: Path) -> None:
    kernel, mechanism, view = make_xe_card(tmp_path / "root")
    prepared = mechanism.prepare(view, tmp_path)
    assert isinstance(prepared, PreparedAllocation)
    writes = [(one.path.name, one.text.strip()) for one in kernel.writes]
    assert writes == [
        ("vram_quota", str(40 << 30)),
        ("exec_quantum_ms", "30"),
        ("preempt_timeout_us", "60000"),
        ("driver_override", "vfio-pci"),
        ("drivers_probe", prepared.pci[0].address),
    ]
    assert prepared.levels is not None
    assert prepared.levels.write() == {
        "memory": "hard",
        "compute": "hard",
        "bandwidth": "none",
        "fault": "soft",
    }


def test_a_card_of_two_tiles_divides_memory_between_them(tmp_path: Path) -> None:
    kernel, mechanism, view = make_i915_card(tmp_path / "root")
    mechanism.prepare(view, tmp_path)
    quotas = [one for one in kernel.writes if one.path.name == "lmem_quota"]
    assert [int(one.text) for one in quotas] == [10 << 30, 10 << 30]


def test_quotas_in_debugfs_serve_where_sysfs_has_none(tmp_path: Path) -> None:
    facts = FunctionFacts(CARD, 10, INTEL, own_driver="xe", total=7)
    root = build_tree(tmp_path / "root", [facts])
    folder = root / "sys/kernel/debug/dri" / CARD / "gt0/vf2"
    folder.mkdir(parents=True)
    for name in ("lmem_quota", "exec_quantum_ms"):
        (folder / name).write_text("0\n")
    mechanism = SriovMechanism(root, InlineRunner(FakeKernel(root)))
    quotas = plan_quotas(mechanism.tree, CARD, 1, 8 << 30, 250)
    assert [(Path(one.path).name, one.value) for one in quotas] == [
        ("lmem_quota", 8 << 30),
        ("exec_quantum_ms", 25),
    ]


def test_gim_offers_one_equal_part_and_refuses_a_larger_one(tmp_path: Path) -> None:
    _, mechanism, view = make_gim_card(tmp_path / "root")
    (profile,) = mechanism.list_profiles(view.granted[0].device)
    assert (profile.name, profile.max_count, profile.memory_bytes) == ("vf-1of2", 2, MEMORY // 2)
    assert mechanism.explain_refusal(view) == ""
    larger = make_part("amd", 500, MEMORY // 2 + (1 << 30))
    assert "takes no quotas: each of its 2 virtual functions has" in mechanism.explain_refusal(
        larger
    )
    prepared = mechanism.prepare(view, tmp_path)
    assert isinstance(prepared, PreparedAllocation)
    assert prepared.levels is not None
    assert prepared.levels.compute is FenceLevel.SOFT


def test_an_unknown_part_is_refused(tmp_path: Path) -> None:
    _, mechanism, view = make_gim_card(tmp_path / "root")
    grant = replace(view.granted[0], profile="vf-1of8")
    reason = mechanism.explain_refusal(replace(view, granted=(grant,)))
    assert "cannot be cut into vf-1of8 now" in reason


def test_a_plain_card_is_never_divided_for_a_claim(tmp_path: Path) -> None:
    _, mechanism, _ = make_xe_card(tmp_path / "root")
    device = make_device(vendor="intel")
    view = make_view(device, granted=(GrantedDevice(device, 300, 8 << 30),))
    reason = mechanism.explain_refusal(view)
    assert reason == "GPU-1 is in mode plain: switch it with `gpupool mode GPU-1 sriov`"


def test_a_function_that_a_foreign_vm_has_open_is_not_chosen(tmp_path: Path) -> None:
    kernel, mechanism, view = make_xe_card(tmp_path / "root")
    first = mechanism.tree.list_virtual(CARD)[0]
    entry = kernel.root / "sys/bus/pci/devices" / first
    kernel.write(entry / "driver_override", "vfio-pci")
    kernel.write(kernel.root / "sys/bus/pci/drivers_probe", first)
    process = kernel.root / "proc/900"
    (process / "fd").mkdir(parents=True)
    (process / "comm").write_text("qemu\n")
    (process / "fd/5").symlink_to(mechanism.tree.list_group_nodes(first)[0])
    prepared = mechanism.prepare(view, tmp_path)
    assert isinstance(prepared, PreparedAllocation)
    assert prepared.pci[0].address == mechanism.tree.list_virtual(CARD)[1]


def test_two_cards_give_one_function_each(tmp_path: Path) -> None:
    other = "0000:3b:00.0"
    facts = [
        FunctionFacts(CARD, 10, own_driver="xe", vendor=INTEL, total=2),
        FunctionFacts(other, 30, own_driver="xe", vendor=INTEL, total=2),
    ]
    root = build_tree(tmp_path / "root", facts)
    kernel = FakeKernel(root)
    kernel.write(root / "sys/bus/pci/devices" / CARD / "sriov_drivers_autoprobe", "0")
    kernel.write(root / "sys/bus/pci/devices" / CARD / "sriov_numvfs", "1")
    mechanism = SriovMechanism(root, InlineRunner(kernel))
    devices = [
        make_device(one, f"GPU-{one}", vendor="intel", mode=CardMode.SRIOV) for one in (CARD, other)
    ]
    granted = tuple(GrantedDevice(one, 100, 1 << 30) for one in devices)
    reason = mechanism.explain_refusal(make_view(*devices, granted=granted))
    assert reason == f"all 0 virtual functions of GPU-{other} are in use"
