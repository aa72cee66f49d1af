"""From a resume's request to its answer, on a pool of one simulated card, by the memory that moves.

The answer comes when the job runs. The move takes bytes / bandwidth of the card's link, as the
card's description has it; what is beyond that is the pool's own. The same for an idle job that waits
in a call: from the end of the job that had its room to the answer of the call. It takes some four
minutes: before each of nine wake-ups a job is idle for two samples of its agent, ten seconds apart.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.rows import Row, median_row
from gpupool.client.sdk import Pool
from gpupool.probes import simgpu_layout as layout
from tests.e2e.pool_fixture import RealPool

NAME = "suspend"
COMMAND = "python -m bench suspend"
PROGRAM = Path(__file__).parents[2] / "tests" / "support" / "holding_program.py"
#: Mebibytes that the job holds beside its context.
SIZES = (64, 1024, 4096)
TURNS = 9
IDLE_PROGRAM = PROGRAM.with_name("idle_program.py")
#: Wake-ups of each size: before each, the job must be idle for two samples of its agent.
WAKES = 3
#: Seconds beyond bytes / bandwidth.
MOST_SECONDS = 0.2


def run(_out: Path) -> list[Row]:
    rows = list[Row]()
    with (
        tempfile.TemporaryDirectory() as folder,
        RealPool(Path(folder) / "pool", "1xT4") as pool,
        Pool(state_dir=str(pool.state_dir)) as client,
    ):
        for size in SIZES:
            rows += _measure(client, Path(folder), size, _read_bandwidth(pool))
    return [*rows, *_measure_wakes()]


def _measure_wakes() -> list[Row]:
    rows = list[Row]()
    rules = {"GPUPOOL_SUSPEND_IDLE": "1", "GPUPOOL_SUSPEND_FACTOR": "2"}
    before = {name: os.environ.get(name) for name in rules}
    os.environ.update(rules)
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            RealPool(Path(folder) / "pool", "1xT4") as pool,
            Pool(state_dir=str(pool.state_dir)) as client,
        ):
            for size in SIZES:
                rows.append(_measure_wake(client, Path(folder), size, _read_bandwidth(pool)))
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value
    return rows


def _measure_wake(client: Pool, folder: Path, size: int, bandwidth: int) -> Row:
    ticks = folder / f"ticks-{size}"
    ask = folder / f"ask-{size}"
    name = f"idle-{size}"
    command = [sys.executable, str(IDLE_PROGRAM), str(size), str(ticks), str(ask)]
    client.submit(
        command,
        gpu=0.6,
        memory="9GiB",
        host_memory="1GiB",
        when_idle="suspend",
        idle_after="1s",
        name=name,
    )
    _await(ticks.exists)
    beyond = []
    for turn in range(WAKES):
        other = f"other-{size}-{turn}"
        client.submit(["sleep", "600"], gpu=0.6, memory="9GiB", name=other)
        _await(partial(_is_running, client, other))
        moved = _read_moved(client, name)
        ask.touch()
        _await(lambda: _read_wanted(client, name))
        looks = len(ticks.read_text().splitlines())
        client.stop(other, grace_seconds=0)
        _await(partial(_has_line, ticks, looks))
        now_ns = time.time_ns()
        # The end of the other one is when the ledger has freed its room.
        ended_ns = client.wait(other).ended_ns
        assert ended_ns is not None, f"{other} has not ended"
        beyond.append((now_ns - ended_ns) / 1e9 - moved / bandwidth)
    client.stop(name, grace_seconds=0)
    client.wait(name)
    assert "lost" not in ticks.read_text()
    return median_row(
        f"wake of {moved >> 20} MiB beyond the link's time", COMMAND, beyond, limit=MOST_SECONDS
    )


def _is_running(client: Pool, name: str) -> bool:
    return client.job(name).state == "running"


def _has_line(path: Path, number: int) -> bool:
    """Whether a file has a line of that number, from 0."""
    return len(path.read_text().splitlines()) > number


def _read_moved(client: Pool, name: str) -> int:
    suspension = client.job(name).suspension
    assert suspension is not None, "it was not suspended"
    assert suspension.host_bytes is not None, suspension.note
    return suspension.host_bytes


def _read_wanted(client: Pool, name: str) -> bool:
    suspension = client.job(name).suspension
    return suspension is not None and suspension.wanted_ns is not None


def _measure(client: Pool, folder: Path, size: int, bandwidth: int) -> list[Row]:
    ticks = folder / f"ticks-{size}"
    name = f"holds-{size}"
    command = [sys.executable, str(PROGRAM), str(size), str(ticks)]
    client.submit(command, gpu=0.5, memory="6GiB", name=name)
    _await(ticks.exists)
    suspends = []
    resumes = []
    moved = 0
    for _ in range(TURNS):
        began = time.monotonic()
        suspension = client.suspend(name).suspension
        suspends.append(time.monotonic() - began)
        assert suspension is not None, "it was not suspended"
        assert suspension.host_bytes is not None, suspension.note
        moved = suspension.host_bytes
        began = time.monotonic()
        job = client.resume(name)
        resumes.append(time.monotonic() - began)
        assert job.suspension is None, job.suspension
    client.stop(name, grace_seconds=0)
    client.wait(name)
    assert "lost" not in ticks.read_text()
    link = moved / bandwidth
    note = f"{moved >> 20} MiB at {bandwidth / 1e9:g} GB/s take {link:.3f} s"
    beyond = [seconds - link for seconds in resumes]
    return [
        median_row(f"suspend of {moved >> 20} MiB", COMMAND, suspends, note=note),
        median_row(f"resume of {moved >> 20} MiB", COMMAND, resumes, note=note),
        median_row(
            f"resume of {moved >> 20} MiB beyond the link's time",
            COMMAND,
            beyond,
            limit=MOST_SECONDS,
        ),
    ]


def _read_bandwidth(pool: RealPool) -> int:
    """Return the bytes per second of the card's link."""
    (path,) = pool.state_dir.glob("agent/simgpu/*/machine")
    with path.open("rb") as file:
        file.seek(layout.MachineFile.card.offset)
        card = layout.SimCard.from_buffer_copy(file.read(ctypes.sizeof(layout.SimCard)))
    return int(card.link_bandwidth)


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("the program did not begin")
        time.sleep(0.02)
