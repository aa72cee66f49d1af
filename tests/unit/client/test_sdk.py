"""The SDK: what a program asks is what the command line would ask, and answers have the wire's
shapes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import BadOption, BadQuantity
from gpupool.client import Pool
from gpupool.client.submission import job_body
from tests.unit.cli.sample import answers, sample_pool
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply


def test_a_submission_from_a_program_is_the_one_from_the_command_line(tmp_path: Path) -> None:
    with sample_pool(tmp_path) as running, Pool(tmp_path) as pool:
        submitted = pool.submit(
            ["sh", "-c", "x y"],
            gpu=0.3,
            memory="8GiB",
            labels={"rack": "r1"},
            priority=-5,
            wait=False,
            max_time="1h",
        )
        pool.submit("sh -c 'x y'", gpu="0.3", array=3)
        sent = [asked.json for asked in running.requests]
    assert submitted.first.name == "train"
    wanted = job_body(
        ["sh", "-c", "x y"],
        gpu="0.3",
        memory="8GiB",
        labels=["rack=r1"],
        priority="-5",
        wait=False,
        max_time="1h",
    )
    assert sent[0] == _plain(wanted)
    assert (sent[1]["launch"]["argv"], sent[1]["array"]) == (["sh", "-c", "x y"], 3)


def _plain(body: dict[str, Any]) -> dict[str, Any]:
    limits = {name: list(pair) for name, pair in body["launch"]["limits"].items()}
    return {**body, "launch": {**body["launch"], "limits": limits}}


def test_what_makes_no_sense_is_refused_before_the_pool_is_asked(tmp_path: Path) -> None:
    with sample_pool(tmp_path) as running, Pool(tmp_path) as pool:
        with pytest.raises(BadQuantity, match="did you mean 8GiB"):
            pool.submit(["true"], gpu=0.3, memory="8")
        assert running.requests == []


def test_lists_come_over_all_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpupool.client.paging.PAGE", 2)
    with sample_pool(tmp_path) as running, Pool(tmp_path) as pool:
        assert [job.name for job in pool.jobs()] == [job["name"] for job in answers()["jobs"]]
        assert len(running.requests) == 3
        assert [card.name for card in pool.gpus(model="H200")] == [
            "node-1:0",
            "node-1:1",
            "node-1:2",
        ]
        assert "model=H200" in running.requests[-1].target


def test_single_answers_are_typed(tmp_path: Path) -> None:
    with sample_pool(tmp_path), Pool(tmp_path) as pool:
        assert pool.job("train").exit_code == 0
        assert pool.explain("big").ahead == 1
        assert pool.whoami().quota.maximum_milli == 3000
        assert [job.state for job in pool.stop("train", grace_seconds=1)] == ["stopped"]
        assert pool.wait("train").state == "done"


def test_a_report_takes_instants_and_prices(tmp_path: Path) -> None:
    with sample_pool(tmp_path) as running, Pool(tmp_path) as pool:
        since = datetime(2026, 11, 1, tzinfo=UTC)
        report = pool.report(
            since, by=["tenant", "user"], prices={"H200": 3.5, "*": 1}, currency="EUR"
        )
        asked = running.requests[0].target
    assert sum(row.card_milliseconds for row in report.rows) == report.capacity_card_milliseconds
    assert "since=2026-11-01T00:00:00%2B00:00" in asked
    assert "by=tenant,user&price=H200:3.5&price=%2A:1&rule=max&currency=EUR" in asked


def test_logs_are_followed_to_the_end(tmp_path: Path) -> None:
    pieces = [("YWI=", 2, False), ("", 2, False), ("Yw==", 3, True)]

    def answer(asked: Request) -> bytes:
        data, following, ended = pieces.pop(0)
        return reply(
            {
                "data": data,
                "offset": 0,
                "next_offset": following,
                "dropped_bytes": 0,
                "ended": ended,
            }
        )

    with ScriptedPool(tmp_path, answer), Pool(tmp_path) as pool:
        assert b"".join(pool.logs("train", follow=True)) == b"abc"
        assert pieces == []


def test_run_needs_the_pools_own_machine() -> None:
    with pytest.raises(BadOption, match="needs a pool on this machine"):
        Pool(url="http://127.0.0.1:1").run(["true"])


def test_a_pool_is_named_in_one_way() -> None:
    with pytest.raises(BadOption):
        Pool("/tmp/x", url="http://h:1")
