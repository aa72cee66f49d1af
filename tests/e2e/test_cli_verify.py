"""`verify` on a real pool: it shows what can be shown, keeps a report, and leaves nothing behind
however it ends.

Figures of compute are asserted on virtual time and measured by the benches; a busy machine must not
fail a test.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.pool_fixture import RealPool


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPool]:
    with RealPool(tmp_path_factory.mktemp("verify") / "pool", sim="2xL40S") as running:
        yield running


@pytest.fixture(autouse=True)
def _nothing_is_left(pool: RealPool) -> Iterator[None]:
    yield
    assert pool.json("ps", "--live") == []
    assert [tenant["name"] for tenant in pool.json("tenant", "list")] == ["default"]
    assert pool.held_milli() == 0


def test_memory_holds_on_the_card_that_is_named_and_the_report_says_so(
    pool: RealPool, tmp_path: Path
) -> None:
    done = pool.run(
        "verify", "sim-0:1", "--quick", "--only", "memory", "--out", str(tmp_path / "audit")
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads((tmp_path / "audit" / "verify.json").read_text())
    assert told["kept"] is True
    assert {one["key"] for one in told["findings"]} == {
        "card-seen",
        "limit-seen",
        "limit-held",
        "neighbour-memory",
    }
    identity = told["identity"]
    assert (identity["card"], identity["simulated"], identity["quick"]) == ("sim-0:1", True, True)
    assert identity["fence"] in ("soft", "advisory")
    assert "SIMULATED" in (tmp_path / "audit" / "verify.html").read_text()
    assert "SIMULATED" in done.stdout


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_ends_what_it_started(pool: RealPool, how: signal.Signals) -> None:
    process = pool.start("verify", "--only", "neighbours", "--no-report")

    def running() -> bool:
        return any(
            job["name"].endswith("-quiet") and job["state"] == "running"
            for job in pool.json("ps", "--live")
        )

    pool.until(running, "the first of its jobs")
    process.send_signal(how)
    assert process.wait(60) == 130


def test_a_card_that_is_not_free_is_refused_with_what_is_on_it(pool: RealPool) -> None:
    pool.do("submit", "--gpu", "0.1", "--memory", "1GiB", "--name", "holds", "--", "sleep", "600")
    try:
        card = pool.until_state("holds", "running")["device"]
        done = pool.run("verify", card, "--quick")
        assert (done.returncode, done.stdout) == (3, "")
        assert f"{card} is not free: 1 shares are on it" in done.stderr
    finally:
        pool.do("stop", "holds", "--grace", "0")


def test_a_card_nobody_knows_is_not_found(pool: RealPool) -> None:
    assert pool.run("verify", "nowhere:7").returncode == 5
