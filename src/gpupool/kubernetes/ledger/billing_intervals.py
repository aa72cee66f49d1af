"""Records in the ledger itself from when to when each seat was held, for the meter. Pure.

The intervals follow from comparing two states of the ledger, in the one place where it is written,
so no writer can forget them. An entry that is new, or has other seats or another tenant, begins an
interval. An entry that is gone or has changed ends one. The instant is the ledger's own clock: the
wall clock, but later than that of the previous write. So an interval and the one that follows it
never overlap, whichever machine leads and whatever its clock says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpupool.kubernetes.resources.closed_intervals import ClosedInterval
from gpupool.kubernetes.resources.gpu_node import Entry, GpuNode
from gpupool.kubernetes.resources.gpu_time import GpuTime

#: Closed intervals that stay in a ledger until the meter has reported them; more go to the journal.
MOST_ENDED = 200
#: Seats of all of them, of some 150 bytes each: a page of the journal is a ConfigMap, which takes
#: 1 MiB, and a container may have all partitions of a node.
MOST_ENDED_SEATS = 1600


@dataclass(frozen=True)
class LedgerUpdate:
    """The next state of a ledger.

    Attributes:
        entries: its entries, each with the instant from which it is held.
        ended: closed intervals that the meter has not reported yet, oldest first.
        at_ns: the ledger's clock of this write, in nanoseconds since the epoch.
    """

    entries: tuple[Entry, ...]
    ended: tuple[ClosedInterval, ...]
    at_ns: int


def plan_update(node: GpuNode, entries: Sequence[Entry], now_ns: int) -> LedgerUpdate:
    """Compute the ledger that follows `node` when it gets these entries.

    Args:
        now_ns: wall clock, in nanoseconds since the epoch.
    """
    # Later than the last write even if this machine's clock is behind the last leader's: an
    # interval would otherwise end before it began.
    at_ns = max(now_ns, node.ledger_ns + 1)
    before = {entry.key: entry for entry in node.entries}
    now = tuple(_set_begin(entry, before.get(entry.key), at_ns) for entry in entries)
    continued = {(entry.key, entry.held_ns) for entry in now}
    spent = node.gpu_time_by_container()
    ended = list(unreported_intervals(node))
    for entry in node.entries:
        # Without a begin nothing is known about how long the entry was held.
        if entry.held_ns and (entry.key, entry.held_ns) not in continued:
            ended.append(close_interval(entry, at_ns, spent.get(entry.key)))
    return LedgerUpdate(now, tuple(ended), at_ns)


def _set_begin(entry: Entry, was: Entry | None, at_ns: int) -> Entry:
    """Return the entry with the instant from which it is held; the same object if it has it."""
    held_ns = was.held_ns if was is not None and _is_continued(was, entry) else at_ns
    return entry if entry.held_ns == held_ns else replace(entry, held_ns=held_ns)


def close_interval(entry: Entry, at_ns: int, spent: GpuTime | None = None) -> ClosedInterval:
    """The closed interval of an entry that was held until `at_ns`, with the GPU time used."""
    who = entry.uid, entry.namespace, entry.pod, entry.container
    return ClosedInterval(
        *who, entry.seats, entry.tenant, entry.account, entry.held_ns, at_ns, spent
    )


def unreported_intervals(node: GpuNode) -> tuple[ClosedInterval, ...]:
    """Closed intervals in the ledger that the meter has not reported yet."""
    return tuple(one for one in node.ended if one.ended_ns > node.metered_ns)


def is_overflowing(then: LedgerUpdate) -> bool:
    """Whether the ledger holds more closed intervals than it should keep."""
    seats = sum(len(one.seats) for one in then.ended)
    return len(then.ended) > MOST_ENDED or seats > MOST_ENDED_SEATS


def _is_continued(was: Entry, entry: Entry) -> bool:
    return bool(was.held_ns) and (was.seats, was.tenant) == (entry.seats, entry.tenant)
