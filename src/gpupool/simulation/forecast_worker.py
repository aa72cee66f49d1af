"""Compute a forecast in a process of its own: `python -m gpupool.simulation.forecast_worker`.

The process reads a question on standard input and writes the answer on standard output. A forecast
computes for seconds; in the server's process it would hold the interpreter that every other request
needs. The process yields to everything else on its machine and ends itself after `MOST_SECONDS`,
even if the process that asked is gone.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpupool.scheduling.filtering import native_library
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.timeline.start_records import ForecastTally, StartForecasts
from gpupool.simulation.studies.whatif import PoolChange, PoolForecast, forecast_pool

#: Seconds until SIGALRM ends the process: the server may be killed while it waits, and then no
#: other process ends this one.
MOST_SECONDS = 240
#: Added to the niceness: the agent and the server go first.
NICE = 10
OOM_SCORE = Path("/proc/self/oom_score_adj")
#: The highest value of proc(5): when memory runs out, the kernel ends this process before others.
HIGHEST_OOM_SCORE = "1000"
#: How the server starts the process; a question on its standard input.
COMMAND = (sys.executable, "-m", "gpupool.simulation.forecast_worker")


@dataclass(frozen=True)
class ForecastQuestion:
    """One pool, played forward with each of the changes."""

    snapshot: Snapshot
    changes: tuple[PoolChange, ...]
    now_ns: int
    horizon_ns: int
    #: Of the compiled kernel, if the server decides by it.
    library: Path | None = None
    #: How often estimated starts came true (`start_records`).
    tallies: Mapping[str, ForecastTally] = field(default_factory=dict)


def encode_question(question: ForecastQuestion) -> bytes:
    """Encode a question for the process's standard input."""
    return pickle.dumps(question)


def decode_forecasts(output: bytes) -> Sequence[PoolForecast]:
    """Decode what the process wrote: one forecast for each change, in their order.

    Pickle runs code that its input names. The output is read only from a process that this server
    has started itself, over a pipe.
    """
    forecasts: Sequence[PoolForecast] = pickle.loads(output)
    return forecasts


def main() -> None:
    """Answer one question, then exit."""
    # Before the question is read: reading a large pool already takes memory and time.
    OOM_SCORE.write_text(HIGHEST_OOM_SCORE)
    os.nice(NICE)
    signal.alarm(MOST_SECONDS)
    question: ForecastQuestion = pickle.load(sys.stdin.buffer)
    native_library.adopt_native_library(question.library)
    book = StartForecasts(question.tallies)
    forecasts: list[PoolForecast] = []
    for change in question.changes:
        forecasts.append(
            forecast_pool(question.snapshot, change, question.now_ns, question.horizon_ns, book)
        )
    pickle.dump(forecasts, sys.stdout.buffer)


if __name__ == "__main__":
    main()
