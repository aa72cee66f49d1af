"""The notes of moves survive the process that writes them."""

from __future__ import annotations

from pathlib import Path

from gpupool.mechanisms.suspend import MoveNotes
from gpupool.mechanisms.suspend.move_notes import FILE


def test_notes_are_there_for_the_next_process_until_they_are_cleared(tmp_path: Path) -> None:
    notes = MoveNotes(tmp_path)
    assert not notes.has("7:100")
    notes.announce("7:100", "lock")
    notes.announce("7:100", "checkpoint")
    later = MoveNotes(tmp_path)
    assert later.has("7:100")
    # A later process with the same pid has another start time.
    assert not later.has("7:101")
    for _ in range(2):
        later.clear()
    assert not (tmp_path / FILE).exists()
    assert not MoveNotes(tmp_path).has("7:100")


def test_a_note_that_stands_already_is_not_written_again(tmp_path: Path) -> None:
    notes = MoveNotes(tmp_path)
    notes.announce("7:100", "lock")
    (tmp_path / FILE).unlink()
    notes.announce("7:100", "lock")
    assert not (tmp_path / FILE).exists()
