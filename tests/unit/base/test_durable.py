"""Files that are replaced whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gpupool.base.durable import make_directory_durably, open_replacement, write_durably


def write_half(path: Path) -> None:
    with open_replacement(path) as file:
        file.write(b"half of the new")
        raise OSError("the disk is full")


def test_open_replacement_that_fails_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="full"):
        write_half(path)
    assert [one.name for one in tmp_path.iterdir()] == ["state"]
    assert path.read_bytes() == b"old"


def test_open_replacement_takes_the_name_at_the_end_alone(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")
    with open_replacement(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def test_open_replacement_overwrites_what_a_killed_process_left(tmp_path: Path) -> None:
    (tmp_path / "state.new").write_bytes(b"a longer rest of another process")
    with open_replacement(tmp_path / "state") as file:
        file.write(b"new")
    assert (tmp_path / "state").read_bytes() == b"new"


def test_write_durably_has_its_mode_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_durably(tmp_path / "public", b"a", mode=0o644)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "public").stat().st_mode) == 0o644


def test_write_durably_flushes_the_file_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[list[str]] = []
    flush = os.fsync

    def note(descriptor: int) -> None:
        names.append(sorted(one.name for one in tmp_path.iterdir()))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    write_durably(tmp_path / "state", b"new")
    # The file first, the directory with its name after the rename.
    assert names == [["state.new"], ["state"]]


def test_make_directory_durably_makes_all_above_and_is_idempotent(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    make_directory_durably(path)
    make_directory_durably(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
