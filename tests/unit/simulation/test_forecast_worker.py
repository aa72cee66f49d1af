"""A forecast in a process of its own says what it would have said here."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.simulation.forecast_worker import (
    COMMAND,
    NICE,
    ForecastQuestion,
    decode_forecasts,
    encode_question,
)
from gpupool.simulation.studies.whatif import PoolChange, forecast_pool
from tests.support.scheduling_builders import snapshot, waiting, whole


def test_the_answer_is_the_same_and_the_process_gives_way_before_it_begins() -> None:
    before = snapshot("2x2xH200", waiting("a", "b", "c", want=whole(2)))
    changes = PoolChange(), PoolChange(remove=("node-1",))
    nice = min(os.getpriority(os.PRIO_PROCESS, 0) + NICE, 19)
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        while os.getpriority(os.PRIO_PROCESS, process.pid) < nice and process.poll() is None:
            time.sleep(0.01)  # it waits for the question once it has
        assert Path(f"/proc/{process.pid}/oom_score_adj").read_text() == "1000\n", (
            "it goes first where memory ends"
        )
        said, _ = process.communicate(
            encode_question(ForecastQuestion(before, changes, 0, 3600 * NS))
        )
    assert decode_forecasts(said) == [
        forecast_pool(before, change, 0, 3600 * NS) for change in changes
    ]
    assert process.returncode == 0


def test_what_is_no_question_has_no_answer() -> None:
    done = subprocess.run(COMMAND, input=b"", capture_output=True, check=False)
    assert (done.returncode != 0, done.stdout) == (True, b"")
