"""Stand-ins for cards: a compiled NVML, and a simulated machine's file with a program that uses
it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.probes.simgpu import SimulatedMachine, create_machine
from tests.unit.native.simgpu_model import User, compile_user
from tests.unit.probes.fake_driver import ask_probe, compile_driver
from tests.unit.probes.simgpu_machine import MACHINE


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_driver(tmp_path_factory.mktemp("driver"))


@pytest.fixture(scope="session")
def sysfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sys")
    for address, node in (("0000:3b:00.0", "1"), ("0000:3c:00.0", "-1")):
        (root / "bus/pci/devices" / address).mkdir(parents=True)
        (root / "bus/pci/devices" / address / "numa_node").write_text(f"{node}\n")
    for node in ("card1", "renderD128"):
        (root / "bus/pci/devices/0000:3c:00.0/drm" / node).mkdir(parents=True)
    return root


@pytest.fixture(scope="session")
def pair(library: Path, sysfs: Path) -> dict[str, Any]:
    return ask_probe(library, "pair", sysfs, pid=os.getpid())


@pytest.fixture(scope="session")
def switch(library: Path, sysfs: Path) -> dict[str, Any]:
    return ask_probe(library, "switch", sysfs)


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_user(tmp_path_factory.mktemp("simgpu") / "simgpu-user")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create_machine(tmp_path / "simgpu" / "machine", MACHINE)
    return tmp_path / "simgpu" / "machine"


@pytest.fixture
def machine(path: Path) -> Iterator[SimulatedMachine]:
    with SimulatedMachine(path) as opened:
        yield opened


@pytest.fixture
def user(program: Path, path: Path) -> Iterator[User]:
    with User(program, path) as process:
        yield process
