"""Two servers on PostgreSQL: the leader killed, paused and cut off under load 200 times, and every
promise checked."""

import os
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from bench.campaigns import circumstances
from bench.rows import Row
from tests.faults.failover_campaign import Failovers, run_failovers
from tests.faults.harness import Broken

NAME = "failover"
ROUNDS = 200
PER_POOL = 50
"""Rounds before a pool is brought to rest, checked to the last line, and the next one begun."""
LIMIT_SECONDS = 5
SLOWEST = 10
"""So many takeovers are recorded with their parts."""


def run(out: Path) -> list[Row]:
    """`BENCH_ROUNDS` and `BENCH_SEED` choose how many and which; failover.md in `out` has what was
    done so far."""
    rounds = int(os.environ.get("BENCH_ROUNDS") or ROUNDS)
    seed = int(os.environ.get("BENCH_SEED") or random.SystemRandom().randrange(1 << 31))
    found: list[Failovers] = []
    broken: list[str] = []
    began = time.monotonic()
    loads = [os.getloadavg()[0]]
    for number in range(-(-rounds // PER_POOL)):
        directory = Path(tempfile.mkdtemp(prefix="gpupool-failover-"))
        directory.chmod(0o755)
        try:
            found.append(
                run_failovers(directory, seed + number, min(PER_POOL, rounds - number * PER_POOL))
            )
        except Broken as error:
            broken.append(f"pool {number} (seed {seed + number}): {error}")
            (out / "failover-broken.txt").write_text("\n\n".join(broken))
        else:
            shutil.rmtree(directory)  # of a broken one it stays, to be looked at
        loads.append(os.getloadavg()[0])
        (out / "failover.md").write_text(
            record(found, seed, broken, time.monotonic() - began, loads)
        )
    command = f"BENCH_ROUNDS={rounds} BENCH_SEED={seed} python -m bench failover"
    done = sum(sum(one.ways.values()) for one in found)
    seconds = tuple(second for one in found for second in one.seconds)
    rows = [
        Row("failover: rounds after which everything was checked", "", done, command),
        Row("failover: pools with a broken promise", "", len(broken), command, limit=0),
    ]
    if seconds:
        slowest = max(seconds)
        rows.append(
            Row(
                "failover: slowest takeover",
                "s",
                slowest,
                command,
                limit=LIMIT_SECONDS,
                samples=seconds,
            )
        )
    return rows


def record(
    found: list[Failovers], seed: int, broken: list[str], seconds: float, loads: list[float]
) -> str:
    """What was done and found, with what is needed to do it again."""
    lines = [f"# {sum(len(one.seconds) for one in found)} takeovers", ""]
    lines += [circumstances(seed, seconds, f"a new pool every {PER_POOL} rounds"), ""]
    lines += [f"Load before and after each pool: {', '.join(f'{load:.1f}' for load in loads)}.", ""]
    for one in found:
        lines.append(
            f"* {dict(one.ways)}: {one.jobs} jobs ({dict(one.states)}), {one.events} events, each seen once. "
            f"Takeover: median {statistics.median(one.seconds):.2f} s, slowest {max(one.seconds):.2f} s; until a "
            f"client's submission was accepted: median {statistics.median(one.until_submitted):.2f} s, slowest "
            f"{max(one.until_submitted):.2f} s. Writes at the deposed server were refused: {dict(one.refused)}."
        )
    slowest = sorted(
        (one for done in found for one in done.takeovers), key=lambda one: -one.seconds
    )[:SLOWEST]
    lines += [
        "",
        "The slowest, when the new leader saw the lease's end, and its work: seconds (on the processor).",
        "",
    ]
    lines += [
        f"* {one.way}, {one.seconds:.2f} s; seen {one.late} s late; its work {one.parts}"
        for one in slowest
    ]
    return "\n".join([*lines, "", f"Pools in which a promise was broken: {len(broken)}.", ""])
