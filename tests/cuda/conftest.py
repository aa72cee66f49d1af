"""A simulated machine of a test's own, and programs on it: alone here, under shares in
test_shares.py."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpupool.probes.simgpu import SimulatedMachine, create_machine
from gpupool.probes.simulated import parse_sim
from gpupool_native import simgpu_dir
from tests.e2e.pool_fixture import RealPool
from tests.support import cuda_programs

SECONDS = 120


@dataclass(frozen=True)
class Cards:
    """Simulated cards that nobody shares. `path` is their machine file."""

    path: Path

    @property
    def environ(self) -> dict[str, str]:
        """For a program that is to find these cards and the simulated libraries, and the pool of no
        one."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CUDA_", "GPUPOOL_", "LD_"))
        }
        return {**kept, "LD_LIBRARY_PATH": str(simgpu_dir()), "GPUPOOL_SIMGPU": str(self.path)}

    def run(
        self, command: Sequence[str | Path], environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """One program, whatever it answers."""
        return subprocess.run(
            command,
            env={**self.environ, **(environ or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )

    def json(self, command: Sequence[str | Path], environ: Mapping[str, str] | None = None) -> Any:
        """What a program that must succeed printed, a JSON document a line; of one line its
        document."""
        done = self.run(command, environ)
        assert done.returncode == 0, f"{done.returncode}\n{done.stdout}{done.stderr}"
        documents = [json.loads(line) for line in done.stdout.splitlines()]
        return documents[0] if len(documents) == 1 else documents

    def start(self, command: Sequence[str | Path]) -> subprocess.Popen[str]:
        """A program left running, which ends with its standard input."""
        return subprocess.Popen(
            command,
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def look(self) -> SimulatedMachine:
        return SimulatedMachine(self.path)


@pytest.fixture
def cards(tmp_path: Path) -> Cards:
    """Two cards of 48 GB."""
    path = tmp_path / "simgpu" / "machine"
    create_machine(path, parse_sim("2xL40S")[0])
    return Cards(path)


@pytest.fixture(scope="session")
def python() -> Path:
    return cuda_programs.python()


@pytest.fixture(scope="session")
def features() -> Path:
    return cuda_programs.compiled("features.cu")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPool]:
    """A pool with one card of 48 GB."""
    with RealPool(tmp_path_factory.mktemp("pool") / "state", sim="L40S") as pool:
        yield pool
