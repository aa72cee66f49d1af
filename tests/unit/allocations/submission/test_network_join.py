"""Which network the jobs of a checked submission join."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.allocations.submission import store as submission_store
from gpupool.allocations.submission.network_join import find_network_columns
from tests.unit.network.conftest import NetworkHouse


@pytest.fixture
def house(tmp_path: Path) -> Iterator[NetworkHouse]:
    made = NetworkHouse(tmp_path)
    yield made
    made.close()


def test_a_default_network_that_is_made_after_the_check_is_for_later_jobs(
    house: NetworkHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that was checked without a network may be placed where no engine is ready."""
    house.enable()
    house.create_network("a", "10.0.0.0/24")

    def make_default(connection: Any, submission: Any) -> Any:
        connection.exec_driver_sql("UPDATE networks SET is_default = 1")
        return find_network_columns(connection, submission)

    monkeypatch.setattr(submission_store, "find_network_columns", make_default)
    assert house.submit(name="early").network is None
    monkeypatch.undo()
    assert house.submit(name="later").network == "a"
