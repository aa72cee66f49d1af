"""Compute a job's use of its share from its latest samples. What was not measured is None.

Knows no table and no clock; times of samples are the server's, in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from gpupool.metering.samples import LatestSample, rate_percent
from gpupool.metering.use_history import UsePoint
from gpupool.wire.jobs import JobUse
from gpupool.wire.samples import CardUse, JobSample

#: Nanoseconds of a millisecond.
_MS = 10**6


def compute_job_use(
    seen: LatestSample, held_milli: int, held_bytes: int, *, processes: bool = False
) -> JobUse:
    """Compute the figures of a job that holds `held_milli` and `held_bytes` over all its cards.

    `held_milli` is 0 without a promise: there is no share that use could be a percentage of.
    """
    new = seen.sample
    old = seen.before
    between = (seen.at_ns, seen.before_ns)
    gpu = rate_percent(new.gpu_milliseconds, old.gpu_milliseconds if old else None, *between)
    cards = new.cards
    return JobUse(
        sampled_ns=seen.at_ns,
        gpu_percent=gpu,
        share_percent=None if gpu is None or not held_milli else round(gpu * 1000 / held_milli, 1),
        cpu_percent=rate_percent(
            new.cpu_milliseconds, old.cpu_milliseconds if old else None, *between
        ),
        memory_percent=_compute_percent(new.gpu_memory_bytes, held_bytes),
        memory_bytes=new.gpu_memory_bytes,
        reserved_bytes=sum_over_cards(cards, "reserved_bytes"),
        unaccounted_bytes=sum_unaccounted(new),
        gpu_milliseconds=new.gpu_milliseconds,
        wait_milliseconds=_convert_to_milliseconds(sum_over_cards(cards, "wait_nanoseconds")),
        throttled_milliseconds=_convert_to_milliseconds(
            sum_over_cards(cards, "throttled_nanoseconds")
        ),
        launches=sum_over_cards(cards, "launches"),
        refusals=sum_over_cards(cards, "refusals"),
        processes=new.processes if processes else [],
    )


def compute_use_columns(points: Sequence[UsePoint], held_milli: int) -> dict[str, list[Any]]:
    """Compute the use between each two points of a job's history, as columns.

    Args:
        points: The history, the oldest first.
        held_milli: Over all its cards; 0 without a promise.
    """
    columns: dict[str, list[Any]] = {
        "at_ns": [],
        "gpu_percent": [],
        "share_percent": [],
        "memory_bytes": [],
    }
    for before, point in pairwise(points):
        gpu = rate_percent(
            point.gpu_milliseconds, before.gpu_milliseconds, point.at_ns, before.at_ns
        )
        share = None if gpu is None or not held_milli else round(gpu * 1000 / held_milli, 1)
        columns["at_ns"].append(point.at_ns)
        columns["gpu_percent"].append(gpu)
        columns["share_percent"].append(share)
        columns["memory_bytes"].append(point.memory_bytes)
    return columns


def sum_over_cards(cards: Sequence[CardUse] | None, name: str) -> int | None:
    """Add up one figure over all cards; None if no fence counts."""
    return None if cards is None else sum(getattr(card, name) for card in cards)


def sum_unaccounted(sample: JobSample) -> int | None:
    """Add up what no process of the job accounts for, over the cards that know; None if none does."""
    total: int | None = None
    for card in sample.cards or ():
        if card.unaccounted_bytes is not None:
            total = (total or 0) + card.unaccounted_bytes
    return total


def _compute_percent(used: int | None, held: int) -> float | None:
    return None if used is None or not held else round(used * 100 / held, 1)


def _convert_to_milliseconds(nanoseconds: int | None) -> int | None:
    return None if nanoseconds is None else nanoseconds // _MS
