from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.errors import ServiceUnavailable, StaleGeneration
from gpupool.mechanisms.card_settings.compute_mode import ComputeMode
from gpupool.mechanisms.card_settings.timeslice import Timeslice
from gpupool.mechanisms.contract import (
    AllocationView,
    EnforcementLevels,
    FenceLevel,
    GrantedDevice,
    JobSeat,
    PreparedAllocation,
)
from gpupool.mechanisms.timeslice.layer import TimesliceLayer
from gpupool.model.device import Device
from tests.support.mps_host import CARD, FakeModes, describe_share

PREPARED = PreparedAllocation({}, (), (), Path("/share"), FenceLevel.SOFT)


class Slices:
    """Time slices of cards; `broken` cards answer nothing, `stubborn` ones take nothing."""

    def __init__(self) -> None:
        self.now: dict[str, Timeslice] = {}
        self.broken: set[str] = set()
        self.stubborn: set[str] = set()

    def read_timeslice(self, uuid: str) -> Timeslice:
        if uuid in self.broken:
            raise ServiceUnavailable(f"The time slice of card {uuid} cannot be read")
        return self.now.get(uuid, Timeslice.DEFAULT)

    def write_timeslice(self, uuid: str, length: Timeslice) -> None:
        if uuid in self.stubborn | self.broken:
            raise ServiceUnavailable(f"Card {uuid} did not take time slice {length}")
        self.now[uuid] = length


def interactive(allocation: str = "al-1", **changes: object) -> AllocationView:
    card = changes.pop("card", CARD)
    milli = changes.pop("milli", 300)
    size = changes.pop("memory_bytes", 8 << 30)
    assert isinstance(card, Device)
    assert isinstance(milli, int)
    assert isinstance(size, int)
    beside = {"priority": 100, **changes}
    return describe_share(allocation, milli, size, card, sharing="burst", **beside)


@pytest.fixture
def slices() -> Slices:
    return Slices()


@pytest.fixture
def modes(tmp_path: Path) -> FakeModes:
    (tmp_path / "host").mkdir()
    return FakeModes(tmp_path / "host")


@pytest.fixture
def layer(slices: Slices, modes: FakeModes) -> TimesliceLayer:
    return TimesliceLayer(slices, modes)


@pytest.fixture
def prepare(
    layer: TimesliceLayer, tmp_path: Path
) -> Callable[[AllocationView], PreparedAllocation]:
    def call(view: AllocationView) -> PreparedAllocation:
        (tmp_path / "state/prepared" / view.allocation).mkdir(parents=True, exist_ok=True)
        return layer.prepare(view, PREPARED, tmp_path / "state")

    return call


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (interactive(priority=0), "priority 0"),
        (replace(interactive(), sharing="mps"), "MPS"),
        (interactive(card=replace(CARD, vendor="amd")), "card of amd"),
        (interactive(card=replace(CARD, simulated=True)), "simulated"),
        (interactive(milli=1000, memory_bytes=CARD.memory_bytes), "as a whole"),
        (interactive(card=replace(CARD, partitioned=True)), "MIG mode"),
        (interactive(granted=(GrantedDevice(CARD, 300, 1 << 30, profile="1g"),)), "MIG mode"),
        (interactive(seat=JobSeat(own_pool=True)), "only root"),
    ],
)
def test_it_is_absent_with_a_reason(
    layer: TimesliceLayer, view: AllocationView, reason: str
) -> None:
    assert reason in layer.explain_absence(view)


def test_it_serves_an_interactive_share_of_a_card(layer: TimesliceLayer) -> None:
    assert layer.explain_absence(interactive()) == ""


def test_a_card_in_another_compute_mode_is_left_alone(
    layer: TimesliceLayer, modes: FakeModes
) -> None:
    modes.write_mode(CARD.uuid, ComputeMode.EXCLUSIVE_PROCESS)
    text = layer.explain_absence(interactive())
    assert "compute mode EXCLUSIVE_PROCESS, a time slice needs DEFAULT" in text


def test_a_card_that_says_nothing_is_left_alone(layer: TimesliceLayer, slices: Slices) -> None:
    slices.broken.add(CARD.uuid)
    assert "cannot be read" in layer.explain_absence(interactive())


def test_the_slice_is_short_until_the_last_interactive_share_ends(
    layer: TimesliceLayer,
    slices: Slices,
    prepare: Callable[[AllocationView], PreparedAllocation],
    tmp_path: Path,
) -> None:
    slices.now[CARD.uuid] = Timeslice.LONG
    for name in ("al-1", "al-2", "al-2"):
        assert prepare(interactive(name)) == PREPARED
    assert slices.now[CARD.uuid] is Timeslice.SHORT
    layer.unprepare("al-1", 5, tmp_path / "state")
    assert slices.now[CARD.uuid] is Timeslice.SHORT
    for _ in range(2):
        layer.unprepare("al-2", 5, tmp_path / "state")
        assert slices.now[CARD.uuid] is Timeslice.LONG
    assert not (tmp_path / "state/timeslice").exists()


def test_a_slice_that_an_operator_set_meanwhile_stays(
    layer: TimesliceLayer,
    slices: Slices,
    prepare: Callable[[AllocationView], PreparedAllocation],
    tmp_path: Path,
) -> None:
    prepare(interactive())
    slices.now[CARD.uuid] = Timeslice.MEDIUM
    layer.unprepare("al-1", 5, tmp_path / "state")
    assert slices.now[CARD.uuid] is Timeslice.MEDIUM


def test_a_card_that_takes_no_slice_serves_the_job_all_the_same(
    slices: Slices, prepare: Callable[[AllocationView], PreparedAllocation]
) -> None:
    slices.stubborn.add(CARD.uuid)
    assert "did not take time slice" in prepare(interactive()).notes[-1]


def test_a_card_that_cannot_be_restored_stays_on_record(
    layer: TimesliceLayer,
    slices: Slices,
    prepare: Callable[[AllocationView], PreparedAllocation],
    tmp_path: Path,
) -> None:
    prepare(interactive())
    slices.broken.add(CARD.uuid)
    layer.unprepare("al-1", 5, tmp_path / "state")
    slices.broken.clear()
    layer.unprepare("al-unheard-of", 1, tmp_path / "state")
    assert slices.now[CARD.uuid] is Timeslice.DEFAULT
    assert not (tmp_path / "state/timeslice").exists()


def test_an_older_generation_changes_nothing(
    layer: TimesliceLayer,
    slices: Slices,
    prepare: Callable[[AllocationView], PreparedAllocation],
    tmp_path: Path,
) -> None:
    prepare(interactive())
    with pytest.raises(StaleGeneration, match="generation 4"):
        layer.unprepare("al-1", 4, tmp_path / "state")
    assert slices.now[CARD.uuid] is Timeslice.SHORT


def test_the_levels_stay_as_they_are(layer: TimesliceLayer, tmp_path: Path) -> None:
    levels = EnforcementLevels(memory=FenceLevel.SOFT)
    assert layer.read_enforcement("al-1", levels, tmp_path) == levels


def test_it_is_on_record_with_the_card_while_an_allocation_uses_it(
    layer: TimesliceLayer,
    prepare: Callable[[AllocationView], PreparedAllocation],
    tmp_path: Path,
) -> None:
    prepare(interactive("al-1"))
    assert layer.is_recorded("al-1", tmp_path / "state")
    assert not layer.is_recorded("al-2", tmp_path / "state")
    layer.unprepare("al-1", 5, tmp_path / "state")
    assert not layer.is_recorded("al-1", tmp_path / "state")
