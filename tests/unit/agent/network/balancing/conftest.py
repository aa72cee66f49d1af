"""A directory whose path is short enough for sockets: they have 107 bytes at most."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def short_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gpb-") as directory:
        yield Path(directory)
