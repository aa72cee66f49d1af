"""Acknowledged writes and seen events that are lost at 1,000 power cuts, with group commit and
without any flush.

A pool under load is recorded (tests/support/power_loss); after each cut a disk is made that POSIX
allows, and the database on it is opened and compared with what clients were told.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.rows import Row
from tests.support.power_loss.rounds import cut, recorded

NAME = "power-loss"
COMMAND = "make bench ARGS=power-loss"
ROUNDS, CUTS = 10, 100
SECONDS = 2.0
SEED = 12


def run(out: Path) -> list[Row]:
    rows = []
    for sync, limit in (("group", 0.0), ("none", None)):
        rounds = ROUNDS if limit is not None else 1
        verdicts = [_round(sync, SEED + n) for n in range(rounds)]
        broken = [one for broken, _ in verdicts for one in broken]
        cuts = CUTS * rounds
        (out / f"power-loss-{sync}.txt").write_text("\n".join(broken) + "\n")
        note = f"{sum(looked for _, looked in verdicts):,} acknowledgements looked for"
        rows.append(
            Row(
                f"promises broken at {cuts:,} power cuts, {sync}",
                "",
                len(broken),
                COMMAND,
                limit=limit,
                note=note,
            )
        )
    return rows


def _round(sync: str, seed: int) -> tuple[list[str], int]:
    with tempfile.TemporaryDirectory(prefix="power-loss-") as folder:
        journal = recorded(Path(folder), seconds=SECONDS, sync=sync)
        verdict = cut(journal, Path(folder) / "after", CUTS, seed)
    return verdict.broken, verdict.acknowledged
