"""`gpupool ps`: jobs as rows, what each column says of which state."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpupool.cli.main import main
from gpupool.cli.work import ps
from tests.unit.cli.golden import GoldenLine, TypedLine
from tests.unit.cli.sample import job
from tests.unit.client.scripted_pool import ScriptedPool


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("ps", "ps"),
        ("ps-wide", "ps -o wide"),
        ("ps-limit", "ps --limit 2"),
    ],
)
def test_ps_prints_the_recorded_output(name: str, line: str, golden_line: GoldenLine) -> None:
    golden_line(name, line)


def test_ps_as_json_has_every_page_and_the_fields_scripts_rely_on(
    pool: ScriptedPool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpupool.client.paging.PAGE", 2)
    assert main(["ps", "-o", "json", "--limit", "1"]) == 0
    jobs = json.loads(capsys.readouterr().out)
    assert len(jobs) == 5
    assert all({"name", "state", "gpu_milli", "memory_bytes", "device"} <= set(job) for job in jobs)


@pytest.mark.parametrize(
    ("row", "lasted"),
    [
        (job(), "2:05"),
        (job(state="pending"), "1:05"),
        (job(state="done"), "1:30"),
        (job(state="stopped", started_ns=None), None),
    ],
)
def test_time_is_of_the_run_or_of_the_wait_and_none_for_what_never_ran(
    row: dict[str, Any], lasted: str | None, pool: ScriptedPool
) -> None:
    assert ps.describe_duration(row) == lasted


def test_place_is_the_first_card_and_how_many_more() -> None:
    one = job()
    assert ps.describe_place(one) == "node-1:0"
    assert ps.describe_place({**one, "seats": one["seats"] * 3}) == "node-1:0 +2"
    assert ps.describe_place(job(state="pending")) is None


def test_ending_names_the_signal_before_the_exit_code() -> None:
    assert ps.describe_ending(job(state="stopped", signal=15, exit_code=143)) == "signal 15"
    assert ps.describe_ending(job(state="done", exit_code=0)) == "0"
    assert ps.describe_ending(job()) is None


def test_remark_is_the_start_and_the_reason_else_the_command() -> None:
    waits = job(state="pending", reason="full", start="by noon")
    assert ps.describe_remark(waits) == "starts by noon; full"
    assert ps.describe_remark({**waits, "jobs": 12}) == "12 jobs: starts by noon; full"
    assert ps.describe_remark(job()) == "python train.py"
    script = job(command=["sh", "-c", "set -e\nexec jupyter-lab\n", "nb"])
    assert ps.describe_remark(script) == "sh -c set -e … nb"


def test_ps_mine_asks_who_the_caller_is(pool: ScriptedPool, type_line: TypedLine) -> None:
    assert type_line("ps --mine --state pending --state running")[0] == 0
    assert [one.target.partition("?")[0] for one in pool.requests] == [
        "/api/v1/whoami",
        "/api/v1/jobs",
    ]
    assert "state=pending&state=running&" in pool.requests[-1].target
    assert "user=alice" in pool.requests[-1].target


def test_a_search_goes_to_the_pool_with_its_order(pool: ScriptedPool, type_line: TypedLine) -> None:
    assert type_line("ps -q llama --project llm --state failed --sort=-gpu")[0] == 0
    asked = pool.requests[-1].target
    for part in ("q=llama", "project=llm", "state=failed", "sort=-gpu"):
        assert part in asked


def test_an_unknown_order_is_refused_before_the_pool_is_asked(
    pool: ScriptedPool, type_line: TypedLine
) -> None:
    code, _, err = type_line("ps --sort colour")
    assert (code, err.splitlines()[0]) == (2, "gpupool: GP-1005: --sort 'colour' is not known")
    assert pool.requests == []
