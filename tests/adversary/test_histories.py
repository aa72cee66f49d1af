"""Histories of concurrent requests under kills, pauses and clock steps: each answer fits one
order of requests.

Two in the ordinary run, three more at night. `GPUPOOL_FAULT_SEED=N` repeats a plan. `make bench
ARGS=histories` records two hundred.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.histories.campaign import run_history

pytestmark = [pytest.mark.adversary, pytest.mark.root]
SEED = int(os.environ.get("GPUPOOL_FAULT_SEED") or random.SystemRandom().randrange(1 << 32))


@pytest.mark.parametrize(
    "number", [0, 1, *(pytest.param(number, marks=pytest.mark.nightly) for number in range(2, 5))]
)
def test_concurrent_requests_under_faults_are_linearizable(tmp_path: Path, number: int) -> None:
    counts = run_history(tmp_path, SEED + number)
    print(f"seed {SEED + number}: {counts}")
    assert sum(counts.faults.values()) == 4
    assert counts.operations > 100
