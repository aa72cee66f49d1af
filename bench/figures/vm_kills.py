"""Five hundred kills of virtual machines, their supervisors, the agent and the server, and every
disk checked."""

from __future__ import annotations

import os
import random
import tempfile
import time
from pathlib import Path

from bench.campaigns import circumstances
from bench.rows import Row
from tests.hosts.vm_kills import BrokenKills, KillCounts, run_vm_kills

NAME = "vm-kills"
KILLS = 500
#: Kills before a pool is brought to rest, checked to the last line and purged, and the next begins.
PER_POOL = 50


def run(out: Path) -> list[Row]:
    """`BENCH_KILLS` and `BENCH_SEED` choose how many and which; the record is vm-kills.md in `out`."""
    wanted = int(os.environ.get("BENCH_KILLS") or KILLS)
    seed = int(os.environ.get("BENCH_SEED") or random.SystemRandom().randrange(1 << 31))
    total = KillCounts()
    broken: list[str] = []
    started = time.monotonic()
    for number in range(-(-wanted // PER_POOL)):
        kills = min(PER_POOL, wanted - number * PER_POOL)
        directory = Path(tempfile.mkdtemp(prefix="gpupool-vm-kills-"))
        directory.chmod(0o755)
        try:
            counts = run_vm_kills(directory, seed + number, kills, separate_agent=number % 2 == 1)
        except BrokenKills as error:
            broken.append(f"pool {number} (seed {seed + number}): {error}")
            (out / "vm-kills-broken.txt").write_text("\n\n".join(broken))
        else:
            total.add(counts)
            print(f"seed {seed + number}: {counts}", flush=True)
        seconds = time.monotonic() - started
        (out / "vm-kills.md").write_text(format_record(total, seed, broken, seconds))
    command = f"BENCH_KILLS={wanted} BENCH_SEED={seed} python -m bench vm-kills"
    return [
        Row("VMs: kills, each checked", "", total.kills.total(), command, note=str(total)),
        Row("VMs: pools with a broken promise", "", len(broken), command, limit=0),
    ]


def format_record(counts: KillCounts, seed: int, broken: list[str], seconds: float) -> str:
    """What was done and found, with what is needed to do it again."""
    again = f"a new pool every {PER_POOL} kills, its agent inside the server and apart in turn"
    lines = [f"# {counts.kills.total()} kills of virtual machines", ""]
    lines += [circumstances(seed, seconds, again), "", "| killed with -9 | times |", "|---|---|"]
    lines += [f"| {what} | {count} |" for what, count in sorted(counts.kills.items())]
    lines += ["", "| virtual machines | count |", "|---|---|"]
    lines += [f"| {what} | {count} |" for what, count in sorted(counts.done.items())]
    lines += ["", f"Pools in which a promise was broken: {len(broken)}."]
    return "\n".join(lines) + "\n"
