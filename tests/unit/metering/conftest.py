"""A pool with real books, on SQLite or on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.store.database import sqlite_url
from tests.support.metering_books import Pool


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    made = Pool(sqlite_url(tmp_path / "gpupool.db"))
    yield made
    made.engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def any_pool(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pool]:
    """The same suite on both databases."""
    sqlite = request.param == "sqlite"
    made = Pool(
        sqlite_url(tmp_path / "gpupool.db")
        if sqlite
        else request.getfixturevalue("postgres_pool_url")
    )
    yield made
    made.engine.dispose()
