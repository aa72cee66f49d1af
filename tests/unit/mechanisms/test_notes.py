"""The note a mechanism writes before it acts."""

from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.errors import StaleGeneration
from gpupool.mechanisms.contract import PreparationStep
from gpupool.mechanisms.notes import NoteBook, PreparationNote
from tests.support.deep_trees import few_frames, make_deep_tree

NOTE = PreparationNote(
    "mig", "al-1", 4, PreparationStep.PREPARING, before={"mode": "off"}, made={"size": 2}
)


def test_a_note_reads_back_as_it_was_written(tmp_path: Path) -> None:
    book = NoteBook(tmp_path)
    assert book.read_note("al-1") is None
    book.begin_preparing(NOTE)
    assert book.read_note("al-1") == NOTE
    assert list(book.iterate_mechanism("mig")) == [NOTE]
    assert list(book.iterate_mechanism("share")) == []


def test_what_was_there_before_the_first_attempt_is_never_overwritten(tmp_path: Path) -> None:
    book = NoteBook(tmp_path)
    book.begin_preparing(NOTE)
    again = book.begin_preparing(
        replace(NOTE, generation=5, before={"mode": "on"}, made={"size": 4})
    )
    assert (again.generation, again.before, again.made) == (5, {"mode": "off"}, {"size": 4})
    assert book.read_note("al-1") == again


def test_undoing_is_noted_with_all_that_is_needed_to_undo(tmp_path: Path) -> None:
    book = NoteBook(tmp_path)
    book.begin_preparing(NOTE)
    assert book.begin_releasing("mig", "al-1", 6) == replace(NOTE, step=PreparationStep.RELEASING)
    assert book.read_note("al-1") == replace(NOTE, step=PreparationStep.RELEASING)


def test_only_the_mechanism_on_record_may_undo_and_only_of_the_same_or_a_younger_generation(
    tmp_path: Path,
) -> None:
    book = NoteBook(tmp_path)
    book.begin_preparing(NOTE)
    assert book.begin_releasing("share", "al-1", 9) is None
    with pytest.raises(StaleGeneration) as caught:
        book.begin_releasing("mig", "al-1", 3)
    assert caught.value.details == {"on_record": 4, "named": 3}
    assert book.read_note("al-1") == NOTE


def test_forgetting_takes_what_a_crash_left_behind(tmp_path: Path) -> None:
    book = NoteBook(tmp_path)
    book.begin_preparing(NOTE)
    (book.locate_folder("al-1") / "note.json.new").write_text("{")
    (book.locate_folder("al-1") / "share").mkdir()
    book.remove_note("al-1")
    book.remove_note("al-1")
    assert not book.locate_folder("al-1").exists()


def test_a_deep_tree_of_the_tenant_does_not_keep_its_allocation(tmp_path: Path) -> None:
    book = NoteBook(tmp_path)
    book.begin_preparing(NOTE)
    make_deep_tree(book.locate_folder("al-1") / "usage")
    with few_frames():
        book.remove_note("al-1")
    assert not book.locate_folder("al-1").exists()
