"""Fenced jobs at work on one card while server, agent, arbiter, supervisors and their own processes
are killed.

Never more of the card than a share; ledgers exact; limits as granted; one arbiter; nothing left.
Seeded as test_kills.py is. `make bench ARGS=fence-faults` does a thousand.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tests.faults.fence_campaign import run_fence_campaign
from tests.faults.fence_truth import CLEARED_SECONDS, SLACK_SECONDS, Card, arbiters
from tests.faults.pool import GPUPOOL, FaultPool, kill, until

pytestmark = [pytest.mark.root, pytest.mark.adversary]
SEED = int(os.environ.get("GPUPOOL_FAULT_SEED") or random.SystemRandom().randrange(1 << 32))


@pytest.mark.parametrize("steps", [8, pytest.param(24, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("separate_agent", [False, True], ids=["agent-inside", "agent-apart"])
def test_whatever_is_killed_shares_hold_and_ledgers_are_exact(
    tmp_path: Path, separate_agent: bool, steps: int
) -> None:
    tmp_path.chmod(0o755)
    counts = run_fence_campaign(tmp_path, SEED, steps, separate_agent=separate_agent)
    print(f"seed {SEED}: {counts}")
    assert counts.looks > 50
    assert max(counts.cleared, default=0.0) < CLEARED_SECONDS + SLACK_SECONDS


WINDOW_SECONDS = 1.5
SHARE_MILLI = 300
MOST = SHARE_MILLI / 1000 + 0.12
"""Of the card's time in a window, whatever is killed: the share, what may be in flight, what an
idle moment saves."""
LEAST = SHARE_MILLI / 1000 * 0.7
"""What comes back when all is well again. How exact it is then is measured elsewhere, on the
virtual clock."""


@pytest.mark.parametrize("what", ["arbiter", "agent"])
def test_without_whoever_divides_it_nobody_has_more_time_than_his_share_and_afterwards_as_much(
    tmp_path: Path, what: str
) -> None:
    tmp_path.chmod(0o755)
    with FaultPool(tmp_path / "state", sim="1xT4") as pool:
        pool.up()
        card = Card(pool)
        jobs = [start_burning(pool, name) for name in ("one", "other")]
        until(lambda: all(card.gpu_ns(job) for job in jobs), "both on the card")
        await_shares(card, jobs)
        if what == "agent":
            pool.kill_server()
        for pid in arbiters(pool):
            kill(pid)
        assert max(parts_of(card, jobs)) <= MOST
        pool.up()
        assert max(parts_of(card, jobs)) <= MOST
        until(lambda: len(arbiters(pool)) == 1, "a new arbiter")
        await_shares(card, jobs)
        card.close()


def start_burning(pool: FaultPool, name: str) -> str:
    argv = [GPUPOOL, "burn", "--seconds", "600", "--kernel-us", "2000"]
    launch = {"argv": argv, "env": {"PATH": "/usr/bin:/bin", "FAULT_POOL": str(pool.paths.root)}}
    shape = {"gpu_milli": SHARE_MILLI, "memory_bytes": 1 << 30}
    with pool.api() as api:
        return str(
            api.request("POST", "jobs", {"name": name, "shape": shape, "launch": launch})["first"][
                "id"
            ]
        )


def parts_of(card: Card, jobs: list[str]) -> list[float]:
    """Of the card's time in one window, by its own word."""
    before, began = [card.gpu_ns(job) for job in jobs], time.monotonic_ns()
    time.sleep(WINDOW_SECONDS)  # a window of the wall clock is what is measured
    return [
        (card.gpu_ns(job) - had) / (time.monotonic_ns() - began)
        for job, had in zip(jobs, before, strict=True)
    ]


def await_shares(card: Card, jobs: list[str]) -> None:
    seen: list[list[float]] = []

    def in_bounds() -> bool:
        seen.append(parts_of(card, jobs))
        return min(seen[-1]) >= LEAST and max(seen[-1]) <= MOST

    try:
        until(in_bounds, "what each was granted", 30)
    except AssertionError as error:
        raise AssertionError(f"{error}: {seen}") from error
