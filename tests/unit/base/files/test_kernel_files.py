"""Lines of files of the kernel are those that the kernel ended."""

from __future__ import annotations

from pathlib import Path

from gpupool.base.files.kernel_files import read_kernel_lines


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    path = tmp_path / "mountinfo"
    path.write_bytes("a\u2028b\x85c\rd\n".encode() + b"e\xff\n")
    assert read_kernel_lines(path) == ["a\u2028b\x85c\rd", "e\udcff"]
    path.write_bytes(b"")
    assert read_kernel_lines(path) == []
