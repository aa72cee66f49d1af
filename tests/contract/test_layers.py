"""What every layer must keep, run on every layer of the registry.

Each runs on what a mechanism has prepared, by the functions of `preparation`. Crashes are real: the
call runs in a forked child which is ended, without any clean-up, at its n-th change to the file
system, for every n there is. Cgroups are real ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from gpupool.base.errors import StaleGeneration
from gpupool.mechanisms.contract import (
    AllocationView,
    EnforcementLevels,
    FenceLevel,
    GrantedDevice,
    JobSeat,
    Layer,
    PreparedAllocation,
)
from gpupool.mechanisms.driver.driver_files import find_simulated_libraries, find_templates
from gpupool.mechanisms.preparation import (
    prepare_allocation,
    read_enforcement_levels,
    resize_allocation,
    unprepare_allocation,
)
from gpupool.mechanisms.registry import LAYERS, choose_mechanism
from gpupool.probes.simgpu import create_machine
from gpupool.probes.simulated import parse_sim
from tests.contract.test_mechanisms import crash_at, left, tree
from tests.support.job_cgroups import open_pool_group

MACHINE = parse_sim("4xL40S")[0]


@pytest.fixture(scope="module", autouse=True)
def pool() -> Iterator[Path]:
    with open_pool_group() as group:
        yield group


#: The others add nothing to simulated cards: the suites of `dmem` and `cu-mask`, of AMD and Intel, are
#: in `tests/unit/mechanisms/drm`, that of `timeslice` in `tests/unit/mechanisms/timeslice`.
OF_ALLOCATIONS = [layer for layer in LAYERS if layer.name == "memgroup"]


@pytest.fixture(params=OF_ALLOCATIONS, ids=lambda layer: str(layer.name))
def layer(request: pytest.FixtureRequest) -> Layer:
    if find_templates() is None or find_simulated_libraries() is None:
        pytest.skip("gpupool-native is installed without its fence libraries")
    found: Layer = request.param
    return found


@pytest.fixture
def cards(tmp_path: Path) -> Path:
    """The directory of the simulated cards' file; a state directory lies beside it."""
    create_machine(tmp_path / "cards/machine", MACHINE)
    return tmp_path / "cards"


@pytest.fixture
def view(layer: Layer, cards: Path, pool: Path) -> Iterator[AllocationView]:
    """An allocation to which this layer adds something."""
    found = make_view(cards, pool)
    assert layer.explain_absence(found) == ""
    yield found
    start_over(found)


def make_view(cards: Path, pool: Path, job: str = "job-1") -> AllocationView:
    devices = tuple(replace(one, driver_version="615.71.09") for one in MACHINE.devices)
    return AllocationView(
        pool="pool",
        allocation="al-1",
        generation=5,
        job=job,
        tenant="team",
        sharing="fixed",
        granted=(GrantedDevice(devices[1], 300, 8 << 30), GrantedDevice(devices[2], 300, 4 << 30)),
        node_devices=devices,
        seat=JobSeat(uid=os.getuid(), gid=os.getgid()),
        machine=cards,
        cgroups=(str(pool / job),),
    )


def resized(view: AllocationView) -> AllocationView:
    """The same allocation, later, with another size."""
    granted = tuple(replace(one, memory_bytes=3 << 30) for one in view.granted)
    return replace(view, generation=view.generation + 1, granted=granted)


def prepare(view: AllocationView, state_dir: Path) -> PreparedAllocation:
    prepared = prepare_allocation(choose_mechanism(view), view, state_dir)
    assert isinstance(prepared, PreparedAllocation)
    return prepared


def unprepare(view: AllocationView, state_dir: Path, generation: int = 5) -> None:
    mechanism = choose_mechanism(view)
    unprepare_allocation(mechanism, view.allocation, generation, state_dir)


def read_levels(view: AllocationView, state_dir: Path) -> EnforcementLevels:
    return read_enforcement_levels(choose_mechanism(view), view.allocation, state_dir)


def world(view: AllocationView, state_dir: Path) -> dict[str, object]:
    """All that a layer can leave: its files, the job's cgroups, the file of the cards' limits."""
    assert view.machine is not None
    limits = view.machine / "machine.limits"
    found: dict[str, object] = dict(tree(state_dir))
    found["limits"] = limits.read_text() if limits.exists() else "gpupool memory limits 1\n"
    found["cgroups"] = [group for group in view.cgroups if Path(group).is_dir()]
    return found


def start_over(view: AllocationView) -> None:
    """Put cards and cgroups back to how they were before any call."""
    assert view.machine is not None
    (view.machine / "machine.limits").unlink(missing_ok=True)
    for group in view.cgroups:
        if Path(group).is_dir():
            os.rmdir(group)


