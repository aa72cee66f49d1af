"""Partitions: what a stream of claims gets of eight cut cards by the scheduler's rule, and by the
lowest free place."""

from pathlib import Path

from bench.partition_life import MIXES, Rule, accepted
from bench.rows import Row

NAME = "partitions"
COMMAND = "python -m bench partitions"
SEEDS = range(42, 47)


def run(out: Path) -> list[Row]:
    return [row for mix in MIXES for row in _rows(mix)]


def _rows(mix: str) -> list[Row]:
    """Claims that found no place, and compute-time that was placed; both against first fit on the
    same claims."""
    ours = [accepted(mix, Rule.BEST, seed) for seed in SEEDS]
    first = [accepted(mix, Rule.FIRST_FIT, seed) for seed in SEEDS]
    lost = [tuple(100 * (1 - one.placed / one.came) for one in lives) for lives in (ours, first)]
    held = [tuple(one.milli_lives / 1000 for one in lives) for lives in (ours, first)]
    note = f"8 H200, {len(SEEDS)} seeds of {ours[0].came} claims, 1.15 of the compute asked for"
    return [
        Row(
            f"partitions, {mix}: claims that found no place",
            "%",
            sum(lost[0]) / len(SEEDS),
            COMMAND,
            peer=sum(lost[1]) / len(SEEDS),
            peer_command=f"{COMMAND} (first card, lowest start)",
            limit_ratio=1.0,
            samples=lost[0],
            peer_samples=lost[1],
            note=note,
        ),
        Row(
            f"partitions, {mix}: card-lifetimes placed",
            "cards x lifetimes",
            sum(held[0]) / len(SEEDS),
            COMMAND,
            peer=sum(held[1]) / len(SEEDS),
            peer_command=f"{COMMAND} (first card, lowest start)",
            samples=held[0],
            peer_samples=held[1],
            note=note,
        ),
    ]
