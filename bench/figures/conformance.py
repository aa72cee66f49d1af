"""Cases of KAI-Scheduler, Kueue and Slurm on the engine: how many end as there; random lives that
come to no rest."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from multiprocessing import get_context
from pathlib import Path

from bench.rows import Row
from tests.conformance.lives import Broken, lives
from tests.conformance.table import Found, all_examined

NAME = "conformance"
COMMAND = "python -m bench conformance"
LIVES = int(os.environ.get("BENCH_LIVES", "100000"))
"""About 40 ms of a processor each."""
SEED = int(os.environ.get("BENCH_SEED", "0"))
"""Of the first life; each next one has the next."""
AT_ONCE = 250


def run(out: Path) -> list[Row]:
    found = list(all_examined())
    record = {
        one.suite: {
            "cases": one.total,
            "equal": one.equal,
            "argued": dict(one.argued),
            "outside": dict(one.outside),
            "different": one.different,
            "plans_at_most": one.rounds,
        }
        for one in found
    }
    (out / "conformance-cases.json").write_text(json.dumps(record, indent=1) + "\n")
    return [*(row for one in found for row in _rows(one)), _lives(out)]


def _lives(out: Path) -> Row:
    """Random lives with guarantees, of which none may break."""
    with get_context("spawn").Pool(os.cpu_count()) as workers:
        found = [
            broken
            for part in workers.imap(_part, range(SEED, SEED + LIVES, AT_ONCE))
            for broken in part
        ]
    (out / "conformance-lives.json").write_text(
        json.dumps([[one.seed, one.sentence] for one in found]) + "\n"
    )
    note = f"of {LIVES} lives from seed {SEED} on: each event comes to rest; claims in guarantees start after one round"
    return Row(
        "random lives that break", "", len(found), COMMAND, limit=0, note=f"{note}{_seeds(found)}"
    )


def _part(first: int) -> list[Broken]:
    return list(lives(first, min(AT_ONCE, SEED + LIVES - first)))


def _seeds(found: Iterable[Broken]) -> str:
    named = ", ".join(str(one.seed) for one in found)
    return f"; seeds {named}"[:400] if named else ""


def _rows(found: Found) -> list[Row]:
    """Three counts, of which the last must be none."""
    name, note = found.suite, f"of {found.total} cases"
    outside = f"{note}; {found.outside.total()} of these ask for what gpupool does not have"
    return [
        Row(f"{name}: equal", "", found.equal, COMMAND, note=note),
        Row(
            f"{name}: argued",
            "",
            found.argued.total() + found.outside.total(),
            COMMAND,
            note=outside,
        ),
        Row(
            f"{name}: different",
            "",
            len(found.different),
            COMMAND,
            limit=0,
            note="; ".join(found.different)[:500],
        ),
    ]
