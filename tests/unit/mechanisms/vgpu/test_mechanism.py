"""Virtual GPUs: types, sizes, licence, policy, and what is refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.errors import RequestRejection
from gpupool.mechanisms.contract import FenceLevel, PreparedAllocation
from gpupool.mechanisms.pci.handover import CardHandover
from gpupool.mechanisms.vgpu.driver_settings import VgpuScheduler, find_levels, read_scheduler
from gpupool.model.device import CardMode
from tests.support.handover_builders import CARD
from tests.support.handover_machines import (
    Machine,
    make_gvt_card,
    make_typed,
    make_vgpu_functions,
    make_vgpu_mediated,
    set_scheduler,
)


@pytest.fixture
def functions(tmp_path: Path) -> Machine:
    return make_vgpu_functions(tmp_path / "root")


def prepare(mechanism: CardHandover, state: Path, profile: str, size: int, name: str = "al-1"):  # type: ignore[no-untyped-def]
    view = replace(make_typed(profile, size), allocation=name)
    prepared = mechanism.prepare(view, state)
    assert isinstance(prepared, PreparedAllocation)
    return prepared


def test_a_function_gets_the_type_by_its_number_and_stays_on_its_driver(
    functions: Machine, tmp_path: Path
) -> None:
    kernel, mechanism, view = functions
    prepared = mechanism.prepare(view, tmp_path)
    assert isinstance(prepared, PreparedAllocation)
    assert [(one.path.name, one.text) for one in kernel.writes] == [("current_vgpu_type", "1421")]
    assert prepared.pci[0].driver == "nvidia"
    assert prepared.pci[0].address == mechanism.tree.list_virtual(CARD)[0]
    assert "licence: put client_configuration_token_06-01.tok" in prepared.notes[2]


def test_an_unknown_type_lists_those_that_can_be_made(functions: Machine) -> None:
    _, mechanism, _ = functions
    reason = mechanism.explain_refusal(make_typed("NVIDIA A40-8Q", 8))
    assert reason == (
        "GPU-1 cannot have NVIDIA A40-8Q; it can have H200X-1-18C (4), H200X-18C (4), H200X-35C (4)"
    )
    without = mechanism.explain_refusal(make_typed("", 8))
    assert "cannot have a virtual GPU without a type" in without


def test_without_a_licence_the_folder_is_named(functions: Machine) -> None:
    kernel, mechanism, view = functions
    shutil.rmtree(kernel.root / "etc/gpupool")
    reason = mechanism.explain_refusal(view)
    assert "no licence: /etc/gpupool/vgpu-licence has no token for the guest" in reason


def test_a_card_takes_one_size_only_unless_it_is_set_to_mixed(
    functions: Machine, tmp_path: Path
) -> None:
    _, mechanism, _ = functions
    prepare(mechanism, tmp_path, "H200X-35C", 35)
    other = make_typed("H200X-18C", 18)
    reason = mechanism.explain_refusal(other)
    assert reason == "GPU-1 cannot have H200X-18C; it can have H200X-35C (3)"


def test_the_fourth_is_the_last(functions: Machine, tmp_path: Path) -> None:
    _, mechanism, _ = functions
    for number in range(4):
        prepare(mechanism, tmp_path, "H200X-35C", 35, f"al-{number}")
    with pytest.raises(RequestRejection, match="has no H200X-35C left"):
        prepare(mechanism, tmp_path, "H200X-35C", 35, "al-9")
    mechanism.unprepare("al-2", 5, tmp_path)
    again = prepare(mechanism, tmp_path, "H200X-35C", 35, "al-9")
    assert again.pci[0].address == mechanism.tree.list_virtual(CARD)[2]


def test_another_type_on_the_function_is_of_another_owner_and_stays(
    functions: Machine, tmp_path: Path
) -> None:
    kernel, mechanism, view = functions
    mechanism.prepare(view, tmp_path)
    kind = (
        kernel.root
        / "sys/bus/pci/devices"
        / mechanism.tree.list_virtual(CARD)[0]
        / "nvidia/current_vgpu_type"
    )
    kernel.write(kind, "0")
    kernel.write(kind, "1420")
    mechanism.unprepare("al-1", 5, tmp_path)
    assert kind.read_text() == "1420\n"
    assert mechanism.observe(tmp_path) == {}


def test_mixed_sizes_round_down_to_powers_of_two(functions: Machine) -> None:
    _, mechanism, view = functions
    device = view.granted[0].device
    counts = {one.name: one.max_count for one in mechanism.list_profiles(device)}
    assert counts["H200X-35C"] == 4
    mixed = replace(device, memory_bytes=110 << 30, labels={"vgpu-sizes": "mixed"})
    counts = {one.name: one.max_count for one in mechanism.list_profiles(mixed)}
    assert counts["H200X-35C"] == 2, "three fit, and two are the power below"


def test_a_mediated_device_has_an_id_of_its_allocation_and_card(tmp_path: Path) -> None:
    kernel, mechanism, _ = make_vgpu_mediated(tmp_path / "root")
    first = prepare(mechanism, tmp_path, "A40-8Q", 8)
    second = prepare(mechanism, tmp_path, "A40-8Q", 8, "al-2")
    assert first.mediated_devices != second.mediated_devices
    assert first.allow_nodes[-1] == str(kernel.root / "dev/vfio/60")
    assert first.pci == ()
    (eight, sixteen) = sorted(
        mechanism.list_profiles(make_typed("", 1).granted[0].device),
        key=lambda one: one.memory_bytes,
    )
    assert (eight.max_count, sixteen.max_count) == (6, 3)


def test_gvt_needs_no_licence_and_says_that_its_life_has_ended(tmp_path: Path) -> None:
    _, mechanism, view = make_gvt_card(tmp_path / "root")
    prepared = mechanism.prepare(view, tmp_path)
    assert isinstance(prepared, PreparedAllocation)
    assert any("has reached its end of life" in note for note in prepared.notes)
    (profile,) = mechanism.list_profiles(view.granted[0].device)
    assert profile.memory_bytes == 640 << 20


@pytest.mark.parametrize(
    ("value", "policy", "compute"),
    [
        ("0x00", VgpuScheduler.BEST_EFFORT, FenceLevel.NONE),
        ("0x01", VgpuScheduler.EQUAL_SHARE, FenceLevel.HARD),
        ("0x00030011", VgpuScheduler.FIXED_SHARE, FenceLevel.HARD),
    ],
)
def test_the_level_of_compute_follows_the_driver_s_policy(
    tmp_path: Path, value: str, policy: VgpuScheduler, compute: FenceLevel
) -> None:
    set_scheduler(tmp_path, value)
    assert read_scheduler(tmp_path) is policy
    assert find_levels(mig=False, gvt=False, scheduler=policy).compute is compute


def test_without_a_setting_the_driver_does_its_best(tmp_path: Path) -> None:
    assert read_scheduler(tmp_path) is VgpuScheduler.BEST_EFFORT
    hard = find_levels(mig=True, gvt=False, scheduler=VgpuScheduler.BEST_EFFORT)
    assert set(hard.write().values()) == {"hard"}


def test_a_card_in_another_mode_is_refused(functions: Machine) -> None:
    _, mechanism, view = functions
    device = replace(view.granted[0].device, mode=CardMode.SRIOV)
    grant = replace(view.granted[0], device=device)
    reason = mechanism.explain_refusal(replace(view, granted=(grant,)))
    assert reason == "GPU-1 is in mode sriov, not vgpu"
