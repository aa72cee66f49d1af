"""`gpupool notebook`: the name that a notebook gets by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpupool.cli.workspace.notebook import _choose_name
from gpupool.model.workspaces.programs import JUPYTER, VSCODE


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
