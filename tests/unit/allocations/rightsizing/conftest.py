"""A pool in which an agent reports what jobs use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.idle_house import IdleHouse


@pytest.fixture
def house(tmp_path: Path) -> Iterator[IdleHouse]:
    made = IdleHouse(tmp_path)
    yield made
    made.close()
