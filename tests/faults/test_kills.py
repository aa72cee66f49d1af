"""A hundred kills at random moments of a pool at work: nothing lost, leaked, doubled or run twice; the books close.

Seeded: `GPUPOOL_FAULT_SEED=N` repeats a plan of kills. The moments depend on the machine, so a repetition is the same
plan and not the same run. `make bench ARGS=faults` does ten thousand.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.faults.harness import run_campaign

SEED = int(os.environ.get("GPUPOOL_FAULT_SEED") or random.SystemRandom().randrange(1 << 32))


@pytest.mark.root
@pytest.mark.parametrize("separate_agent", [False, True], ids=["agent-inside", "agent-apart"])
def test_fifty_kills_under_load_break_no_promise(tmp_path: Path, separate_agent: bool) -> None:
    counts = run_campaign(tmp_path, SEED, 50, separate_agent=separate_agent)
    print(f"seed {SEED}: {counts}")
    assert sum(counts.kills.values()) == 50
    assert counts.ran > 50
