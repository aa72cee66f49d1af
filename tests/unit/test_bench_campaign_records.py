"""What long campaigns record is there while they run: one that is cut off has not run for
nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from bench.figures import failover, histories
from tests.faults.failover_campaign import Failovers, Takeover
from tests.histories.campaign import Counts


@pytest.fixture(autouse=True)
def _folders_of_campaigns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_histories_that_are_cut_off_leave_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_history(_directory: Path, seed: int) -> Counts:
        if seed == 12:
            raise KeyboardInterrupt
        return Counts(operations=5, objects=1)

    monkeypatch.setattr(histories, "run_history", run_history)
    monkeypatch.setenv("BENCH_HISTORIES", "9")
    monkeypatch.setenv("BENCH_SEED", "10")
    with pytest.raises(KeyboardInterrupt):
        histories.run(tmp_path)
    said = (tmp_path / "histories.md").read_text()
    assert said.startswith("# 2 histories\n")
    assert "First seed 10" in said
    assert "Not explained by any order: 0. In the others 10 requests" in said


def test_takeovers_that_are_cut_off_leave_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_failovers(_directory: Path, seed: int, _rounds: int) -> Failovers:
        if seed == 11:
            raise KeyboardInterrupt
        done = Failovers(takeovers=[Takeover("kill", 2.5, "0.2", "0.1 s")], until_submitted=[4.0])
        done.ways["kill"] = 1
        return done

    monkeypatch.setattr(failover, "run_failovers", run_failovers)
    monkeypatch.setenv("BENCH_ROUNDS", "100")
    monkeypatch.setenv("BENCH_SEED", "10")
    with pytest.raises(KeyboardInterrupt):
        failover.run(tmp_path)
    said = (tmp_path / "failover.md").read_text()
    assert said.startswith("# 1 takeovers\n")
    assert "* kill, 2.50 s; seen 0.2 s late; its work 0.1 s" in said
