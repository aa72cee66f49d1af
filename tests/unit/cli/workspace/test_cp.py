"""Places of `gpupool cp`, and what its two sides do with links, names and interruptions."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import tarfile
from pathlib import Path

import pytest

from gpupool.base.errors import NotFound, WrongState
from gpupool.cli.workspace.cp import (
    FETCH_SCRIPT,
    SEND_SCRIPT,
    _rename,
    find_name,
    pack,
    split_place,
    unpack,
)
from tests.support.supervised import until


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("train:a/b", ("train", "a/b")),
        ("train:", ("train", "")),
        ("train:/tmp:x", ("train", "/tmp:x")),
        ("a/b:c", (None, "a/b:c")),
        ("./a:b", (None, "./a:b")),
        (":x", (None, ":x")),
        ("file", (None, "file")),
    ],
)
def test_split_place_takes_what_is_before_the_colon_for_a_job(
    text: str, place: tuple[str | None, str]
) -> None:
    assert split_place(text) == place


def test_split_place_of_a_name_that_no_job_has_is_refused() -> None:
    with pytest.raises(NotFound):
        split_place("a b:c")


def test_rename_refuses_what_was_not_asked_for() -> None:
    assert _rename(tarfile.TarInfo("d/x/y"), "d", "e").name == "e/x/y"
    with pytest.raises(WrongState, match="not asked for"):
        _rename(tarfile.TarInfo("../x"), "d", "e")


def fetch(parent: Path, name: str, place: Path, after: str) -> None:
    """Copy as `gpupool cp JOB:PATH TARGET` does, with the job's side on this machine."""
    words = ["sh", "-c", FETCH_SCRIPT, "gpupool-cp", str(parent), name]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        unpack(process.stdout, place, name, after)
    assert process.returncode == 0


def start_sending(target: Path, name: str) -> subprocess.Popen[bytes]:
    """Start the job's side of `gpupool cp PATH JOB:TARGET` on this machine."""
    words = ["sh", "-c", SEND_SCRIPT, "gpupool-cp", str(target), name]
    return subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory with a file of two names, and links to the file and to a directory."""
    inner = tmp_path / "job" / "runs"
    inner.mkdir(parents=True)
    (inner / "7.pt").write_text("weights")
    os.link(inner / "7.pt", inner / "best.pt")
    (inner / "latest.pt").symlink_to("7.pt")
    (tmp_path / "job" / "now").symlink_to("runs")
    (tmp_path / "here").mkdir()
    return tmp_path / "job"


def read_tree(place: Path) -> dict[str, str]:
    files = [one for one in place.rglob("*") if one.is_file()]
    return {str(one.relative_to(place)): one.read_text() for one in files}


RUNS = {"7.pt": "weights", "best.pt": "weights", "latest.pt": "weights"}


@pytest.mark.parametrize("name", ["runs", "now"])
def test_a_directory_comes_whole_under_another_name(tree: Path, name: str) -> None:
    fetch(tree, name, tree.parent / "here", "copy")
    assert read_tree(tree.parent / "here") == {f"copy/{one}": text for one, text in RUNS.items()}
    assert (tree.parent / "here/copy/latest.pt").is_symlink()


def test_the_directory_of_the_job_comes_under_the_name_of_the_target(tree: Path) -> None:
    fetch(tree / "runs", ".", tree.parent / "here", "copy")
    assert read_tree(tree.parent / "here") == {f"copy/{one}": text for one, text in RUNS.items()}


def test_a_link_that_is_asked_for_comes_as_its_file(tree: Path) -> None:
    fetch(tree / "runs", "latest.pt", tree.parent / "here", "latest.pt")
    assert not (tree.parent / "here/latest.pt").is_symlink()
    assert (tree.parent / "here/latest.pt").read_text() == "weights"


def test_all_that_the_job_sends_is_read_also_behind_the_end(tmp_path: Path) -> None:
    # The end of the archive, two empty blocks, is at 1 MiB, where a read ends. Then comes padding.
    size = (1 << 20) - 3 * tarfile.BLOCKSIZE
    (tmp_path / "file").write_bytes(b"x" * size)
    (tmp_path / "here").mkdir()
    packed = subprocess.check_output(["tar", "-cf", "-", "-C", str(tmp_path), "file"])
    sent = io.BytesIO(packed)
    unpack(sent, tmp_path / "here", "file", "file")
    assert (tmp_path / "here/file").stat().st_size == size
    assert sent.tell() == len(packed) > 1 << 20


@pytest.mark.parametrize("name", [".bashrc", "../x", "/tmp/x"])
def test_a_job_that_sends_something_else_is_refused(tmp_path: Path, name: str) -> None:
    with (tmp_path / "archive").open("w+b") as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            archive.addfile(tarfile.TarInfo(name))
        file.seek(0)
        with pytest.raises(WrongState, match="not asked for"):
            unpack(file, tmp_path, "model.pt", "model.pt")
    assert os.listdir(tmp_path) == ["archive"]


@pytest.mark.parametrize("target", ["new", "there", "there/new", "deep/new"])
def test_a_link_is_sent_as_its_file_under_its_own_name(tree: Path, target: str) -> None:
    there = tree.parent / "here/there"
    there.mkdir()
    source = tree / "runs/latest.pt"
    process = start_sending(tree.parent / "here" / target, find_name(source))
    assert process.stdin is not None
    with process.stdin:
        pack(source, process.stdin, find_name(source))
    assert process.wait(20) == 0
    found = {one: text for one, text in read_tree(tree.parent / "here").items() if text}
    assert found == {"there/latest.pt" if target == "there" else target: "weights"}


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_copy_that_is_broken_off_leaves_nothing_in_the_job(
    tmp_path: Path, number: signal.Signals
) -> None:
    with start_sending(tmp_path / "model.pt", "model.pt") as process:
        assert process.stdin is not None
        half = tarfile.TarInfo("model.pt")
        half.size = 1 << 20
        process.stdin.write(half.tobuf() + b"x" * (1 << 16))
        process.stdin.flush()
        until(lambda: list(tmp_path.glob(".gpupool-cp.*/model.pt")), "a begun copy")
        os.killpg(process.pid, number)
        assert process.wait(20) == 128 + number
    assert os.listdir(tmp_path) == []
