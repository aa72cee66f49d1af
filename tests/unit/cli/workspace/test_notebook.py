"""`gpupool notebook`: the name that a notebook gets by itself, and Ctrl-C while it waits."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpupool.cli.main import main
from gpupool.cli.workspace.notebook import _choose_name
from gpupool.model.workspaces.programs import JUPYTER, VSCODE
from tests.unit.cli.sample import job
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply


@pytest.mark.parametrize(
    ("names", "of_jupyter", "of_vscode"),
    [
        ([], "nb-1", "vscode-1"),
        (["nb-1", "nb-3", "train"], "nb-2", "vscode-1"),
        (["nb-1", "nb-2", "vscode-1"], "nb-3", "vscode-2"),
    ],
)
def test_the_first_number_without_a_live_job_is_taken(
    names: list[str], of_jupyter: str, of_vscode: str
) -> None:
    asked = list[Any]()

    def request(method: str, path: str, query: Any) -> dict[str, Any]:
        asked.append((method, path, query["state"]))
        return {"items": [{"name": name} for name in names], "next": None}

    context: Any = SimpleNamespace(api=SimpleNamespace(request=request))
    assert _choose_name(JUPYTER, context) == of_jupyter
    assert _choose_name(VSCODE, context) == of_vscode
    assert asked[0] == ("GET", "jobs", ["pending", "running", "starting"])


def test_ctrl_c_while_it_waits_stops_it(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    waiting = job("nb", "pending")

    def answer(asked: Request) -> bytes:
        if asked.target.endswith("/stop"):
            return reply([job("nb", "stopped")])
        if asked.method == "GET":
            os.kill(os.getpid(), signal.SIGINT)
            return reply(waiting)
        return reply({"first": waiting, "array": None, "count": 1}, 201)

    words = ["--state-dir", str(tmp_path), "notebook", "--image", "jupyter", "--name", "nb"]
    try:
        with ScriptedPool(tmp_path, answer) as pool:
            assert main(words) == 130
            asked = [(one.method, one.target.partition("?")[0]) for one in pool.requests]
    finally:
        signal.signal(signal.SIGINT, before)
    assert asked[-1] == ("POST", f"/api/v1/jobs/{waiting['id']}/stop")
