"""The kernel's limit of a share's memory, on a cgroup hierarchy in plain files."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import RequestRejection, StaleGeneration
from gpupool.mechanisms.contract import AllocationView, EnforcementLevels, FenceLevel
from gpupool.mechanisms.drm import DeviceMemoryLimit, dmem
from gpupool.mechanisms.layers.layer_notes import LayerNoteBook
from tests.unit.mechanisms.drm.fake_cgroups import (
    CARD,
    CARDS,
    REGIONS,
    make_group,
    make_view,
    prepare_share,
)

LAYER = DeviceMemoryLimit()
NOTHING = EnforcementLevels()


@pytest.fixture
def group(tmp_path: Path) -> Path:
    return make_group(tmp_path / "cgroup")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def apply(view: AllocationView, state: Path) -> Any:
    return LAYER.prepare(view, prepare_share(view, state), state)


def test_a_share_has_its_memory_as_limit_of_its_own_card(group: Path, state: Path) -> None:
    prepared = apply(make_view(group), state)
    assert dmem.read_limits(group) == {REGIONS[0]: str(16 << 30)}
    assert prepared.levels == EnforcementLevels(memory=FenceLevel.SOFT)
    assert prepared.notes[-1] == "memory: the kernel limits it (dmem)"
    assert LAYER.read_enforcement("al-1", NOTHING, state).memory is FenceLevel.SOFT


def test_preparing_twice_is_preparing_once(group: Path, state: Path) -> None:
    first = apply(make_view(group, cards=CARDS), state)
    assert apply(make_view(group, cards=CARDS), state) == first
    LAYER.unprepare("al-1", 1, state)
    assert dmem.read_limits(group) == dict.fromkeys(REGIONS, "max")


def test_what_was_there_before_comes_back(group: Path, state: Path) -> None:
    dmem.write_limits(group, {REGIONS[0]: "1048576"})
    apply(make_view(group), state)
    LAYER.unprepare("al-1", 1, state)
    assert dmem.read_limits(group) == {REGIONS[0]: "1048576"}
    LAYER.unprepare("al-1", 1, state)
    assert LayerNoteBook(state, "dmem").find_note("al-1") is None


def test_a_limit_that_another_wrote_is_left(group: Path, state: Path) -> None:
    apply(make_view(group), state)
    dmem.write_limits(group, {REGIONS[0]: "4096"})
    assert LAYER.read_enforcement("al-1", NOTHING, state) == NOTHING
    LAYER.unprepare("al-1", 1, state)
    assert dmem.read_limits(group) == {REGIONS[0]: "4096"}


def test_a_group_that_went_with_its_job_needs_no_undoing(group: Path, state: Path) -> None:
    apply(make_view(group), state)
    shutil.rmtree(group)
    assert LAYER.read_enforcement("al-1", NOTHING, state) == NOTHING
    LAYER.unprepare("al-1", 1, state)
    assert not group.exists()


def test_an_older_generation_changes_nothing(group: Path, state: Path) -> None:
    apply(make_view(group, generation=2), state)
    with pytest.raises(StaleGeneration):
        LAYER.unprepare("al-1", 1, state)
    with pytest.raises(StaleGeneration):
        LAYER.resize(make_view(group, generation=1), state)
    assert dmem.read_limits(group) == {REGIONS[0]: str(16 << 30)}


def test_other_sizes_reach_the_running_job(group: Path, state: Path) -> None:
    view = make_view(group)
    LAYER.resize(view, state)
    assert dmem.read_limits(group)[REGIONS[0]] == "max"
    apply(view, state)
    larger = replace(view.granted[0], memory_bytes=24 << 30)
    LAYER.resize(replace(view, granted=(larger,), generation=2), state)
    assert dmem.read_limits(group) == {REGIONS[0]: str(24 << 30)}
    LAYER.unprepare("al-1", 2, state)
    assert dmem.read_limits(group) == {REGIONS[0]: "max"}


def test_a_limit_that_the_kernel_does_not_take_is_refused(
    group: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # page_counter_set_max refuses what is less than is in use, and the write succeeds all the same.
    monkeypatch.setattr(dmem, "write_limits", lambda group, limits: None)
    with pytest.raises(RequestRejection, match="got max, expected 17179869184"):
        apply(make_view(group), state)


def test_a_controller_that_cannot_be_passed_on_leaves_the_share_counted(
    group: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(group: Path) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(dmem, "enable_controller", refuse)
    prepared = apply(make_view(group), state)
    assert prepared.notes[-1] == (
        "memory: the kernel does not limit it (dmem: Device or resource busy)"
    )
    assert prepared.levels is None
    assert LayerNoteBook(state, "dmem").find_note("al-1") is None


def drop_card(view: AllocationView) -> AllocationView:
    return replace(view, granted=())


def use_nvidia(view: AllocationView) -> AllocationView:
    return replace(view, granted=(replace(view.granted[0], device=replace(CARD, vendor="nvidia")),))


def take_whole(view: AllocationView) -> AllocationView:
    whole = replace(view.granted[0], gpu_milli=1000, memory_bytes=CARD.memory_bytes)
    return replace(view, granted=(whole,))


def use_simulated(view: AllocationView) -> AllocationView:
    return replace(view, granted=(replace(view.granted[0], device=replace(CARD, simulated=True)),))


def drop_fence(view: AllocationView) -> AllocationView:
    return replace(view, fence=False)


def drop_groups(view: AllocationView) -> AllocationView:
    return replace(view, cgroups=())


def use_other_card(view: AllocationView) -> AllocationView:
    other = replace(CARD, pci_address="0000:99:00.0")
    return replace(view, granted=(replace(view.granted[0], device=other),))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (drop_card, "it has no share of an AMD or Intel card"),
        (use_nvidia, "it has no share of an AMD or Intel card"),
        (take_whole, "it has no share of an AMD or Intel card"),
        (use_simulated, "it has no share of an AMD or Intel card"),
        (drop_fence, "the job asked for no fence"),
        (drop_groups, "the job has no cgroup of its own"),
        (use_other_card, "the kernel limits no memory of 0000:99:00.0"),
    ],
)
def test_an_allocation_that_it_does_not_serve_says_why(
    group: Path, state: Path, change: Callable[[AllocationView], AllocationView], reason: str
) -> None:
    view = change(make_view(group))
    assert LAYER.explain_absence(view) == reason
    prepared = prepare_share(make_view(group), state)
    assert LAYER.prepare(view, prepared, state) is prepared
    assert dmem.read_limits(group) == dict.fromkeys(REGIONS, "max")


@pytest.mark.parametrize("missing", ["dmem.capacity", "pool/cgroup.controllers"])
def test_a_kernel_without_the_controller_says_so(group: Path, tmp_path: Path, missing: str) -> None:
    (tmp_path / "cgroup" / missing).unlink()
    assert LAYER.explain_absence(make_view(group)) == (
        "its cgroups cannot have the controller dmem (cgroup v2, Linux 6.14)"
    )
