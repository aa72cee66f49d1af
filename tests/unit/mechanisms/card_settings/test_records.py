import errno
from pathlib import Path

import pytest

from gpupool.base.errors import DamagedRecord, ServiceUnavailable
from gpupool.mechanisms.card_settings.records import CardRecord, CardRecordBook, CardUse
from tests.support.deep_trees import few_frames, make_deep_tree

USE = CardUse(5, 300, 1 << 30)


@pytest.fixture
def book(tmp_path: Path) -> CardRecordBook:
    return CardRecordBook(tmp_path / "records")


def test_a_record_is_read_as_it_was_written(book: CardRecordBook) -> None:
    record = CardRecord("GPU-1", "DEFAULT", "team", 7, 8, {"al-1": USE}, "3", 17)
    assert book.read_record("GPU-1") is None
    assert book.write_record(record) == record
    assert book.read_record("GPU-1") == record
    assert book.list_records() == [record]


def test_users_come_and_go() -> None:
    record = CardRecord("GPU-1", "DEFAULT").with_user("al-1", USE).with_user("al-2", USE)
    assert set(record.users) == {"al-1", "al-2"}
    assert set(record.without_users({"al-1", "al-9"}).users) == {"al-2"}


def test_removing_takes_all_of_the_card(book: CardRecordBook) -> None:
    book.write_record(CardRecord("GPU-1", "DEFAULT"))
    folder = book.locate_folder("GPU-1")
    (folder / "pipe").mkdir()
    (folder / "pipe" / "control").touch()
    for _ in range(2):
        book.remove_record("GPU-1")
        assert not folder.exists()


def test_removing_takes_directories_that_an_owner_made_inside_one_another(
    book: CardRecordBook,
) -> None:
    book.write_record(CardRecord("GPU-1", "DEFAULT"))
    make_deep_tree(book.locate_folder("GPU-1") / "pipe")
    with few_frames():
        book.remove_record("GPU-1")
    assert not book.locate_folder("GPU-1").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2}', '{"version": 1}'])
def test_a_damaged_record_names_its_file(book: CardRecordBook, text: str) -> None:
    book.write_record(CardRecord("GPU-1", "DEFAULT"))
    (book.locate_folder("GPU-1") / "card.json").write_text(text)
    with pytest.raises(DamagedRecord, match=r"card\.json"):
        book.read_record("GPU-1")
    assert book.list_records() == []


def test_a_directory_without_a_record_is_listed(book: CardRecordBook) -> None:
    book.write_record(CardRecord("GPU-1", "DEFAULT"))
    book.locate_folder("GPU-2").mkdir()
    assert book.list_empty_folders() == [book.locate_folder("GPU-2")]


def test_the_directory_of_a_card_has_a_short_name(book: CardRecordBook) -> None:
    assert len(book.locate_folder("GPU-8f6dbc4f-0000-0000-0000-000000000001").name) == 10


def test_a_full_disk_does_not_stop_a_release(
    book: CardRecordBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = book.write_record(CardRecord("GPU-1", "DEFAULT", users={"al-1": USE}))

    def refuse(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("gpupool.mechanisms.card_settings.records.write_durably", refuse)
    smaller = book.write_record(record.without_users({"al-1"}))
    assert book.read_record("GPU-1") == smaller
    with pytest.raises(OSError, match="No space left"):
        book.write_record(CardRecord("GPU-2", "DEFAULT"))


def test_a_record_that_cannot_be_removed_stays(
    book: CardRecordBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = book.write_record(CardRecord("GPU-1", "DEFAULT"))
    (book.locate_folder("GPU-1") / "pipe").mkdir()

    def refuse(path: Path) -> None:
        raise OSError(errno.ENOTEMPTY, "Directory not empty")

    monkeypatch.setattr("gpupool.mechanisms.card_settings.records.remove_tree", refuse)
    with pytest.raises(ServiceUnavailable, match="GPU-1 cannot be removed"):
        book.remove_record("GPU-1")
    assert book.read_record("GPU-1") == record
