"""`docs/how-to/idle.md` on a pool of one simulated card: an idle job is told, shrinks, is used, and has
its share back."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.pool_fixture import RealPool

PROGRAM = Path(__file__).parents[1] / "support" / "idle_program.py"


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[RealPool]:
    with RealPool(tmp_path / "pool", "1xT4") as pool:
        yield pool


def test_an_idle_job_is_told_shrinks_and_grows_back_at_its_first_use(
    pool: RealPool, tmp_path: Path
) -> None:
    words = [sys.executable, str(PROGRAM), "64", str(tmp_path / "ticks"), str(tmp_path / "ask")]
    pool.do("submit", "--gpu", "0.5", "--memory", "4GiB", "--name", "nb", "--", *words)
    pool.until_state("nb", "running")
    follower = pool.start("events", "--follow", "--after", "0", "-o", "json")
    try:
        policy = pool.json(
            "idle", "policy", "set", "--window", "1s", "--warn", "1s", "--shrink", "2s"
        )
        warned = await_event(follower, "job.idle-warned")
        assert warned["data"]["next_act"] == "shrink"
        assert await_event(follower, "job.idle-shrunk")["data"]["gpu_milli"] == 50
        state = pool.json("idle", "list")[0]
        assert (state["name"], state["act"], state["gpu_milli"]) == ("nb", "shrink", 50)
        assert state["policies"] == [policy["id"]]
        # A program in the job is use of it, though it does not touch the card.
        pool.do("exec", "nb", "--", "true")
        await_event(follower, "job.idle-returned")
        assert pool.job("nb")["gpu_milli"] == 500
        pool.do("idle", "policy", "remove", policy["id"], "--yes")
    finally:
        follower.kill()
        follower.communicate()
    rows = pool.json("idle", "report", "--since", "1h")["rows"]
    (shrunk,) = [row for row in rows if row["act"] == "shrink"]
    assert (shrunk["jobs"], shrunk["dry_run"], shrunk["cost_micro"]) == (1, False, None)
    assert shrunk["card_milliseconds"] > 0


def await_event(follower: Any, kind: str) -> dict[str, Any]:
    """Wait for the next event of a kind; the fixture's timeout ends a wait in vain."""
    for line in follower.stdout:
        event: dict[str, Any] = json.loads(line)
        if event["kind"] == kind:
            return event
    raise AssertionError(f"the events ended without {kind}")
