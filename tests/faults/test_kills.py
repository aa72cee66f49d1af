"""Kills at random moments of a pool at work: nothing lost, leaked, doubled or run twice; the books
close.

Seeded: `GPUPOOL_FAULT_SEED=N` repeats a plan of kills. The moments depend on the machine, so a
repetition is the same plan and not the same run. `make bench ARGS=faults` does ten thousand.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.faults.gang_campaign import GangCampaign, run_gang_campaign
from tests.faults.harness import CI, SHORT, Campaign, run_campaign
from tests.faults.shortages import full_disk

# Run by make test-adversary: they take a minute.
pytestmark = [pytest.mark.root, pytest.mark.adversary]

SEED = int(os.environ.get("GPUPOOL_FAULT_SEED") or random.SystemRandom().randrange(1 << 32))


@pytest.mark.parametrize(
    ("separate_agent", "kills", "parts"),
    # The bench `faults` kills both hundreds of times.
    [
        pytest.param(False, 20, SHORT, id="agent-inside"),
        pytest.param(True, 10, SHORT, id="agent-apart"),
        pytest.param(False, 50, CI, id="agent-inside-50", marks=pytest.mark.nightly),
        pytest.param(True, 50, CI, id="agent-apart-50", marks=pytest.mark.nightly),
    ],
)
def test_kills_under_load_break_no_promise(
    tmp_path: Path, separate_agent: bool, kills: int, parts: dict[str, int]
) -> None:
    counts = run_campaign(tmp_path, SEED, kills, separate_agent=separate_agent, parts=parts)
    print(f"seed {SEED}: {counts}")
    assert sum(counts.kills.values()) == kills
    assert counts.ran > kills


def test_gangs_preemption_and_moves_survive_a_dozen_kills(tmp_path: Path) -> None:
    parts = {"server": 50, "agent": 0, "client": 0, "supervisor": 25, "job": 25}
    counts = run_gang_campaign(tmp_path, SEED, 12, separate_agent=False, parts=parts)
    print(f"seed {SEED}: {counts}")
    assert sum(counts.kills.values()) == 12
    assert counts.kinds["job.placed"] > 12


@pytest.mark.parametrize("kind", [Campaign, GangCampaign])
def test_a_pool_without_a_file_system_of_its_own_has_no_disk_filled(
    tmp_path: Path, kind: type[Campaign]
) -> None:
    state = kind(tmp_path, SEED, separate_agent=False).pool.paths.root
    assert state.parent == tmp_path / "disk", "what `own_disk` mounts"
    with pytest.raises(ValueError, match="no file system of its own"), full_disk(state):
        raise AssertionError("the machine's disk was filled")
