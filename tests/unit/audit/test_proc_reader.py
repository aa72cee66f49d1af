"""What /proc says of processes, asked of real ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpupool.audit import proc_reader
from tests.support.supervised import until

GONE = 2**22 + 1  # beyond the largest pid there can be


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_the_parents_lead_from_a_process_to_init(child: subprocess.Popen[bytes]) -> None:
    chain = list(proc_reader.iterate_parents(child.pid))
    assert chain[:2] == [child.pid, os.getpid()]
    assert chain[-1] == 1
    assert list(proc_reader.iterate_parents(GONE)) == [GONE]


def test_one_that_has_ended_and_was_not_waited_for_does_not_live(
    child: subprocess.Popen[bytes],
) -> None:
    assert proc_reader.is_alive(child.pid)
    child.kill()
    until(
        lambda: not proc_reader.is_alive(child.pid), "the end of a process that nobody waited for"
    )
    assert Path(f"/proc/{child.pid}").exists()
    assert not proc_reader.is_alive(GONE)


def test_a_process_lives_on_after_the_end_of_its_first_thread() -> None:
    script = (
        "import ctypes, sys, threading; threading.Thread(target=sys.stdin.read).start(); "
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as process:
        stat = Path(f"/proc/{process.pid}/stat")
        until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z")
        assert proc_reader.is_alive(process.pid)
        assert proc_reader.read_start_ns(process.pid) is not None
        process.kill()


def test_a_process_has_a_name_in_each_namespace_below(tmp_path: Path) -> None:
    status = tmp_path / "7" / "status"
    status.parent.mkdir()
    status.write_text("Name:\tx\nNSpid:\t7\t3\t1\n")
    assert proc_reader.read_names(7, tmp_path) == (7, 3, 1)
    assert proc_reader.read_names(8, tmp_path) == (8,)
    assert proc_reader.read_names(os.getpid())[0] == os.getpid()


def test_a_second_driver_is_seen_by_its_file_whatever_the_first_is_called(tmp_path: Path) -> None:
    library = (
        next(path for path in Path("/lib/x86_64-linux-gnu").glob("libm.so.6"))
        if _is_x86()
        else None
    )
    if library is None:
        pytest.skip("no library to play a driver on this machine")
    known, other = tmp_path / "libcuda.so.1", tmp_path / "other" / "libcuda.so.555"
    other.parent.mkdir()
    for path in (known, other):
        shutil.copy(library, path)
    code = "import ctypes, sys; [ctypes.CDLL(path) for path in sys.argv[1:]]; print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(known), str(other)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        inodes = {path.stat().st_ino for path in (known, other)}
        assert proc_reader.find_other_driver(process.pid, inodes) == ""
        assert proc_reader.find_other_driver(process.pid, {known.stat().st_ino}) == str(other)
        process.communicate()
    assert proc_reader.find_other_driver(GONE, ()) == ""


def _is_x86() -> bool:
    return Path("/lib/x86_64-linux-gnu/libm.so.6").exists()


def test_another_file_at_the_place_is_seen_and_who_has_ended_sees_nothing(
    tmp_path: Path, child: subprocess.Popen[bytes]
) -> None:
    mine, other = tmp_path / "limits", tmp_path / "other"
    mine.touch()
    other.touch()
    assert not proc_reader.sees_other_file(child.pid, str(mine), mine.stat())
    assert proc_reader.sees_other_file(child.pid, str(mine), other.stat())
    assert proc_reader.sees_other_file(child.pid, str(tmp_path / "none"), mine.stat())
    assert not proc_reader.sees_other_file(GONE, str(mine), mine.stat())


MAPS = """
import mmap, sys
pages = []
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        pages.append(mmap.mmap(file.fileno(), 0, prot=1))
print(1, flush=True)
input()
"""


@contextmanager
def mapping(*paths: Path) -> Iterator[int]:
    """The pid of a process that has these files mapped."""
    words = [sys.executable, "-c", MAPS, *map(str, paths)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        yield process.pid
        process.kill()


def page(path: Path, magic: bytes) -> Path:
    path.write_bytes(magic.ljust(4096, b"."))
    return path


def test_a_mapped_page_that_is_another_file_is_seen_whatever_its_name_is(tmp_path: Path) -> None:
    own, other = page(tmp_path / "limits", b"GPPLIMS1"), page(tmp_path / "innocent", b"GPPLIMS1")
    pages = {b"GPPLIMS1": own.stat()}
    with mapping(other) as pid:
        assert proc_reader.maps_other_page(pid, pages)
        other.unlink()
        assert proc_reader.maps_other_page(pid, pages)
    with mapping(own, page(other, b"GPPLIMS1")) as pid:
        assert proc_reader.maps_other_page(pid, pages), "its own page does not excuse the other one"
    assert not proc_reader.maps_other_page(pid, pages), "it has ended"


def test_its_own_page_and_what_is_no_page_of_the_fence_may_be_mapped(tmp_path: Path) -> None:
    own, data, large = (
        page(tmp_path / "limits", b"GPPLIMS1"),
        page(tmp_path / "x", b"limits.."),
        tmp_path / "large",
    )
    large.write_bytes(own.read_bytes() * 16)
    with mapping(own, data, large) as pid:
        assert not proc_reader.maps_other_page(pid, {b"GPPLIMS1": own.stat()})


def test_the_children_of_a_process_are_those_that_live(child: subprocess.Popen[bytes]) -> None:
    assert child.pid in proc_reader.list_children(os.getpid())
    assert proc_reader.list_children(GONE) == ()


def test_a_root_without_the_file_is_no_other_file_where_none_may_be(
    tmp_path: Path, child: subprocess.Popen[bytes]
) -> None:
    other = page(tmp_path / "other", b"")
    assert not proc_reader.sees_other_file(
        child.pid, str(tmp_path / "none"), other.stat(), or_none=False
    )
