"""Random kills over prepare, switch and unprepare of every mechanism, layer and mode switch."""

import os
import random
import tempfile
import time
from pathlib import Path

from bench.campaigns import circumstances
from bench.rows import Row
from tests.faults.mechanism_campaign import KillCounts, run_mechanism_campaign
from tests.support.kill_rigs.registry import RIGS

NAME = "mechanism-kills"
KILLS = 2000


def run(out: Path) -> list[Row]:
    """`--count` and `BENCH_SEED` choose how many and which; the record is mechanism-kills.md."""
    wanted, seed = _read_wanted()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gp") as folder:
        counts = run_mechanism_campaign(wanted, seed, Path(folder))
    seconds = time.monotonic() - began
    (out / "mechanism-kills.md").write_text(_write_record(counts, seed, seconds))
    command = f"BENCH_SEED={seed} python -m bench mechanism-kills --count {wanted}"
    note = f"{len(RIGS) - len(counts.absent)} of {len(RIGS)} rigs, {seconds:.0f} s"
    return [
        Row("mechanisms: random kills", "", counts.total, command, note=note),
        Row("mechanisms: leaked pieces", "", len(counts.leaks), command, limit=0),
        Row("mechanisms: rigs that could not be built", "", len(counts.absent), command, limit=0),
    ]


def _read_wanted() -> tuple[int, int]:
    seed = os.environ.get("BENCH_SEED")
    kills = int(os.environ.get("BENCH_KILLS") or KILLS)
    return kills, int(seed) if seed else random.SystemRandom().randrange(1 << 31)


def _write_record(counts: KillCounts, seed: int, seconds: float) -> str:
    lines = [
        "# Random kills of mechanisms",
        "",
        f"{counts.total} kills, {len(counts.leaks)} leaked pieces.",
        "",
        circumstances(seed, seconds, "each rig begun once"),
        "",
        "| rig | kills by verb |",
        "|---|---|",
    ]
    for name in RIGS:
        verbs = [f"{verb} {n}" for (rig, verb), n in counts.kills.items() if rig == name]
        lines.append(f"| {name} | {counts.absent.get(name) or ', '.join(verbs)} |")
    return "\n".join((*lines, "", *(f"* {leak}" for leak in counts.leaks))) + "\n"
