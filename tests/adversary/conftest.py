"""A real pool of simulated cards for every file of attacks, and the requests that no honest client
sends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.base.client_settings import client_settings
from gpupool.client.transport import Api
from tests.e2e.pool_fixture import RealPool


def open_to_other_users(place: Path) -> Path:
    """Let other accounts pass through a temporary directory; pytest makes its own for the owner
    alone."""
    for part in (place, *place.parents):
        if part != Path("/") and part.stat().st_uid == os.getuid():
            part.chmod(part.stat().st_mode | 0o111)
    return place


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPool]:
    """Four simulated cards; one pool for all tests of a file."""
    with RealPool(open_to_other_users(tmp_path_factory.mktemp("adversary")) / "pool") as running:
        yield running


@pytest.fixture(scope="module")
def api(pool: RealPool) -> Api:
    """Raw requests to that pool as its owner, past every check that the command line makes."""
    return Api(client_settings(state_dir=str(pool.state_dir)))
