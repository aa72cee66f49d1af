"""The simulated machine's file as numbers and records."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpupool.base.errors import BadMachine
from gpupool.probes.simgpu import SimulatedMachine
from tests.unit.probes.simgpu_machine import FIRST


def test_a_file_that_is_cut_short_while_it_is_open_is_an_answer_and_no_crash(
    path: Path, machine: SimulatedMachine
) -> None:
    os.truncate(path, 8192)
    with pytest.raises(BadMachine, match="is cut short"):
        machine.read_busy_ns(FIRST)
