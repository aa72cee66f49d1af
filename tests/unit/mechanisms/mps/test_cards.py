from pathlib import Path

import pytest

from gpupool.base.errors import ServiceUnavailable
from gpupool.mechanisms.card_settings.compute_mode import ComputeMode
from gpupool.mechanisms.card_settings.records import CardRecord, CardUse
from gpupool.mechanisms.mps.cards import MpsCards
from tests.support.mps_host import CARD, GIB, AutomaticProcesses, FakeControl, FakeModes


@pytest.fixture
def modes(tmp_path: Path) -> FakeModes:
    (tmp_path / "host").mkdir()
    return FakeModes(tmp_path / "host")


@pytest.fixture
def cards(tmp_path: Path, modes: FakeModes) -> MpsCards:
    control = FakeControl(tmp_path / "host", automatic=True)
    return MpsCards(tmp_path / "state", modes, control, AutomaticProcesses())


def record(before: ComputeMode = ComputeMode.DEFAULT, **users: CardUse) -> CardRecord:
    return CardRecord(CARD.uuid, str(before), "team", 0, 0, users, "2")


USE = CardUse(1, 300, GIB)


def test_an_open_card_is_exclusive_and_on_record(cards: MpsCards, modes: FakeModes) -> None:
    cards.open_card(record(a=USE))
    assert modes.read_mode(CARD.uuid) is ComputeMode.EXCLUSIVE_PROCESS
    assert cards.records.read_record(CARD.uuid) == record(a=USE)


def test_the_record_is_there_before_the_mode_changes(cards: MpsCards, modes: FakeModes) -> None:
    modes.stubborn.add(CARD.uuid)
    with pytest.raises(ServiceUnavailable):
        cards.open_card(record(a=USE))
    assert cards.records.read_record(CARD.uuid) == record(a=USE)


def test_unused_cards_are_closed_and_others_left(
    cards: MpsCards, modes: FakeModes, tmp_path: Path
) -> None:
    (tmp_path / "state/prepared/lives").mkdir(parents=True)
    cards.open_card(record(gone=USE, lives=USE))
    cards.close_unused()
    left = cards.records.read_record(CARD.uuid)
    assert left is not None
    assert set(left.users) == {"lives"}
    (tmp_path / "state/prepared/lives").rmdir()
    cards.close_unused()
    assert not cards.root.exists()
    assert modes.read_mode(CARD.uuid) is ComputeMode.DEFAULT


def test_a_card_that_cannot_be_restored_does_not_stop_the_others(
    cards: MpsCards, modes: FakeModes, caplog: pytest.LogCaptureFixture
) -> None:
    cards.open_card(record(gone=USE))
    modes.stubborn.add(CARD.uuid)
    cards.close_unused()
    assert "is not restored yet" in caplog.text
    assert cards.records.read_record(CARD.uuid) is not None


def test_a_directory_without_a_record_is_removed(cards: MpsCards) -> None:
    (cards.root / "0123456789ab").mkdir(parents=True)
    cards.close_unused()
    assert not cards.root.exists()
