"""Two hundred histories of concurrent requests under kills, pauses and clock steps, each checked
for an order."""

import os
import random
import shutil
import tempfile
import time
from pathlib import Path

from bench.campaigns import circumstances
from bench.rows import Row
from tests.faults.harness import Broken
from tests.histories.campaign import Counts, run_history

NAME = "histories"
HISTORIES = 200


def run(out: Path) -> list[Row]:
    """`BENCH_HISTORIES` and `BENCH_SEED` choose how many and which. What was done so far is in
    histories.md in `out`, what was broken in histories-broken.txt.
    """
    wanted = int(os.environ.get("BENCH_HISTORIES") or HISTORIES)
    seed = int(os.environ.get("BENCH_SEED") or random.SystemRandom().randrange(1 << 31))
    total, broken, began = Counts(), list[str](), time.monotonic()
    for number in range(wanted):
        directory = Path(tempfile.mkdtemp(prefix="gpupool-history-"))
        try:
            total.add(run_history(directory, seed + number))
            shutil.rmtree(directory)  # after Broken it stays for a look
        except Broken as error:
            broken.append(str(error))
            (out / "histories-broken.txt").write_text("\n\n".join(broken))
        (out / "histories.md").write_text(
            record(number + 1, broken, total, seed, time.monotonic() - began)
        )
    command = f"BENCH_HISTORIES={wanted} BENCH_SEED={seed} python -m bench {NAME}"
    note = f"{total}; {time.monotonic() - began:.0f} s"
    return [
        Row("histories: recorded and checked", "", wanted, command, note=note),
        Row("histories: that no order of requests explains", "", len(broken), command, limit=0),
    ]


def record(done: int, broken: list[str], total: Counts, seed: int, seconds: float) -> str:
    """What was done and found, with what is needed to do it again."""
    of_now = f"load {os.getloadavg()[0]:.1f} at the end"
    return "\n".join(
        [
            f"# {done} histories",
            "",
            circumstances(seed, seconds, of_now),
            "",
            f"Not explained by any order: {len(broken)}. In the others {total}.",
            "",
        ]
    )
