"""Take the unused time of reservations from the idle time of a report: a line for each tenant.

Reservations are known above this package, so a reader comes in. A reservation names no cards, so
its time is known by model, and a report by card leaves it idle. Pure. docs/decisions/0127.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from gpupool.metering.books import UsageAmount
from gpupool.metering.reading import ReportQuery


@dataclass(frozen=True)
class UnusedTime:
    """What one tenant had reserved of one model in a range, and no job used."""

    tenant_id: int
    model: str
    #: Of one card of the model.
    memory_mib: int
    amount: UsageAmount


#: Reads the unused time of reservations in the range and scope of a report.
ReservedReader = Callable[[sa.Connection, ReportQuery], Sequence[UnusedTime]]


def read_no_reserved_time(_connection: sa.Connection, _ask: ReportQuery) -> Sequence[UnusedTime]:
    """Read nothing: of a pool that keeps no record of reservations."""
    return ()


def limit_to_idle(
    unused: Iterable[UnusedTime], idle: Mapping[str, UsageAmount]
) -> Iterator[UnusedTime]:
    """Yield the unused times, together at most what was idle of each model.

    An hour is recorded ten minutes after it. A cluster that reports a pod later than that has
    made the idle time less than what was recorded.

    >>> idle = {"L40S": UsageAmount(3000, 10, 3_000_000)}
    >>> one = UnusedTime(2, "L40S", 10, UsageAmount(2000, 5, 2_000_000))
    >>> [each.amount.card_milliseconds for each in limit_to_idle([one, one], idle)]
    [2000, 1000]
    """
    left = dict(idle)
    for one in unused:
        rest = left.get(one.model)
        if rest is None:
            continue
        amount = _take_least(one.amount, rest)
        left[one.model] = rest - amount
        yield replace(one, amount=amount)


def _take_least(one: UsageAmount, other: UsageAmount) -> UsageAmount:
    return UsageAmount(
        max(0, min(one.card_milliseconds, other.card_milliseconds)),
        max(0, min(one.memory_mib_seconds, other.memory_mib_seconds)),
        max(0, min(one.dominant_micro_seconds, other.dominant_micro_seconds)),
    )