def test_preparing_twice_is_preparing_once(view: AllocationView, tmp_path: Path) -> None:
    first = prepare(view, tmp_path / "state")
    before = world(view, tmp_path / "state")
    assert prepare(view, tmp_path / "state") == first
    assert world(view, tmp_path / "state") == before


def test_a_layer_keeps_what_the_mechanism_prepared(
    layer: Layer, view: AllocationView, tmp_path: Path
) -> None:
    state_dir = tmp_path / "state"
    prepared = prepare_bare(view, state_dir)
    added = layer.prepare(view, prepared, state_dir)
    assert isinstance(added, PreparedAllocation)
    assert added.notes[: len(prepared.notes)] == prepared.notes
    assert set(prepared.mounts) <= set(added.mounts)
    assert prepared.env.items() <= added.env.items()
    assert (added.share_dir, added.fence) == (prepared.share_dir, prepared.fence)


def test_the_levels_are_those_of_the_preparation_and_never_lower(
    view: AllocationView, tmp_path: Path
) -> None:
    prepared = prepare(view, tmp_path / "state")
    levels = read_levels(view, tmp_path / "state")
    assert levels == prepared.enforcement
    bare = choose_mechanism(view).read_levels("al-1", tmp_path / "state")
    for dimension in ("memory", "compute", "bandwidth", "fault"):
        one: FenceLevel = getattr(levels, dimension)
        other: FenceLevel = getattr(bare, dimension)
        assert one.rank >= other.rank


def test_a_layer_that_was_not_added_changes_nothing(
    layer: Layer, view: AllocationView, tmp_path: Path
) -> None:
    state_dir = tmp_path / "state"
    levels = choose_mechanism(view).read_levels("al-1", state_dir)
    layer.unprepare("al-1", 5, state_dir)
    layer.resize(view, state_dir)
    assert layer.read_enforcement("al-1", levels, state_dir) == levels
    assert not state_dir.exists()
    choose_mechanism(view).prepare(view, state_dir)
    before = world(view, state_dir)
    layer.unprepare("al-1", 5, state_dir)
    layer.resize(resized(view), state_dir)
    assert world(view, state_dir) == before


def test_asking_why_it_is_absent_changes_nothing(
    layer: Layer, view: AllocationView, tmp_path: Path
) -> None:
    before = world(view, tmp_path / "state")
    layer.explain_absence(view)
    assert layer.explain_absence(replace(view, cgroups=(), machine=None)) != ""
    assert world(view, tmp_path / "state") == before


def test_undoing_leaves_nothing_and_undoing_again_is_well(
    view: AllocationView, tmp_path: Path
) -> None:
    state_dir = tmp_path / "state"
    before = world(view, state_dir)
    prepare(view, state_dir)
    assert world(view, state_dir) != before
    for _ in range(2):
        unprepare(view, state_dir)
        after = world(view, state_dir)
        assert (after["limits"], after["cgroups"]) == (before["limits"], before["cgroups"])
        assert left(state_dir) == {"prepared"}


def test_undoing_one_allocation_leaves_the_others(
    view: AllocationView, cards: Path, pool: Path, tmp_path: Path
) -> None:
    state_dir = tmp_path / "state"
    prepare(view, state_dir)
    before = world(view, state_dir)
    other = replace(make_view(cards, pool, "job-2"), allocation="al-2")
    prepare(other, state_dir)
    unprepare(other, state_dir)
    assert world(view, state_dir) == before


def test_undoing_late_leaves_a_later_allocation_of_the_same_job(
    view: AllocationView, tmp_path: Path
) -> None:
    state_dir = tmp_path / "state"
    prepare(view, state_dir)
    later = replace(view, allocation="al-2", generation=1)
    prepare(later, state_dir)
    before = world(view, state_dir)
    unprepare(view, state_dir)
    after = world(view, state_dir)
    assert (after["limits"], after["cgroups"]) == (before["limits"], before["cgroups"])
    unprepare(later, state_dir)


VERBS: dict[str, Callable[[Layer, AllocationView, PreparedAllocation, Path], object]] = {
    "prepare": lambda layer, view, prepared, state: layer.prepare(view, prepared, state),
    "resize": lambda layer, view, _, state: layer.resize(view, state),
    "unprepare": lambda layer, view, _, state: layer.unprepare("al-1", view.generation, state),
}


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_a_call_with_an_older_generation_is_refused_and_changes_nothing(
    layer: Layer, view: AllocationView, tmp_path: Path, verb: str
) -> None:
    prepared = prepare(view, tmp_path / "state")
    before = world(view, tmp_path / "state")
    with pytest.raises(StaleGeneration, match="generation 4"):
        VERBS[verb](layer, replace(resized(view), generation=4), prepared, tmp_path / "state")
    assert world(view, tmp_path / "state") == before


