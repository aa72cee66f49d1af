"""Fixtures of several packages of the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.cli.main import main
from tests.support.protocol_lists import NODES, pods


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two policies with two seeds, recorded."""
    made = tmp_path_factory.mktemp("record")
    (made / "nodes.csv").write_text(NODES)
    (made / "pods.csv").write_text(pods())
    words = [
        "simulate",
        str(made / "pods.csv"),
        "--nodes",
        str(made / "nodes.csv"),
        "--protocol",
        "fgd",
    ]
    record = [
        "--policy",
        "default,fgd",
        "--seeds",
        "2",
        "--record",
        str(made / "run.csv"),
        "--out",
        str(made),
    ]
    assert main([*words, *record]) == 0
    return made
