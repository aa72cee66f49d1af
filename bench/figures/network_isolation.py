"""Twenty tenants with the same addresses on the real OVN: frames between every two, through 200 rounds
of kills of the server, the agent, and all that carries networks.

As root, with OVN's packages and nftables.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from pathlib import Path

from bench.campaigns import circumstances
from bench.rows import Row
from gpupool.agent.network.daemons import find_missing_programs
from gpupool.agent.network.verification.probe_frames import FORGED, HONEST
from tests.hosts.isolation_kills import BrokenIsolation, IsolationCounts, run_isolation_kills
from tests.hosts.isolation_watch import SENT

NAME = "network-isolation"
ROUNDS = 200
TENANTS = 20
#: Rounds before networking is disabled, what is left is looked for, and the next pool begins.
PER_POOL = 25


def run(out: Path) -> list[Row]:
    """`BENCH_KILLS`, `BENCH_SEED` and `BENCH_TENANTS` choose how many rounds, which, and of whom.

    The record is network-isolation.md in `out`, written again after each pool.
    """
    missing = set(find_missing_programs().values())
    if shutil.which("nft") is None:
        missing.add("nftables")
    if missing:
        raise SystemExit(f"{NAME}: needs the packages {', '.join(sorted(missing))}")
    rounds = int(os.environ.get("BENCH_KILLS") or ROUNDS)
    tenants = int(os.environ.get("BENCH_TENANTS") or TENANTS)
    seed = int(os.environ.get("BENCH_SEED") or random.SystemRandom().randrange(1 << 31))
    total = IsolationCounts(tenants)
    broken = list[str]()
    started = time.monotonic()
    for number in range(-(-rounds // PER_POOL)):
        directory = Path(tempfile.mkdtemp(prefix="gpi-"))
        directory.chmod(0o755)
        wanted = min(PER_POOL, rounds - number * PER_POOL)
        try:
            counts = run_isolation_kills(directory, seed + number, wanted, tenants, _print)
        except BrokenIsolation as error:
            broken.append(f"pool {number} (seed {seed + number}): {error}")
            (out / "network-isolation-broken.txt").write_text("\n\n".join(broken))
            counts = error.counts
        total.add(counts)
        seconds = time.monotonic() - started
        (out / "network-isolation.md").write_text(format_record(total, seed, broken, seconds))
    command = f"python -m bench network-isolation --count {rounds} --seed {seed}"
    kills = ", ".join(f"{count} {what}" for what, count in sorted(total.kills.items()))
    lost = "packets between neighbours lost, in rounds without a kill of the switch"
    return [
        Row("isolation: rounds of kills", "", total.rounds, command, note=kills),
        Row("frames sent to other tenants", "", total.frames.sent.total(), command),
        Row("frames where none may be", "", total.frames.leaks.total(), command, limit=0),
        Row("addresses lost or doubled", "", len(total.faults), command, limit=0),
        Row(lost, "", total.lost, command, limit=0),
        Row("left after networking was disabled", "", len(total.left), command, limit=0),
        Row("pools with a broken promise", "", len(broken), command, limit=0),
    ]


def _print(text: str) -> None:
    print(text, flush=True)


def format_record(counts: IsolationCounts, seed: int, broken: list[str], seconds: float) -> str:
    """What was done and found, with what is needed to do it again."""
    again = f"a new pool every {PER_POOL} rounds"
    lines = [f"# {counts.rounds} rounds of kills, {counts.tenants} tenants with one prefix", ""]
    lines += [circumstances(seed, seconds, again), "", "| killed with -9 | times |", "|---|---|"]
    lines += [f"| {what} | {count} |" for what, count in sorted(counts.kills.items())]
    lines += ["", "| frame | sent to other tenants | arrived there | at the neighbour |"]
    lines += ["|---|---|---|---|"]
    for kind in SENT:
        leaks = sum(n for leak, n in counts.frames.leaks.items() if leak.startswith(f"{kind} of"))
        sent = counts.frames.sent[kind]
        lines.append(f"| {kind} | {sent} | {leaks} | {counts.frames.inside[kind]} |")
    lines += ["", "| control: isolation broken by hand | frames that arrived |", "|---|---|"]
    for name in (*FORGED, *(f"{kind} between tenants" for kind in HONEST)):
        lines.append(f"| {name} | {counts.controls[name]} |")
    outages = (
        f"{counts.outage_seconds:.2f} s between two at most; {counts.switch_outage_seconds:.2f} s in "
        "rounds with a kill of the switch, or another one of its database within seconds"
    )
    facts = {
        "Jobs that came and went meanwhile": counts.jobs,
        "Of them not served by the engine in time, and ended": counts.late_jobs,
        "Addresses lost, doubled or not in force": len(counts.faults),
        "Packets between neighbours, ten a second in each network": outages,
        "Lost of them in rounds without a kill of the switch": counts.lost,
        "Everything was in force again": f"after {counts.back_seconds:.1f} s at most",
        "Left after networking was disabled": ", ".join(counts.left) or "nothing",
        "Pools in which a promise was broken": len(broken),
    }
    lines += ["", *(f"* {name}: {value}." for name, value in facts.items())]
    return "\n".join(lines) + "\n"
