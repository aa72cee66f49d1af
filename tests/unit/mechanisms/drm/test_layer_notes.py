"""What a layer writes down: kept from the first attempt, refused when old, ignored when damaged."""

from pathlib import Path

import pytest

from gpupool.base.errors import StaleGeneration, StateNewer
from gpupool.mechanisms.drm.layer_notes import LayerNote, LayerNotes


def test_what_the_first_attempt_found_is_kept(tmp_path: Path) -> None:
    notes = LayerNotes("dmem", tmp_path)
    notes.begin(LayerNote("al-1", 1, {"region": "max"}, {"limit": "1"}))
    kept = notes.begin(LayerNote("al-1", 2, {"region": "1", "other": "max"}, {"limit": "2"}))
    assert kept.before == {"region": "max", "other": "max"}
    assert notes.read_note("al-1") == kept
    assert list(notes.iterate_notes()) == [kept]
    assert (tmp_path / "prepared/al-1/note-dmem.json").is_file()


def test_an_older_generation_is_refused(tmp_path: Path) -> None:
    notes = LayerNotes("dmem", tmp_path)
    notes.begin(LayerNote("al-1", 2))
    with pytest.raises(StaleGeneration):
        notes.begin(LayerNote("al-1", 1))


def test_layers_do_not_read_each_others_notes(tmp_path: Path) -> None:
    LayerNotes("dmem", tmp_path).begin(LayerNote("al-1", 1))
    assert LayerNotes("cu-mask", tmp_path).read_note("al-1") is None
    assert list(LayerNotes("cu-mask", tmp_path).iterate_notes()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 1}', '{"version": 1, "x": 2}'])
def test_a_damaged_note_is_none(tmp_path: Path, text: str) -> None:
    notes = LayerNotes("dmem", tmp_path)
    notes.begin(LayerNote("al-1", 1))
    (tmp_path / "prepared/al-1/note-dmem.json").write_text(text)
    assert notes.read_note("al-1") is None
    assert notes.begin(LayerNote("al-1", 1)).generation == 1


def test_a_note_of_a_newer_version_is_not_read(tmp_path: Path) -> None:
    notes = LayerNotes("dmem", tmp_path)
    notes.begin(LayerNote("al-1", 1))
    path = tmp_path / "prepared/al-1/note-dmem.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(StateNewer):
        notes.read_note("al-1")


def test_removing_is_idempotent(tmp_path: Path) -> None:
    notes = LayerNotes("dmem", tmp_path)
    notes.begin(LayerNote("al-1", 1))
    notes.remove_note("al-1")
    notes.remove_note("al-1")
    assert notes.read_note("al-1") is None
