"""Disk space: what a new pool needs, and what is said where there is none."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpupool.base.errors import DiskFull, StateUnusable
from gpupool.base.room import (
    DATABASE_BYTES,
    FIRST_FILES_BYTES,
    LOG_BYTES,
    check_room_for_new_pool,
    is_full,
    reserve_bytes,
    state_error,
    write_problem,
)

MIB = 1 << 20


def set_disk(monkeypatch: pytest.MonkeyPatch, size: int, free: int) -> None:
    disk = SimpleNamespace(f_blocks=size, f_frsize=1, f_bavail=free, f_favail=9)
    monkeypatch.setattr(os, "statvfs", lambda _place: disk)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, (0, 0)), (64 * MIB, (4 * MIB, MIB)), (1 << 40, (LOG_BYTES, DATABASE_BYTES))],
)
def test_reserve_is_a_part_of_a_small_disk(size: int, expected: tuple[int, int]) -> None:
    assert reserve_bytes(size) == expected


def test_new_pool_needs_its_reserve_and_the_databases_part_twice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    needed = LOG_BYTES + 2 * DATABASE_BYTES + FIRST_FILES_BYTES
    set_disk(monkeypatch, 1 << 40, needed)
    check_room_for_new_pool(str(tmp_path))
    set_disk(monkeypatch, 1 << 40, needed - 1)
    with pytest.raises(DiskFull) as caught:
        check_room_for_new_pool(str(tmp_path / "not" / "yet"))
    assert caught.value.message == (
        f"no pool was made: it needs 50 MiB, and 49 MiB are free at {tmp_path}"
    )
    assert caught.value.hint.startswith("free 1 MiB, or")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_state_error_of_a_full_disk_says_what_is_free(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int
) -> None:
    set_disk(monkeypatch, 1 << 40, 3 * MIB)
    error = OSError(number, os.strerror(number))
    found = state_error(str(tmp_path), error)
    assert isinstance(found, DiskFull)
    assert "3 MiB and 9 files free" in found.message
    assert is_full(error)


def test_state_error_of_other_causes_names_what_to_mend() -> None:
    read_only = state_error("/s", OSError(errno.EROFS, "Read-only file system"))
    denied = state_error("/s", OSError(errno.EACCES, "Permission denied"))
    assert isinstance(read_only, StateUnusable)
    assert "mount it writable" in read_only.hint
    assert "mend its permissions" in denied.hint
    assert not is_full(OSError(errno.EACCES, ""))


def test_write_problem_is_the_reason_or_empty(tmp_path: Path) -> None:
    assert write_problem(tmp_path) == ""
    assert write_problem(tmp_path / "missing") == "No such file or directory"
