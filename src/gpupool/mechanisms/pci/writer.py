"""Writes kernel attributes, and keeps a list of what it wrote.

A test puts a subclass in its place that plays the kernel's reaction, or ends the process at a write.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class AttributeWrite:
    """One write(2) to an attribute."""

    path: Path
    text: str


class SysfsWriter:
    """The only way in which this package changes anything below `/sys`."""

    def __init__(self) -> None:
        self.writes: list[AttributeWrite] = []

    def write(self, path: Path, text: str) -> None:
        """Write an attribute in one call, as the kernel's parsers expect. May block for ever.

        Raises:
            OSError: the kernel refuses the value.
        """
        self.writes.append(AttributeWrite(path, text))
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)
