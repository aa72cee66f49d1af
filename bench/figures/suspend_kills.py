"""Suspends and resumes whose step is killed at a line or at a moment, again and again.

A job of two programs on a simulated card. After each kill a further step finishes; then all memory
is off the card and both programs are stopped, or both run and have their contents.
"""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

from bench.rows import Row
from tests.support.suspended_jobs import SuspendedJob, run_kills

NAME = "suspend-kills"
COMMAND = "python -m bench suspend-kills"
#: BENCH_KILLS cuts it short.
KILLS = int(os.environ.get("BENCH_KILLS", "1000"))
SEED = 61


def run(_out: Path) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder, SuspendedJob(Path(folder)) as job:
        tally = run_kills(job, KILLS, random.Random(SEED))
    note = f"of {tally.kills} kills"
    return [
        Row("programs, contents or bytes lost", "count", tally.lost, COMMAND, limit=0, note=note),
        Row("moves that did not end as wanted", "count", tally.stuck, COMMAND, limit=0, note=note),
    ]