def test_a_younger_generation_takes_over(view: AllocationView, tmp_path: Path) -> None:
    state_dir = tmp_path / "state"
    prepare(view, state_dir)
    prepare(replace(view, generation=6), state_dir)
    with pytest.raises(StaleGeneration):
        unprepare(view, state_dir, generation=5)
    unprepare(view, state_dir, generation=7)
    assert left(state_dir) == {"prepared"}


def test_another_size_twice_is_once(view: AllocationView, tmp_path: Path) -> None:
    state_dir = tmp_path / "state"
    levels = prepare(view, state_dir).enforcement
    before = world(view, state_dir)
    for _ in range(2):
        resize_allocation(choose_mechanism(view), resized(view), state_dir)
    after = world(view, state_dir)
    assert after != before
    resize_allocation(choose_mechanism(view), resized(view), state_dir)
    assert world(view, state_dir) == after
    assert read_levels(view, state_dir) == levels
    unprepare(view, state_dir, generation=6)
    assert left(state_dir) == {"prepared"}


def each_crash(
    layer: Layer,
    view: AllocationView,
    state_dir: Path,
    call: Callable[[], object],
    ready: PreparedAllocation | None = None,
) -> Iterator[str]:
    """Yield after a crash of `call` at each of its changes; the last time without a crash.

    `ready`: the layer is prepared before the call, from what the mechanism prepared.
    """
    for change in count():
        start_over(view)
        for note in (state_dir / "prepared/al-1").glob("note-*.json*"):
            note.unlink()
        if ready is not None:
            layer.prepare(view, ready, state_dir)
        crashed = crash_at(change, call)
        yield f"after a crash at change {change}"
        if not crashed:
            assert change >= 3, "the crashes did not reach into the call"
            break


def test_preparing_after_a_crash_at_any_step_gives_what_it_gives_without_one(
    layer: Layer, view: AllocationView, tmp_path: Path
) -> None:
    state_dir = tmp_path / "state"
    bare = prepare_bare(view, state_dir)
    whole = layer.prepare(view, bare, state_dir)
    assert isinstance(whole, PreparedAllocation)
    wanted = world(view, state_dir)
    for where in each_crash(layer, view, state_dir, lambda: layer.prepare(view, bare, state_dir)):
        levels = layer.read_enforcement("al-1", bare.enforcement, state_dir)
        assert levels in (bare.enforcement, whole.enforcement), where
        assert layer.prepare(view, bare, state_dir) == whole
        assert world(view, state_dir) == wanted, where


def test_undoing_finishes_after_a_crash_of_preparing_at_any_step(
    layer: Layer, view: AllocationView, tmp_path: Path
) -> None:
    state_dir = tmp_path / "state"
    bare = prepare_bare(view, state_dir)
    wanted = world(view, state_dir)
    for where in each_crash(layer, view, state_dir, lambda: layer.prepare(view, bare, state_dir)):
        layer.unprepare("al-1", 5, state_dir)
        assert world(view, state_dir) == wanted, where


def test_undoing_finishes_after_a_crash_of_undoing_at_any_step(
    layer: Layer, view: AllocationView, tmp_path: Path
) -> None:
    state_dir = tmp_path / "state"
    bare = prepare_bare(view, state_dir)
    wanted = world(view, state_dir)
    for where in each_crash(
        layer, view, state_dir, lambda: layer.unprepare("al-1", 5, state_dir), ready=bare
    ):
        layer.unprepare("al-1", 5, state_dir)
        assert world(view, state_dir) == wanted, where


def test_killed_while_it_resizes_asking_again_finishes_it(
    layer: Layer, view: AllocationView, tmp_path: Path
) -> None:
    state_dir = tmp_path / "state"
    bare = prepare_bare(view, state_dir)
    layer.prepare(view, bare, state_dir)
    layer.resize(resized(view), state_dir)
    wanted = world(view, state_dir)
    for where in each_crash(
        layer, view, state_dir, lambda: layer.resize(resized(view), state_dir), ready=bare
    ):
        layer.resize(resized(view), state_dir)
        assert world(view, state_dir) == wanted, where


def prepare_bare(view: AllocationView, state_dir: Path) -> PreparedAllocation:
    """What the mechanism alone prepares."""
    prepared = choose_mechanism(view).prepare(view, state_dir)
    assert isinstance(prepared, PreparedAllocation)
    return prepared


@pytest.mark.parametrize("name", ["../../etc", "", ".", "a/b", "a\0b"])
def test_an_allocation_is_never_a_path_to_somewhere_else(
    layer: Layer, tmp_path: Path, name: str
) -> None:
    with pytest.raises(ValueError, match="not an allocation id"):
        layer.unprepare(name, 1, tmp_path)
