"""Machines written as entries of a machine file."""

import json
from pathlib import Path

import pytest

from gpupool.probes.document import read_machines
from gpupool.probes.document_writer import write_machine
from gpupool.probes.preset_files import list_presets
from gpupool.probes.simulated import parse_sim

FILES = sorted((Path(__file__).parents[2] / "machines").glob("*.json"))
EVERY = [*list_presets(), *(str(path) for path in FILES)]


@pytest.mark.parametrize("spec", EVERY)
def test_what_is_written_reads_back_as_the_same_machine(spec: str) -> None:
    machines = parse_sim(spec)
    text = json.dumps({"format": 1, "machines": [write_machine(m) for m in machines]})
    assert read_machines(json.loads(text)) == machines
