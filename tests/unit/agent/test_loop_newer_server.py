"""An agent against the real server, whose answers have fields that came later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.supervised import until
from tests.unit.agent.pool import PoolServer, agent_here

pytestmark = pytest.mark.root


class NewerApi:
    """Adds a field to what the server has for an agent; jobs of one name demand something by it."""

    def __init__(self, api: Any) -> None:
        self._api = api

    def request(self, method: str, path: str, *words: Any, **options: Any) -> Any:
        answer = self._api.request(method, path, *words, **options)
        if path.endswith("/work"):
            answer["added_later"] = None
            for work in answer["work"]:
                is_demanding = work["job_name"] == "demanding" and work["want"] == "run"
                work["added_later"] = "strict" if is_demanding else None
        return answer

    def close(self) -> None:
        self._api.close()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PoolServer]:
    made = PoolServer(tmp_path)
    made.begin()
    make_api = made.api
    monkeypatch.setattr(made, "api", lambda: NewerApi(make_api()))
    agent = agent_here(made)
    monkeypatch.setattr(made, "api", make_api)
    agent.start()
    try:
        until(lambda: made.node_is_ready("sim-0"), "the node's readiness")
        yield made
    finally:
        agent.close()
        agent.join()
        made.end()


def test_a_job_runs_whose_later_fields_are_empty(server: PoolServer) -> None:
    job = server.submit("exit 3")
    assert server.until_state(job["id"], "failed", "done")["exit_code"] == 3
    until(lambda: not server.leftovers(), "nothing being left")


def test_a_job_with_a_later_demand_fails_alone_and_says_why(server: PoolServer) -> None:
    refused = server.submit("true", name="demanding")
    reason = server.until_state(refused["id"], "failed")["reason"]
    assert "does not know added_later: upgrade gpupool there" in reason
    job = server.submit("true")
    assert server.until_state(job["id"], "failed", "done")["state"] == "done"
    until(lambda: not server.leftovers(), "nothing being left")
    assert server.held_shares() == 0
