"""`gpupool restart`: whether the server is kept by a `gpupool up`."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.cli.pool.host_process import is_kept


def make_process(proc: Path, pid: int, parent: int, *words: bytes, name: str = "python") -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} 1 1 0")
    (proc / str(pid) / "cmdline").write_bytes(b"\0".join(words) + b"\0")


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ((b"/usr/bin/python", b"/usr/bin/gpupool", b"up"), True),
        ((b"/usr/bin/python", b"-m", b"gpupool.cli.main", b"up", b"--sim"), True),
        ((b"/usr/bin/python", b"/usr/bin/gpupool", b"ps"), False),
        ((b"up", b"gpupool"), False),
        ((b"/sbin/init",), False),
    ],
)
def test_a_server_is_kept_by_the_up_that_is_its_parent(
    words: tuple[bytes, ...], kept: bool, tmp_path: Path
) -> None:
    make_process(tmp_path, 7, 6, b"gpupool.host", name="a) b (c")
    make_process(tmp_path, 6, 1, *words)
    assert is_kept(7, str(tmp_path)) is kept


def test_a_server_that_is_gone_is_not_kept(tmp_path: Path) -> None:
    assert is_kept(7, str(tmp_path)) is False
