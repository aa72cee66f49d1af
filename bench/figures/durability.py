"""Submissions a second with every answer on disk, beside one flush a commit and none at all.

A real pool for each way, in turns, on the disk of BENCH_DISK (default: the temporary directory); clients in
processes of their own send one job after the other over the pool's socket. The one card is taken, so that jobs wait
and nothing but the submission is measured.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.rows import Row
from gpupool.client.sdk import Pool
from tests.faults.pool import FaultPool

NAME = "durability"
COMMAND = "make bench ARGS=durability"
TURNS = 3
SECONDS = 6.0
CLIENTS = 8
"""Processes that submit at once, each over a connection of its own."""
WAYS = {"group": "answers after a flush for many", "each": "a flush for each commit", "none": "no flush, as at 48bd9b7"}
LEAST = 0.9


def run(out: Path) -> list[Row]:
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for _turn in range(TURNS):
        for way in WAYS:
            found[way].append(_rate(way))
    without = found["none"]
    rows = []
    for way, words in WAYS.items():
        compared = way == "group"
        rows.append(
            Row(
                f"submissions from {CLIENTS} clients: {words}",
                "a second",
                statistics.median(found[way]),
                COMMAND,
                peer=statistics.median(without) if way != "none" else None,
                peer_command=COMMAND,
                least_ratio=LEAST if compared else None,
                samples=tuple(found[way]),
                peer_samples=tuple(without) if way != "none" else (),
            )
        )
    return rows


def _rate(way: str) -> float:
    """Answered submissions a second."""
    disk = os.environ.get("BENCH_DISK")
    with tempfile.TemporaryDirectory(prefix="durability-", dir=disk) as folder:
        pool = FaultPool(Path(folder) / "pool", sim="1xT4")
        with pool:
            pool.up(GPUPOOL_FAULTS_ALLOWED="1", GPUPOOL_STORE_SYNC=way)
            Pool(str(pool.paths.root)).submit(["sleep", "3600"], gpu=1.0, name="holder")
            rate = _clients(pool.paths.root)
            pool.down()
    return rate


def _clients(state_dir: Path) -> float:
    start = time.time() + 1.5
    command = [sys.executable, "-m", "bench.figures.durability", str(state_dir), str(start), str(SECONDS)]
    clients = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(CLIENTS)]
    counts = [int(client.communicate()[0]) for client in clients]
    return sum(counts) / SECONDS


def _submit_until(state_dir: str, start: float, seconds: float) -> int:
    """Submit one job after the other from an instant on; how many were answered in time."""
    pool = Pool(state_dir)
    count = 0
    time.sleep(max(0.0, start - time.time()))
    while time.time() < start + seconds:
        pool.submit(["true"], gpu=1.0)
        count += 1
    return count


if __name__ == "__main__":
    print(_submit_until(sys.argv[1], float(sys.argv[2]), float(sys.argv[3])))
