"""What every mechanism must keep, run on partitions of real cards; the driver is a stand-in.

Calls that are killed on the way: tests/contract/test_kills.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.errors import NotFound, RequestRejection, StaleGeneration
from gpupool.mechanisms.contract import (
    AllocationView,
    FenceLevel,
    NotYet,
    PreparationStep,
    PreparedAllocation,
)
from gpupool.mechanisms.mig.mechanism import MigMechanism
from gpupool.mechanisms.registry import MECHANISMS, choose_mechanism, find_on_record
from tests.support.mig_cards import CARDS, MigHost, rename_allocation
from tests.support.mig_fixtures import host, mechanism, mig_library

__all__ = ["host", "mechanism", "mig_library"]

PROFILE = "2g.35gb"


@pytest.fixture
def view(host: MigHost) -> AllocationView:
    """One partition on each of two cards, beside a partition that another tool made."""
    host.make_foreign("1g.18gb", 0)
    return host.make_view(PROFILE, PROFILE)


def prepare(mechanism: MigMechanism, view: AllocationView, folder: Path) -> PreparedAllocation:
    prepared = mechanism.prepare(view, folder)
    assert not isinstance(prepared, NotYet)
    return prepared


def read_files(folder: Path) -> dict[str, bytes]:
    found = {}
    for path in sorted((folder / "prepared").rglob("*")):
        if path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def test_preparing_twice_is_preparing_once(
    host: MigHost, mechanism: MigMechanism, view: AllocationView, tmp_path: Path
) -> None:
    first = prepare(mechanism, view, tmp_path)
    files = read_files(tmp_path)
    cards = host.snapshot()
    assert prepare(mechanism, view, tmp_path) == first
    assert read_files(tmp_path) == files
    assert host.snapshot() == cards


def test_undoing_restores_the_cards_byte_for_byte_and_twice_is_well(
    host: MigHost, mechanism: MigMechanism, view: AllocationView, tmp_path: Path
) -> None:
    before = host.snapshot()
    prepare(mechanism, view, tmp_path)
    assert host.snapshot() != before
    for _ in range(2):
        mechanism.unprepare("al-1", 5, tmp_path)
        assert host.snapshot() == before
        assert read_files(tmp_path) == {}


def test_undoing_what_was_never_prepared_is_well(mechanism: MigMechanism, tmp_path: Path) -> None:
    mechanism.unprepare("al-unheard-of", 1, tmp_path)


def test_what_was_prepared_is_observed_beside_what_another_tool_made(
    mechanism: MigMechanism, view: AllocationView, tmp_path: Path
) -> None:
    prepare(mechanism, view, tmp_path)
    observed = mechanism.observe(tmp_path)
    own = observed["al-1"]
    assert (own.generation, own.step, own.problem) == (5, PreparationStep.PREPARED, "")
    foreign = observed[f"foreign-{CARDS[0]}-gi7"]
    assert "gpupool did not make GPU instance 7" in foreign.problem
    assert len(observed) == 2


def test_releasing_what_another_tool_made_changes_nothing(
    host: MigHost, mechanism: MigMechanism, view: AllocationView, tmp_path: Path
) -> None:
    before = host.snapshot()
    for name, found in mechanism.observe(tmp_path).items():
        mechanism.unprepare(name, found.generation, tmp_path)
    assert host.snapshot() == before


def test_undoing_one_allocation_leaves_the_others(
    host: MigHost, mechanism: MigMechanism, view: AllocationView, tmp_path: Path
) -> None:
    prepare(mechanism, view, tmp_path)
    cards = host.snapshot()
    prepare(mechanism, rename_allocation(view, "al-2"), tmp_path)
    mechanism.unprepare("al-2", 5, tmp_path)
    assert host.snapshot() == cards
    assert mechanism.observe(tmp_path)["al-1"].problem == ""


def test_an_older_generation_is_refused_and_changes_nothing(
    host: MigHost, mechanism: MigMechanism, view: AllocationView, tmp_path: Path
) -> None:
    prepare(mechanism, view, tmp_path)
    files = read_files(tmp_path)
    cards = host.snapshot()
    with pytest.raises(StaleGeneration, match="generation 4"):
        mechanism.prepare(replace(view, generation=4), tmp_path)
    with pytest.raises(StaleGeneration, match="generation 4"):
        mechanism.unprepare("al-1", 4, tmp_path)
    assert (read_files(tmp_path), host.snapshot()) == (files, cards)


def test_a_younger_generation_takes_over_the_same_partition(
    host: MigHost, mechanism: MigMechanism, view: AllocationView, tmp_path: Path
) -> None:
    before = host.snapshot()
    first = prepare(mechanism, view, tmp_path)
    assert prepare(mechanism, replace(view, generation=6), tmp_path).env == first.env
    assert mechanism.observe(tmp_path)["al-1"].generation == 6
    mechanism.unprepare("al-1", 7, tmp_path)
    assert host.snapshot() == before


def test_a_damaged_note_still_leads_to_its_instances(
    host: MigHost, mechanism: MigMechanism, view: AllocationView, tmp_path: Path
) -> None:
    before = host.snapshot()
    prepare(mechanism, view, tmp_path)
    (tmp_path / "prepared/al-1/note.json").write_text("{")
    mechanism.unprepare("al-1", 5, tmp_path)
    assert host.snapshot() == before


def test_a_changed_share_file_is_observed_and_preparing_again_mends_it(
    mechanism: MigMechanism, view: AllocationView, tmp_path: Path
) -> None:
    share = prepare(mechanism, view, tmp_path).share_dir
    files = read_files(tmp_path)
    (share / "share.json").write_text("{}")
    assert mechanism.observe(tmp_path)["al-1"].problem == "its share file was changed"
    prepare(mechanism, view, tmp_path)
    assert read_files(tmp_path) == files


def test_every_answer_carries_the_same_level(
    mechanism: MigMechanism, view: AllocationView, tmp_path: Path
) -> None:
    prepared = prepare(mechanism, view, tmp_path)
    assert mechanism.read_enforcement("al-1", tmp_path) == (FenceLevel.HARD, "")
    assert mechanism.read_levels("al-1", tmp_path) == prepared.enforcement
    assert set(prepared.enforcement.write().values()) == {"hard"}
    assert mechanism.read_enforcement("al-2", tmp_path) == (FenceLevel.NONE, "")


def test_a_later_generation_keeps_the_partition_and_another_size_is_refused(
    mechanism: MigMechanism, host: MigHost, view: AllocationView, tmp_path: Path
) -> None:
    prepare(mechanism, view, tmp_path)
    mechanism.resize(replace(view, generation=6), tmp_path)
    assert mechanism.observe(tmp_path)["al-1"].generation == 6
    larger = replace(host.make_view("3g.71gb", "3g.71gb"), generation=7)
    with pytest.raises(RequestRejection, match="neither resized nor moved"):
        mechanism.resize(larger, tmp_path)
    with pytest.raises(NotFound):
        mechanism.resize(rename_allocation(view, "al-9"), tmp_path)


def test_the_registry_chooses_it_for_a_partition_of_a_real_card_and_for_nothing_else(
    host: MigHost, view: AllocationView, mechanism: MigMechanism, tmp_path: Path
) -> None:
    assert choose_mechanism(view).name == "mig"
    prepare(mechanism, view, tmp_path)
    found = find_on_record("al-1", tmp_path)
    assert found is MECHANISMS["mig"]
    share = tuple(replace(grant, profile=None) for grant in view.granted)
    assert "asks for no partition" in mechanism.explain_refusal(replace(view, granted=share))


@pytest.mark.parametrize("name", ["../../etc", "", ".", "a/b"])
def test_an_allocation_is_never_a_path_to_somewhere_else(
    mechanism: MigMechanism, tmp_path: Path, name: str
) -> None:
    with pytest.raises(ValueError, match="not an allocation id"):
        mechanism.unprepare(name, 1, tmp_path)
