"""The power is cut while a pool is under load: what was acknowledged is on every disk that could be
left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.power_loss.agent_rounds import CLIENTS, JOBS, cut_agent, recorded_agent
from tests.support.power_loss.rounds import cut, recorded

pytestmark = pytest.mark.adversary

SEED = 20261123
#: Each time, and at night.
CUTS = [12, pytest.param(40, marks=pytest.mark.nightly)]
DISKS = [7, pytest.param(20, marks=pytest.mark.nightly)]


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("sync", ["group", "none"])
def test_no_acknowledged_write_is_lost_at_any_power_cut(
    tmp_path: Path, sync: str, cuts: int
) -> None:
    """Without flushes the same look must find losses, or it proves nothing."""
    journal = recorded(tmp_path, seconds=2.0, sync=sync)
    verdict = cut(journal, tmp_path / "after", cuts, SEED)
    assert verdict.acknowledged > cuts
    if sync == "group":
        assert verdict.broken == []
    else:
        assert any("was acknowledged and is gone" in broken for broken in verdict.broken)


@pytest.mark.parametrize("disks", DISKS)
def test_an_agent_knows_every_job_it_began_after_any_power_cut(tmp_path: Path, disks: int) -> None:
    """On a disk that only says that it flushed, the same look must find losses, or it proves
    nothing."""
    journal = recorded_agent(tmp_path)
    verdict = cut_agent(journal, disks, SEED)
    assert verdict.looked >= disks * CLIENTS * JOBS
    assert verdict.broken == []
    assert cut_agent(journal, disks, SEED, flushes=False).broken
