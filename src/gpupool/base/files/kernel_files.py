"""Reads files of the kernel in which names stand that users chose: any bytes but a line feed."""

from __future__ import annotations

import os
from pathlib import Path


def read_kernel_lines(path: Path) -> list[str]:
    """Read the lines of a file below /proc. Raises OSError.

    Names that are no UTF-8 are as `os.fsdecode` gives them, and only a line feed ends a line: the
    kernel escapes it, but not U+2028 or others at which `splitlines` would cut.
    """
    lines = os.fsdecode(path.read_bytes()).split("\n")
    return lines[:-1] if lines[-1] == "" else lines
