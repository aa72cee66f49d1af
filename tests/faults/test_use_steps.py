"""A server killed just before and just after the commit of what jobs used: no interval counts twice."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from gpupool.metering.job_use.pending import UseInterval
from gpupool.metering.job_use.tables import use_histograms
from gpupool.metering.job_use.writing import write_job_use
from gpupool.store.database import connect, open_store, sqlite_url
from gpupool.store.faults import STEPS

#: Measures a job for ten minutes, and dies at a step of the write after the first five.
MEASURE = """
import os, signal, sys
from tests.support.metering_books import Pool, granted
from tests.unit.metering.job_use.test_writing import measure
pool = Pool("sqlite:///" + sys.argv[1])
granted(pool)
used = measure(pool, 310, 0.25)
def die(step, subjects):
    if step == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
pool.store._fault = die
measure(pool, 600, 0.25, began=used)
"""
S = 10**9


@pytest.mark.nightly  # the repeated write of the ordinary run is in tests/unit/metering/job_use
@pytest.mark.parametrize("step", STEPS)
def test_use_is_whole_whenever_the_server_is_killed(tmp_path: Path, step: str) -> None:
    path = tmp_path / "gpupool.db"
    root = str(Path(__file__).parents[2])
    words = [sys.executable, "-c", MEASURE, str(path), step]
    done = subprocess.run(words, cwd=root, check=False)
    assert done.returncode == -signal.SIGKILL
    store = open_store(connect(sqlite_url(path)), "test")
    try:
        with store.read() as connection:
            row = connection.execute(sa.select(use_histograms)).one()
        # The first sample is written at once and begins an interval; then every five minutes are.
        counted = row.until_ns - row.since_ns
        assert sum(row.bins) == counted // 10**6
        assert counted == (300 if step == "before-commit" else 600) * S
        # A server that has not heard of the commit writes the same again, and what is new.
        same = UseInterval(row.until_ns, 10_000, 250, 0, None, False)
        new = UseInterval(row.until_ns + 10 * S, 10_000, 250, 0, None, False)
        with store.write() as write:
            write_job_use(write, {row.job_id: [same, new]})
        with store.read() as connection:
            after = connection.execute(sa.select(use_histograms)).one()
        assert sum(after.bins) == sum(row.bins) + 10_000
        assert after.until_ns == new.until_ns
    finally:
        store.close()
