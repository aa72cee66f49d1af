"""An engine takes work as often as the server has news."""

from __future__ import annotations

import os
from pathlib import Path
from queue import Queue

from gpupool.agent.config import AgentConfig
from gpupool.agent.network.engine import NetworkEngine
from gpupool.wire.networks import NetworkEngineReport, NetworkEngineWork

CONFIG = AgentConfig("node-1", "p-1", os.geteuid(), os.getegid())


def test_work_that_comes_twice_is_answered_twice(tmp_path: Path) -> None:
    reports: Queue[NetworkEngineReport] = Queue()
    engine = NetworkEngine(tmp_path, CONFIG, reports.put)
    try:
        for _ in range(2):
            engine.apply_work(NetworkEngineWork(want="stop"))
            assert reports.get(timeout=4).state == "stopped"
    finally:
        engine.close()
        engine.join(4)


def test_work_that_comes_during_work_is_done_as_well(tmp_path: Path) -> None:
    reports: Queue[NetworkEngineReport] = Queue()
    more = NetworkEngineWork(want="stop")

    class Interrupted(NetworkEngine):
        """One that gets news while it does the first work."""

        def _stop(self) -> NetworkEngineReport:
            if reports.empty() and self._work is not more:
                self.apply_work(more)
            return super()._stop()

    engine = Interrupted(tmp_path, CONFIG, reports.put)
    try:
        engine.apply_work(NetworkEngineWork(want="stop"))
        for _ in range(2):
            assert reports.get(timeout=4).state == "stopped"
    finally:
        engine.close()
        engine.join(4)
