"""The SDK's advice: each use is one request of the REST API, and its answer is typed."""

from __future__ import annotations

from pathlib import Path

from gpupool.client import Pool
from gpupool.client.rightsizing.advice import Rightsizing
from tests.unit.cli.rightsizing.test_advise import ADVICE
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply

BACKTEST = {
    "since_ns": 1,
    "until_ns": 2,
    "families": 1,
    "judged_runs": 0,
    "unjudged_runs": 3,
    "requested_hours": 0.0,
    "methods": [
        {
            "method": "advised",
            "starved_percent": None,
            "starved_runs": 0,
            "short_of_memory": 0,
            "given_hours": 0.0,
            "saved_hours": 0.0,
            "saved_percent": None,
        }
    ],
}


def test_families_and_backtest_are_one_request_each(tmp_path: Path) -> None:
    def give(asked: Request) -> bytes:
        return reply(BACKTEST if "backtest" in asked.target else [ADVICE])

    with ScriptedPool(tmp_path / "pool", give) as server, Pool(tmp_path / "pool") as pool:
        advice = Rightsizing(pool.api)
        (family,) = advice.families("7d", family="train")
        found = advice.backtest(tenant="nlp")

    assert (family.pattern, family.gpu_milli, family.live[0].name) == ("train", 150, "train-7")
    assert found.methods[0].starved_percent is None
    assert [one.target for one in server.requests] == [
        "/api/v1/advice?since=7d&family=train",
        "/api/v1/advice/backtest?since=30d&tenant=nlp",
    ]
