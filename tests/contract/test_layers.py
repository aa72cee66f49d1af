"""What every layer must keep, run on every layer of the registry.

Each runs on what a mechanism has prepared, by the functions of `preparation`. Cgroups are real ones.
Calls that are killed on the way: tests/contract/test_kills.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.errors import StaleGeneration
from gpupool.mechanisms.contract import (
    AllocationView,
    EnforcementLevels,
    FenceLevel,
    Layer,
    PreparedAllocation,
)
from gpupool.mechanisms.driver.driver_files import find_simulated_libraries, find_templates
from gpupool.mechanisms.preparation import (
    list_recorded_layers,
    prepare_allocation,
    read_enforcement_levels,
    resize_allocation,
    unprepare_allocation,
)
from gpupool.mechanisms.registry import LAYERS, choose_mechanism
from gpupool.probes.simgpu import create_machine
from tests.contract.test_mechanisms import left, tree
from tests.support.job_cgroups import open_pool_group
from tests.support.kill_rigs.layers import MACHINE, describe_fenced


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
    found = describe_fenced(cards, pool)
    assert layer.explain_absence(found) == ""
    yield found
    start_over(found)


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


def test_a_layer_is_on_record_from_its_preparation_to_its_end(
    layer: Layer, view: AllocationView, tmp_path: Path
) -> None:
    state_dir = tmp_path / "state"
    assert not layer.is_recorded("al-1", state_dir)
    prepare(view, state_dir)
    assert layer.is_recorded("al-1", state_dir)
    assert not layer.is_recorded("al-2", state_dir)
    assert layer.name in list_recorded_layers("al-1", state_dir)
    unprepare(view, state_dir)
    assert not layer.is_recorded("al-1", state_dir)


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
    other = replace(describe_fenced(cards, pool, "job-2"), allocation="al-2")
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
