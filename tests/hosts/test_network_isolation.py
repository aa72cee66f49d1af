"""Tenants with the same addresses stay apart while what carries their networks is killed; real OVN.

`GPUPOOL_FAULT_SEED=N` repeats a plan of kills. `python -m bench network-isolation` does 200 rounds
with 20 tenants.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from pathlib import Path

import pytest

from gpupool.agent.network.verification.probe_frames import FORGED, HONEST
from tests.hosts.isolation_kills import run_isolation_kills
from tests.hosts.isolation_watch import SENT
from tests.support.network_pool import OVN_MARKS

SEED = int(os.environ.get("GPUPOOL_FAULT_SEED") or random.SystemRandom().randrange(1 << 31))
pytestmark = [
    *OVN_MARKS,
    pytest.mark.skipif(shutil.which("nft") is None, reason="needs the package nftables"),
]


def run_and_check(rounds: int, tenants: int) -> None:
    directory = Path(tempfile.mkdtemp(prefix="gpi-"))
    directory.chmod(0o755)
    counts = run_isolation_kills(directory, SEED, rounds, tenants)
    print(f"seed {SEED}: {counts}")
    assert counts.rounds == rounds
    assert counts.kills.total() >= rounds
    assert set(counts.frames.sent) == set(SENT)
    # Packets between neighbours went on, but while the switch was away or waited for its database.
    assert counts.lost == 0
    # The same probe finds what is broken by hand.
    assert set(counts.controls) == {*FORGED, *(f"{kind} between tenants" for kind in HONEST)}


@pytest.mark.parametrize("rounds", [4, pytest.param(12, marks=pytest.mark.nightly)])
def test_tenants_stay_apart_through_kills_and_nothing_is_left(rounds: int) -> None:
    run_and_check(rounds, tenants=3)


@pytest.mark.slow
def test_twenty_tenants_stay_apart_through_more_kills() -> None:
    run_and_check(rounds=25, tenants=20)
