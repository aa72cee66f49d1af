"""Submissions a second with every answer on disk, beside one flush a commit and none at all.

A real pool for each way, in turns, on the disk of BENCH_DISK (default: the temporary directory);
clients in processes of their own send one job after the other over the pool's socket, and begin
when all are ready. The one card is taken, so that jobs wait and nothing but the submission is
measured. What else runs on the machine takes from a rate; the server's processor time for a
submission hardly changes with it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench.rows import Row
from gpupool.client.sdk import Pool
from tests.faults.pool import FaultPool

NAME = "durability"
COMMAND = "make bench ARGS=durability"
TURNS = 3
SECONDS = 6.0
CLIENTS = 8
"""Processes that submit at once, each over a connection of its own."""
WAYS = {
    "group": "answers after a flush for many",
    "each": "a flush for each commit",
    "none": "no flush, as at 48bd9b7",
}
LEAST = 0.9


class Measured(NamedTuple):
    """Answered submissions a second, and the server's processor time for each in seconds."""

    rate: float
    cpu_seconds: float


def run(out: Path) -> list[Row]:
    found: dict[str, list[Measured]] = {way: [] for way in WAYS}
    for _turn in range(TURNS):
        for way in WAYS:
            found[way].append(_measure(way))
    rates = {way: [one.rate for one in measured] for way, measured in found.items()}
    costs = {way: [one.cpu_seconds for one in measured] for way, measured in found.items()}
    rows = [_row(f"submissions from {CLIENTS} clients", "a second", rates, way) for way in WAYS]
    return rows + [
        _row("the server's processor time for one of them", "s", costs, way) for way in WAYS
    ]


def _row(figure: str, unit: str, found: dict[str, list[float]], way: str) -> Row:
    without = found["none"] if way != "none" else []
    return Row(
        f"{figure}: {WAYS[way]}",
        unit,
        statistics.median(found[way]),
        COMMAND,
        peer=statistics.median(without) if without else None,
        peer_command=COMMAND,
        least_ratio=LEAST if way == "group" and unit == "a second" else None,
        samples=tuple(found[way]),
        peer_samples=tuple(without),
    )


def _measure(way: str) -> Measured:
    disk = os.environ.get("BENCH_DISK")
    with tempfile.TemporaryDirectory(prefix="durability-", dir=disk) as folder:
        pool = FaultPool(Path(folder) / "pool", sim="1xT4")
        with pool:
            pool.up(GPUPOOL_FAULTS_ALLOWED="1", GPUPOOL_STORE_SYNC=way)
            Pool(str(pool.paths.root)).submit(["sleep", "3600"], gpu=1.0, name="holder")
            measured = _clients(pool)
            pool.down()
    return measured


def _clients(pool: FaultPool) -> Measured:
    server = pool.server_pid()
    assert server is not None
    command = [sys.executable, "-m", "bench.figures.durability", str(pool.paths.root), str(SECONDS)]
    pipe = subprocess.PIPE
    clients = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(CLIENTS)
    ]
    for client in clients:
        assert client.stdout is not None
        assert client.stdout.readline() == "ready\n"
    before = _cpu_seconds(server)
    for client in clients:
        assert client.stdin is not None
        print("go", file=client.stdin, flush=True)
    count = sum(int(client.communicate()[0]) for client in clients)
    return Measured(count / SECONDS, (_cpu_seconds(server) - before) / count)


def _cpu_seconds(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _submit_for(state_dir: str, seconds: float) -> int:
    """Be ready, and when told submit one job after the other for so long; how many were
    answered."""
    pool = Pool(state_dir)
    pool.submit(["true"], gpu=1.0)
    print("ready", flush=True)
    sys.stdin.readline()
    count = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pool.submit(["true"], gpu=1.0)
        count += 1
    return count


if __name__ == "__main__":
    print(_submit_for(sys.argv[1], float(sys.argv[2])))
