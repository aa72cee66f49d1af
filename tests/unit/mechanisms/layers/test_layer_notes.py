"""The note a layer writes before it acts."""

from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.errors import DamagedRecord, StaleGeneration, StateNewer
from gpupool.mechanisms.contract import PreparationStep
from gpupool.mechanisms.layers.layer_notes import LayerNote, LayerNoteBook
from gpupool.mechanisms.notes import NoteBook

NOTE = LayerNote("al-1", 4, before={"limit": 7}, made={"limit": 9})


@pytest.fixture
def book(tmp_path: Path) -> LayerNoteBook:
    return LayerNoteBook(tmp_path, "memgroup")


def test_a_note_reads_back_as_it_was_written(book: LayerNoteBook, tmp_path: Path) -> None:
    assert book.read_note("al-1") is None
    book.begin_preparing(NOTE)
    assert book.read_note("al-1") == NOTE
    assert list(book.iterate_notes()) == [NOTE]
    assert list(LayerNoteBook(tmp_path, "timeslice").iterate_notes()) == []


def test_what_was_there_before_the_first_attempt_is_never_overwritten(book: LayerNoteBook) -> None:
    book.begin_preparing(NOTE)
    again = book.begin_preparing(replace(NOTE, generation=5, before={"limit": 9}, made={}))
    assert (again.generation, again.before, again.made) == (5, {"limit": 7}, {})
    assert book.read_note("al-1") == again


def test_an_older_generation_is_refused_and_changes_nothing(book: LayerNoteBook) -> None:
    book.begin_preparing(NOTE)
    with pytest.raises(StaleGeneration, match="generation 3"):
        book.begin_preparing(replace(NOTE, generation=3))
    with pytest.raises(StaleGeneration, match="generation 3"):
        book.begin_releasing("al-1", 3)
    assert book.read_note("al-1") == NOTE


def test_undoing_is_noted_with_all_that_is_needed_to_undo(book: LayerNoteBook) -> None:
    book.begin_preparing(NOTE)
    releasing = replace(NOTE, step=PreparationStep.RELEASING)
    assert book.begin_releasing("al-1", 6) == releasing
    assert book.read_note("al-1") == releasing
    book.remove_note("al-1")
    book.remove_note("al-1")
    assert book.begin_releasing("al-1", 6) is None


def test_a_damaged_note_is_written_anew_and_removed_with_its_allocation(
    book: LayerNoteBook,
) -> None:
    path = book.locate_note("al-1")
    path.parent.mkdir(parents=True)
    path.write_text('{"version": 1}')
    with pytest.raises(DamagedRecord, match=r"note-memgroup\.json"):
        book.read_note("al-1")
    assert book.find_note("al-1") is None
    assert book.begin_releasing("al-1", 4) is None
    assert not path.exists()
    path.write_text("")
    assert book.begin_preparing(NOTE) == NOTE
    assert book.read_note("al-1") == NOTE


def test_a_note_of_a_newer_gpupool_is_not_touched(book: LayerNoteBook) -> None:
    path = book.locate_note("al-1")
    path.parent.mkdir(parents=True)
    path.write_text('{"version": 2}')
    with pytest.raises(StateNewer):
        book.begin_preparing(NOTE)
    with pytest.raises(StateNewer):
        book.begin_releasing("al-1", 4)
    assert path.read_text() == '{"version": 2}'


def test_a_note_stays_beside_that_of_the_mechanism(book: LayerNoteBook, tmp_path: Path) -> None:
    book.begin_preparing(NOTE)
    assert NoteBook(tmp_path).read_note("al-1") is None
    assert list(NoteBook(tmp_path).iterate_all()) == []


@pytest.mark.parametrize("name", ["../../etc", "", ".", "a/b", "a\0b"])
def test_an_allocation_is_never_a_path_to_somewhere_else(book: LayerNoteBook, name: str) -> None:
    with pytest.raises(ValueError, match="not an allocation id"):
        book.locate_note(name)


def test_what_a_later_attempt_finds_besides_is_kept_as_well(tmp_path: Path) -> None:
    book = LayerNoteBook(tmp_path, "dmem")
    book.begin_preparing(LayerNote("al-1", 1, before={"region": "max"}))
    later = LayerNote("al-1", 2, before={"region": "1", "other": "max"})
    assert book.begin_preparing(later).before == {"region": "max", "other": "max"}
