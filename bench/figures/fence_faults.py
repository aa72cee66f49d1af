"""A thousand kills, resizes and ends among fenced jobs at work on one simulated card, and every
promise checked."""

import os
import random
import shutil
import tempfile
import time
from pathlib import Path

from bench.rows import Row
from tests.faults.fence_campaign import FenceCounts, run_fence_campaign
from tests.faults.harness import Broken

NAME = "fence-faults"
STEPS = 1000
PER_POOL = 100
CLEARED_MS = 100.0


def run(out: Path) -> list[Row]:
    """`BENCH_KILLS` and `BENCH_SEED` choose how many and which; what was broken goes to
    fence-faults-broken.txt."""
    wanted = int(os.environ.get("BENCH_KILLS") or STEPS)
    seed = int(os.environ.get("BENCH_SEED") or random.SystemRandom().randrange(1 << 31))
    total, broken, began = FenceCounts(), list[str](), time.monotonic()
    for number in range(-(-wanted // PER_POOL)):
        steps = min(PER_POOL, wanted - number * PER_POOL)
        try:
            total.add(_one_pool(seed + number, steps, separate_agent=number % 2 == 1))
        except Broken as error:
            broken.append(f"pool {number} (seed {seed + number}): {error}")
            (out / "fence-faults-broken.txt").write_text("\n\n".join(broken))
    command = f"BENCH_KILLS={wanted} BENCH_SEED={seed} python -m bench {NAME}"
    note = f"{total}; {time.monotonic() - began:.0f} s"
    slowest = max(total.cleared, default=0.0) * 1000
    return [
        Row(
            "fence faults: kills, resizes and ends, all checked after each",
            "",
            _steps(total),
            command,
            note=note,
        ),
        Row("fence faults: pools with a broken promise", "", len(broken), command, limit=0),
        Row(
            "fence faults: slowest ledger to forget a dead process",
            "ms",
            slowest,
            command,
            limit=CLEARED_MS,
        ),
    ]


def _steps(total: FenceCounts) -> int:
    return sum(total.did.values())


def _one_pool(seed: int, steps: int, *, separate_agent: bool) -> FenceCounts:
    directory = Path(tempfile.mkdtemp(prefix="gpupool-fence-faults-"))
    directory.chmod(0o755)
    counts = run_fence_campaign(directory, seed, steps, separate_agent=separate_agent)
    print(f"seed {seed}: {counts}", flush=True)
    shutil.rmtree(directory)  # after Broken it stays, to be looked at
    return counts
