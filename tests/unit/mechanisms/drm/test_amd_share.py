"""A share of a recorded AMD host from the probe to what its job is started with, and back."""

from dataclasses import replace
from pathlib import Path

from gpupool.mechanisms.contract import (
    AllocationView,
    FenceLevel,
    GrantedDevice,
    PreparedAllocation,
)
from gpupool.mechanisms.preparation import (
    prepare_allocation,
    read_enforcement_levels,
    unprepare_allocation,
)
from gpupool.mechanisms.registry import choose_mechanism
from gpupool.mechanisms.share import CountedShare
from gpupool.mechanisms.whole import WholeCards
from tests.support.recorded_hosts import record_mi210, write
from tests.unit.mechanisms.drm.fake_cgroups import make_group


def test_kernel_and_rocm_hold_what_the_share_only_counts(tmp_path: Path) -> None:
    card = record_mi210(tmp_path / "host").scan().devices[0]
    group = make_group(tmp_path / "cgroup")
    region = f"drm/{card.pci_address}/vram"
    write(tmp_path / "cgroup/dmem.capacity", f"{region} {card.memory_bytes}")
    granted = (GrantedDevice(card, 500, 32 << 30),)
    view = AllocationView("pool", "al-1", 1, "job", "team", "fixed", granted, (card,))
    view = replace(view, cgroups=(str(group),))
    mechanism = choose_mechanism(view)
    assert isinstance(mechanism, CountedShare)
    prepared = prepare_allocation(mechanism, view, tmp_path / "state")
    assert isinstance(prepared, PreparedAllocation)
    assert prepared.env["HSA_CU_MASK"] == "0:0-51"
    assert (group / "dmem.max").read_text() == f"{region} {32 << 30}\n"
    levels = read_enforcement_levels(mechanism, "al-1", tmp_path / "state")
    assert prepared.levels == levels
    assert (levels.memory, levels.compute) == (FenceLevel.SOFT, FenceLevel.ADVISORY)
    assert levels.weakest is FenceLevel.ADVISORY
    unprepare_allocation(mechanism, "al-1", 1, tmp_path / "state")
    assert (group / "dmem.max").read_text() == f"{region} max\n"
    assert not (tmp_path / "state/prepared/al-1").exists()


def test_a_whole_card_needs_neither(tmp_path: Path) -> None:
    card = record_mi210(tmp_path / "host").scan().devices[0]
    granted = (GrantedDevice(card, 1000, card.memory_bytes),)
    view = AllocationView("pool", "al-1", 1, "job", "team", "fixed", granted, (card,))
    mechanism = choose_mechanism(view)
    assert isinstance(mechanism, WholeCards)
    prepared = prepare_allocation(mechanism, view, tmp_path / "state")
    assert isinstance(prepared, PreparedAllocation)
    assert "HSA_CU_MASK" not in prepared.env
    assert prepared.env["ROCR_VISIBLE_DEVICES"] == card.uuid
