"""A forecast in a process of its own says what it would have said here."""

from __future__ import annotations

import fcntl
import os
import resource
import subprocess
from pathlib import Path

from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.simulation.forecast_worker import (
    COMMAND,
    HIGHEST_OOM_SCORE,
    NICE,
    ForecastQuestion,
    decode_forecasts,
    encode_question,
)
from gpupool.simulation.studies.whatif import PoolChange, forecast_pool
from tests.support.scheduling_builders import snapshot, waiting, whole


def test_the_answer_is_the_same_and_the_process_gives_way_before_it_begins() -> None:
    before = snapshot("20x2xH200", waiting("a", "b", "c", want=whole(2)))
    changes = PoolChange(), PoolChange(remove=("node-1",))
    nice = min(os.getpriority(os.PRIO_PROCESS, 0) + NICE, 19)
    question = encode_question(ForecastQuestion(before, changes, 0, 3600 * NS))
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        room = fcntl.fcntl(process.stdin, fcntl.F_SETPIPE_SZ, resource.getpagesize())
        assert len(question) - 1 > room
        # More than the pipe has room for: this returns when the process has begun to read.
        process.stdin.write(question[:-1])
        process.stdin.flush()
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == nice
        score = Path(f"/proc/{process.pid}/oom_score_adj").read_text()
        assert score == f"{HIGHEST_OOM_SCORE}\n", "it goes first where memory ends"
        said, _ = process.communicate(question[-1:])
    assert decode_forecasts(said) == [
        forecast_pool(before, change, 0, 3600 * NS) for change in changes
    ]
    assert process.returncode == 0


def test_what_is_no_question_has_no_answer() -> None:
    done = subprocess.run(COMMAND, input=b"", capture_output=True, check=False)
    assert (done.returncode != 0, done.stdout) == (True, b"")
