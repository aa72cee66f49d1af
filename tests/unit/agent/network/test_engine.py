"""The engine's thread takes every work that the server sends, not the first one alone."""

from __future__ import annotations

import queue
from pathlib import Path

import pytest

from gpupool.agent.network.engine import NetworkEngine
from gpupool.wire.networks import NetworkEngineReport, NetworkEngineWork


def test_a_second_work_is_carried_out_by_the_same_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without its programs the engine says what is missing, and touches nothing.
    monkeypatch.setenv("PATH", "/nonexistent")
    reports = queue.Queue[NetworkEngineReport]()
    engine = NetworkEngine(tmp_path, 0, reports.put)
    try:
        for _ in range(2):
            engine.apply_work(NetworkEngineWork(want="run"))
            report = reports.get(timeout=5)
            assert report.state == "failed"
            assert "ovn-northd" in report.reason
    finally:
        engine.close()
        engine.join(5)
