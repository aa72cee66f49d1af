"""A job's latest samples as figures: its use of its share, in percent and in sums. What was not measured is None.

Knows no table and no clock; times of samples are the server's, in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpupool.metering.samples import Latest, rate_percent
from gpupool.wire.fleet import CardUse, JobSample
from gpupool.wire.jobs import JobUse

_MS = 10**6


def use_of(seen: Latest, held_milli: int, held_bytes: int, *, processes: bool = False) -> JobUse:
    """The figures of a job that holds so much over all its cards; `held_milli` is 0 for best effort."""
    new, old, between = seen.sample, seen.before, (seen.at_ns, seen.before_ns)
    gpu = rate_percent(new.gpu_milliseconds, old.gpu_milliseconds if old else None, *between)
    cards = new.cards
    return JobUse(
        sampled_ns=seen.at_ns,
        gpu_percent=gpu,
        share_percent=None if gpu is None or not held_milli else round(gpu * 1000 / held_milli, 1),
        cpu_percent=rate_percent(new.cpu_milliseconds, old.cpu_milliseconds if old else None, *between),
        memory_percent=_percent(new.gpu_memory_bytes, held_bytes),
        memory_bytes=new.gpu_memory_bytes,
        reserved_bytes=total(cards, "reserved_bytes"),
        unaccounted_bytes=unaccounted(new),
        gpu_milliseconds=new.gpu_milliseconds,
        wait_milliseconds=_milliseconds(total(cards, "wait_nanoseconds")),
        throttled_milliseconds=_milliseconds(total(cards, "throttled_nanoseconds")),
        launches=total(cards, "launches"),
        refusals=total(cards, "refusals"),
        processes=new.processes if processes else [],
    )


def total(cards: Sequence[CardUse] | None, name: str) -> int | None:
    """One figure over all cards; None without a fence's ledger."""
    return None if cards is None else sum(getattr(card, name) for card in cards)


def unaccounted(sample: JobSample) -> int | None:
    """Over the cards that say; None when none does."""
    known = [card.unaccounted_bytes for card in sample.cards or () if card.unaccounted_bytes is not None]
    return sum(known) if known else None


def _percent(used: int | None, held: int) -> float | None:
    return None if used is None or not held else round(used * 100 / held, 1)


def _milliseconds(nanoseconds: int | None) -> int | None:
    return None if nanoseconds is None else nanoseconds // _MS
