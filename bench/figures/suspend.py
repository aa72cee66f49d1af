"""From a resume's request to its answer, on a pool of one simulated card, by the memory that moves.

The answer comes when the job runs. The move takes bytes / bandwidth of the card's link, as the
card's description has it; what is beyond that is the pool's own.
"""

from __future__ import annotations

import ctypes
import sys
import tempfile
import time
from collections.abc import Callable
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
    return rows


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
