"""When the driver's memory limits are added to a share, what they are, and what they claim."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.errors import ProbeSuspended, RequestRejection
from gpupool.mechanisms.contract import (
    AllocationView,
    FenceLevel,
    GrantedDevice,
    HostKind,
    JobSeat,
    PreparationStep,
    PreparedAllocation,
)
from gpupool.mechanisms.layers.memgroup import DriverMemoryLimits, compute_hard_bytes
from gpupool.model.device import CardMode, Device
from gpupool.probes.memory_limits import NO_LIMIT, MemoryLimit
from gpupool.probes.simulated import parse_sim
from tests.support.scripted_limits import ScriptedDriver

GIB = 1 << 30
MIB = 1 << 20
CARD: Device = replace(
    parse_sim("1xL40S")[0].devices[0], simulated=False, driver_version="615.71.09"
)
GRANT = GrantedDevice(CARD, 300, 8 * GIB, context_bytes=400 * MIB)
HARD = 8 * GIB + 400 * MIB


@pytest.fixture
def driver() -> ScriptedDriver:
    return ScriptedDriver()


@pytest.fixture
def layer(driver: ScriptedDriver) -> DriverMemoryLimits:
    return DriverMemoryLimits(lambda _: driver, lambda: 0)


@pytest.fixture
def view(tmp_path: Path) -> AllocationView:
    root = tmp_path / "v2"
    root.mkdir()
    (root / "cgroup.controllers").write_text("memory")
    return AllocationView(
        pool="pool",
        allocation="al-1",
        generation=5,
        job="job-1",
        tenant="team",
        sharing="fixed",
        granted=(GRANT,),
        node_devices=(CARD,),
        cgroups=(str(root / "gpupool-p/job-1"),),
    )


def prepare(layer: DriverMemoryLimits, view: AllocationView, state_dir: Path) -> PreparedAllocation:
    bare = PreparedAllocation({}, (), (), state_dir / "share", FenceLevel.SOFT, ("fence: soft",))
    return layer.prepare(view, bare, state_dir)


def group_of(view: AllocationView) -> Path:
    return Path(view.cgroups[0])


# --- when ---


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"fence": False}, "the job asked for no fence"),
        ({"host": HostKind.VM}, "a VM has the card"),
        ({"cgroups": ()}, "the job has no cgroup of its own"),
        ({"seat": JobSeat(own_pool=True)}, "the agent is not root"),
        ({"granted": (replace(GRANT, memory_bytes=CARD.memory_bytes),)}, "the job has all memory"),
        ({"granted": (replace(GRANT, profile="1g.10gb"),)}, "MIG mode"),
        ({"granted": (replace(GRANT, device=replace(CARD, partitioned=True)),)}, "MIG mode"),
        ({"granted": (replace(GRANT, device=replace(CARD, mode=CardMode.MIG)),)}, "MIG mode"),
        ({"granted": (replace(GRANT, device=replace(CARD, vendor="amd")),)}, "cards of amd"),
    ],
)
def test_it_says_why_it_adds_nothing(
    layer: DriverMemoryLimits,
    view: AllocationView,
    tmp_path: Path,
    change: dict[str, object],
    reason: str,
) -> None:
    assert layer.explain_absence(view) == ""
    absent = replace(view, **change)  # type: ignore[arg-type]
    assert reason in layer.explain_absence(absent)
    with pytest.raises(RequestRejection, match="adds nothing to allocation al-1"):
        prepare(layer, absent, tmp_path)
    assert not (tmp_path / "prepared").exists()


def test_a_job_with_one_whole_card_of_two_has_a_limit(
    layer: DriverMemoryLimits, view: AllocationView
) -> None:
    whole = replace(GRANT, memory_bytes=CARD.memory_bytes)
    assert layer.explain_absence(replace(view, granted=(whole, GRANT))) == ""


def test_a_container_has_a_limit_on_real_cards_alone(
    layer: DriverMemoryLimits, view: AllocationView, tmp_path: Path
) -> None:
    container = replace(view, host=HostKind.CONTAINER, seat=JobSeat(container=True))
    assert layer.explain_absence(container) == ""
    assert "a container's process" in layer.explain_absence(replace(container, machine=tmp_path))


def test_an_agent_that_is_not_root_adds_nothing(
    driver: ScriptedDriver, view: AllocationView
) -> None:
    layer = DriverMemoryLimits(lambda _: driver, lambda: 1000)
    assert "not root" in layer.explain_absence(view)


def test_a_driver_without_the_call_is_the_reason(
    layer: DriverMemoryLimits, driver: ScriptedDriver, view: AllocationView
) -> None:
    driver.absence = "the driver is older than R615 (version 580.65.06)"
    assert layer.explain_absence(view) == driver.absence


def test_a_host_with_a_version_1_hierarchy_is_refused_for_real_cards_alone(
    layer: DriverMemoryLimits, view: AllocationView, tmp_path: Path
) -> None:
    older = tmp_path / "v1"
    older.mkdir()
    hybrid = replace(view, cgroups=(*view.cgroups, str(older / "gpupool-p/job-1")))
    assert layer.explain_absence(hybrid).startswith("cgroup v1: ")
    assert layer.explain_absence(replace(hybrid, machine=tmp_path)) == ""


# --- what ---


def test_the_limit_is_the_share_and_one_context(
    layer: DriverMemoryLimits, driver: ScriptedDriver, view: AllocationView, tmp_path: Path
) -> None:
    prepared = prepare(layer, view, tmp_path)
    assert driver.limits == {(CARD.uuid, group_of(view)): MemoryLimit(0, HARD)}
    assert prepared.enforcement.memory is FenceLevel.HARD
    assert prepared.enforcement.compute is FenceLevel.SOFT
    assert prepared.fence is FenceLevel.SOFT
    assert prepared.notes == (
        "fence: soft",
        "memory: hard, the driver holds it by cgroup (not managed memory)",
    )
    assert layer.explain_level("al-1", tmp_path) == prepared.notes[-1]


def test_a_limit_is_never_above_the_card(tmp_path: Path) -> None:
    nearly = replace(GRANT, memory_bytes=CARD.memory_bytes - MIB)
    assert compute_hard_bytes(nearly, tmp_path) == CARD.memory_bytes


def test_a_context_that_was_not_measured_is_estimated(tmp_path: Path) -> None:
    assert compute_hard_bytes(replace(GRANT, context_bytes=None), tmp_path) > 8 * GIB


def test_a_limit_of_a_simulated_driver_says_so(
    layer: DriverMemoryLimits, view: AllocationView, tmp_path: Path
) -> None:
    prepare(layer, replace(view, machine=tmp_path), tmp_path)
    assert "SIMULATED" in layer.explain_level("al-1", tmp_path)


def test_a_limit_that_the_driver_rounds_down_still_holds(
    layer: DriverMemoryLimits, driver: ScriptedDriver, view: AllocationView, tmp_path: Path
) -> None:
    prepare(layer, view, tmp_path)
    driver.limits[CARD.uuid, group_of(view)] = MemoryLimit(0, HARD - 4096)
    assert layer.observe(tmp_path)["al-1"].problem == ""


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ({"refusal": "Not Supported"}, "Not Supported"),
        ({"lowest": HARD + 1}, f"is {HARD // MIB} MiB, not {HARD // MIB} MiB"),
        ({"lowest": NO_LIMIT}, f"is none, not {HARD // MIB} MiB"),
        ({"unreadable": True}, "cannot be read"),
    ],
)
def test_a_limit_that_is_not_in_force_claims_nothing(
    view: AllocationView, tmp_path: Path, script: dict[str, object], problem: str
) -> None:
    layer = DriverMemoryLimits(lambda _: ScriptedDriver(**script), lambda: 0)  # type: ignore[arg-type]
    prepared = prepare(layer, view, tmp_path)
    assert prepared.enforcement.memory is FenceLevel.SOFT
    assert problem in prepared.notes[-1]
    assert layer.read_enforcement("al-1", prepared.enforcement, tmp_path).memory is FenceLevel.SOFT
    assert problem in layer.observe(tmp_path)["al-1"].problem


def test_a_cgroup_that_cannot_be_made_claims_nothing(
    layer: DriverMemoryLimits, view: AllocationView, tmp_path: Path
) -> None:
    group_of(view).parent.write_text("a file in its place")
    prepared = prepare(layer, view, tmp_path)
    assert prepared.enforcement.memory is FenceLevel.SOFT
    assert "cannot be made" in prepared.notes[-1]
    layer.unprepare("al-1", 5, tmp_path)


def test_a_limit_that_was_changed_or_lost_is_observed(
    layer: DriverMemoryLimits, driver: ScriptedDriver, view: AllocationView, tmp_path: Path
) -> None:
    prepare(layer, view, tmp_path)
    state = layer.observe(tmp_path)["al-1"]
    assert (state.generation, state.step, state.problem) == (5, PreparationStep.PREPARED, "")
    driver.limits.clear()
    assert "is none, not" in layer.observe(tmp_path)["al-1"].problem
    group_of(view).rmdir()
    assert "cannot be read" in layer.observe(tmp_path)["al-1"].problem


# --- undoing ---


def test_a_cgroup_with_limits_from_before_gets_them_back(
    layer: DriverMemoryLimits, driver: ScriptedDriver, view: AllocationView, tmp_path: Path
) -> None:
    group = group_of(view)
    group.mkdir(parents=True)
    (group.parent / "cgroup.controllers").touch()
    driver.limits[CARD.uuid, group] = MemoryLimit(GIB, 20 * GIB)
    prepare(layer, view, tmp_path)
    prepare(layer, view, tmp_path)
    layer.unprepare("al-1", 5, tmp_path)
    assert driver.limits == {(CARD.uuid, group): MemoryLimit(GIB, 20 * GIB)}
    assert group.is_dir()


def test_a_cgroup_that_the_supervisor_removed_is_no_error(
    layer: DriverMemoryLimits, driver: ScriptedDriver, view: AllocationView, tmp_path: Path
) -> None:
    prepare(layer, view, tmp_path)
    group_of(view).rmdir()
    layer.unprepare("al-1", 5, tmp_path)
    assert driver.limits == {}
    assert layer.observe(tmp_path) == {}


def test_a_limit_that_cannot_be_restored_is_logged_and_keeps_no_card(
    layer: DriverMemoryLimits,
    driver: ScriptedDriver,
    view: AllocationView,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    group = group_of(view)
    group.mkdir(parents=True)
    (group.parent / "cgroup.controllers").touch()
    driver.limits[CARD.uuid, group] = MemoryLimit(GIB, 20 * GIB)
    prepare(layer, view, tmp_path)
    driver.refusal = "GPU is lost"
    layer.unprepare("al-1", 5, tmp_path)
    assert layer.observe(tmp_path) == {}
    assert "allocation al-1: its memory limit stays: GPU is lost" in caplog.text


def test_another_size_is_another_limit(
    layer: DriverMemoryLimits, driver: ScriptedDriver, view: AllocationView, tmp_path: Path
) -> None:
    prepare(layer, view, tmp_path)
    smaller = replace(GRANT, memory_bytes=2 * GIB)
    layer.resize(replace(view, generation=6, granted=(smaller,)), tmp_path)
    assert driver.limits[CARD.uuid, group_of(view)].hard_bytes == 2 * GIB + 400 * MIB
    assert layer.observe(tmp_path)["al-1"].generation == 6


@pytest.mark.parametrize("version", ["580.95.05", "535.261.03"])
def test_a_driver_older_than_its_limits_is_named(
    layer: DriverMemoryLimits, view: AllocationView, version: str
) -> None:
    old = replace(GRANT, device=replace(CARD, driver_version=version))
    reason = layer.explain_absence(replace(view, granted=(old,)))
    assert reason == f"driver {version} has no limits by cgroup; R615 has"


# --- containers whose runtime makes the cgroup ---


def test_container_that_starts_again_has_the_limit_on_its_new_cgroup(
    layer: DriverMemoryLimits, driver: ScriptedDriver, view: AllocationView, tmp_path: Path
) -> None:
    first = group_of(view)
    second = first.with_name("second")
    for group in (first, second):
        group.mkdir(parents=True)
    (first.parent / "cgroup.controllers").write_text("memory")
    driver.used[CARD.uuid, first] = 3 * GIB
    for _ in range(2):
        assert layer.limit_container(view, tmp_path) == ""
    assert layer.read_used(view.allocation, tmp_path) == {CARD.uuid: 3 * GIB}
    assert layer.limit_container(replace(view, cgroups=(str(second),)), tmp_path) == ""
    assert driver.limits == {(CARD.uuid, second): MemoryLimit(0, HARD)}
    assert layer.read_used(view.allocation, tmp_path) == {CARD.uuid: 0}
    layer.unprepare(view.allocation, view.generation, tmp_path)
    assert driver.limits == {}
    assert second.is_dir(), "the runtime removes what it made"
    assert layer.read_used(view.allocation, tmp_path) == {}


def test_container_whose_limit_is_refused_is_told_why(
    layer: DriverMemoryLimits, driver: ScriptedDriver, view: AllocationView, tmp_path: Path
) -> None:
    driver.refusal = "the driver says no"
    assert layer.limit_container(view, tmp_path) == "the driver says no"


def test_use_is_unknown_while_a_step_needs_the_driver_closed(
    layer: DriverMemoryLimits,
    driver: ScriptedDriver,
    view: AllocationView,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepare(layer, view, tmp_path)
    assert layer.read_used(view.allocation, tmp_path) == {CARD.uuid: 0}

    def is_closed(_uuid: str, _group: Path) -> None:
        raise ProbeSuspended("card 1 is reset")

    monkeypatch.setattr(driver, "read_limit", is_closed)
    assert layer.read_used(view.allocation, tmp_path) == {}
