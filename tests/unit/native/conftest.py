"""What native tests share: the front door built with every check of the compiler, headers, a fenced
card."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.compute import build_simulation, simulation_name
from tests.support.fenced_card import LOAD, Card, build_load
from tests.unit.native.fence_build import Headers, shared, shared_headers
from tests.unit.native.fence_house import LIMIT, House, make_house
from tests.unit.native.front_pool import (
    FELL_BACK,
    SANITIZERS,
    STATE_DIR,
    FakePool,
    Programs,
    compile_front,
    python_command,
    script,
)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`bin/gpupool` under the sanitizers, with a Python command that only says that it was
    called."""
    return shared(tmp_path_factory, "front", _build_front)


def _build_front(folder: Path) -> None:
    compile_front(folder / "gpupool", *SANITIZERS)
    script(folder / "gpupool-cli", f'#!/bin/sh\necho "fell back: $*"\nexit {FELL_BACK}\n')


def _build_simulation(folder: Path) -> None:
    build_simulation(folder)


@pytest.fixture(scope="session")
def simulation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that runs limiter, arbiter and card on virtual time, built once in a run."""
    return shared(tmp_path_factory, "fence-simulation", _build_simulation) / simulation_name()


@pytest.fixture
def programs(built: Path, tmp_path: Path) -> Iterator[Programs]:
    pool = FakePool(tmp_path / STATE_DIR)
    script(tmp_path / "python-gpupool", python_command())
    yield Programs(built / "gpupool", tmp_path / "python-gpupool", tmp_path, pool)
    pool.close()


@pytest.fixture(scope="session")
def headers(tmp_path_factory: pytest.TempPathFactory) -> Headers:
    """The vendor's headers, and the symbols they declare."""
    return shared_headers(tmp_path_factory)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """One simulated T4."""
    made = make_house(tmp_path)
    yield made
    made.close()


@pytest.fixture
def share(house: House) -> Path:
    """The base directory of a share of LIMIT bytes."""
    return house.share(LIMIT)


@pytest.fixture(scope="session")
def load(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that launches kernels as it is told, built once in a run of the tests."""
    return shared(tmp_path_factory, "fence-load", build_load) / LOAD.stem


@pytest.fixture
def card(tmp_path: Path) -> Card:
    return Card(tmp_path)
