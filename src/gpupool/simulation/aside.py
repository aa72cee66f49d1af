"""A forecast in a process of its own: `python -m gpupool.simulation.aside` reads a question and writes the answer.

A forecast is nothing but computing, for seconds; in the process of a server it would hold the interpreter that every
other request needs. The process gives way to everything else on its machine and ends by itself after `MOST_SECONDS`,
whatever became of who asked.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpupool.scheduling import kernel
from gpupool.scheduling.foretold import Foretold, Tally
from gpupool.scheduling.snapshot import Snapshot
from gpupool.simulation.whatif import Change, Forecast, forecast

MOST_SECONDS = 240
NICE = 10
OOM_SCORE = Path("/proc/self/oom_score_adj")
FIRST_TO_GO = "1000"
"""proc(5): the kernel ends this process before any other when memory runs out."""
COMMAND = (sys.executable, "-m", "gpupool.simulation.aside")


@dataclass(frozen=True)
class Question:
    """One pool, played forward with each of the changes."""

    snapshot: Snapshot
    changes: tuple[Change, ...]
    now_ns: int
    horizon_ns: int
    library: Path | None = None
    """Of the compiled kernel, where who asks decides by it."""
    tallies: Mapping[str, Tally] = field(default_factory=dict)
    """How often starts that were told came true (`foretold`)."""


def asked(question: Question) -> bytes:
    return pickle.dumps(question)


def answered(said: bytes) -> Sequence[Forecast]:
    """What the process wrote; only ever read from one that was just started here."""
    found: Sequence[Forecast] = pickle.loads(said)
    return found


def main() -> None:
    OOM_SCORE.write_text(FIRST_TO_GO)
    os.nice(NICE)
    signal.alarm(MOST_SECONDS)
    question: Question = pickle.load(sys.stdin.buffer)
    kernel.adopt(question.library)
    book = Foretold(question.tallies)
    now_ns, horizon_ns = question.now_ns, question.horizon_ns
    found = [forecast(question.snapshot, one, now_ns, horizon_ns, book) for one in question.changes]
    pickle.dump(found, sys.stdout.buffer)


if __name__ == "__main__":
    main()
