"""Ten thousand kill -9 of server, agent, supervisors, jobs and clients under load, and every
promise checked."""

import os
import random
import shutil
import tempfile
import time
from pathlib import Path

from bench.campaigns import circumstances
from bench.rows import Row
from tests.faults.gang_campaign import run_gang_campaign
from tests.faults.harness import LONG, Broken, Counts, run_campaign

NAME = "faults"
KILLS = 10_000
EVERY_GANGS, GANG_KILLS = (
    5,
    {
        "server": 15,
        "agent": 15,
        "client": 0,
        "supervisor": 32,
        "job": 32,
        "pause": 2,
        "disk": 2,
        "files": 2,
    },
)
"""Every so many pools one has gangs, preemption and moves at work; those are mostly the server's
own."""
PER_POOL = 1000
"""Kills before a pool is brought to rest, checked to the last line, purged, and the next one
begun."""
PAUSE_SECONDS = 0.05


def run(out: Path) -> list[Row]:
    """`BENCH_KILLS` and `BENCH_SEED` choose how many and which; the record goes to faults.md in
    `out`."""
    wanted, seed = _wanted()
    total, broken = Counts(), []
    started = time.monotonic()
    for number in range(-(-wanted // PER_POOL)):
        kills = min(PER_POOL, wanted - number * PER_POOL)
        try:
            total.add(
                _one_pool(
                    seed + number,
                    kills,
                    separate_agent=number % 2 == 1,
                    gangs=number % EVERY_GANGS == 1,
                )
            )
        except Broken as error:
            broken.append(f"pool {number} (seed {seed + number}): {error}")
            (out / "faults-broken.txt").write_text("\n\n".join(broken))
        (out / "faults.md").write_text(record(total, seed, broken, time.monotonic() - started))
    command = f"BENCH_KILLS={wanted} BENCH_SEED={seed} python -m bench faults"
    kills = sum(total.kills.values())
    return [
        Row(
            "faults: kills after which everything was checked", "", kills, command, note=str(total)
        ),
        Row("faults: pools with a broken promise", "", len(broken), command, limit=0),
    ]


def _wanted() -> tuple[int, int]:
    seed = os.environ.get("BENCH_SEED")
    return int(os.environ.get("BENCH_KILLS") or KILLS), int(
        seed
    ) if seed else random.SystemRandom().randrange(1 << 31)


def _one_pool(seed: int, kills: int, *, separate_agent: bool, gangs: bool) -> Counts:
    directory = Path(tempfile.mkdtemp(prefix="gpupool-faults-"))
    directory.chmod(0o755)
    campaign, parts = (run_gang_campaign, GANG_KILLS) if gangs else (run_campaign, LONG)
    counts = campaign(
        directory, seed, kills, separate_agent=separate_agent, parts=parts, pause=PAUSE_SECONDS
    )
    print(f"seed {seed}: {counts}", flush=True)
    shutil.rmtree(directory)  # after Broken it stays, to be looked at
    return counts


def record(counts: Counts, seed: int, broken: list[str], seconds: float) -> str:
    """What was done and found, with what is needed to do it again."""
    lines = [
        f"# {sum(counts.kills.values())} kills",
        "",
        circumstances(
            seed,
            seconds,
            f"a new pool every {PER_POOL} kills, its agent inside the server and apart in turn",
        ),
        "",
        "| killed with -9 | times |",
        "|---|---|",
        *(f"| {what} | {count} |" for what, count in sorted(counts.kills.items())),
        "",
        "| jobs ended as | count |",
        "|---|---|",
        *(f"| {state} | {count} |" for state, count in sorted(counts.states.items())),
        "",
        _sums(counts),
        "",
        f"Pools in which a promise was broken: {len(broken)}.",
    ]
    return "\n".join(lines) + "\n"


def _sums(counts: Counts) -> str:
    return (
        f"{counts.jobs} jobs, {counts.ran} commands began, {counts.placed_again} placements were repeated because the "
        f"command had provably not begun; {counts.events} events, each seen exactly once by a watcher; "
        f"{counts.capacity_card_milliseconds} card milliseconds of capacity in the reports, which closed. "
        f"{counts.kinds['job.preempted']} jobs were asked to leave for others, {counts.kinds['job.moving']} to move, "
        f"and {counts.kinds['job.requeued']} times a job waited again."
    )
