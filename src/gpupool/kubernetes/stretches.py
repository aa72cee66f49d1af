"""Since when a node's seats are held, and until when they were: what the meter needs, kept in the ledger itself. Pure.

Said by comparing two states of the ledger, in the one place where it is written, so whoever changes entries cannot
forget it: an entry that is new, or has other seats or another tenant, is held from now on; one that is no more, or was
otherwise, ended now. The instant is the ledger's own clock: the wall's, but later than that of the write before. So
what ended and what follows it never overlap, whichever machine leads and whatever its clock says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpupool.kubernetes.ended import Ended
from gpupool.kubernetes.objects import Entry, GpuNode

MOST_ENDED = 200
"""So many stay in a ledger until the meter has told them; then they go to its journal."""


@dataclass(frozen=True)
class Stretches:
    """A ledger to write: its entries with since when they are held, and what is not in the books yet."""

    entries: tuple[Entry, ...]
    ended: tuple[Ended, ...]
    at_ns: int


def stretches(node: GpuNode, entries: Sequence[Entry], now_ns: int) -> Stretches:
    """The ledger that follows `node` when it gets these entries at that instant of the wall clock."""
    at_ns = max(now_ns, node.ledger_ns + 1)
    before = {entry.key: entry for entry in node.entries}
    now = tuple(_since(entry, before.get(entry.key), at_ns) for entry in entries)
    going_on = {(entry.key, entry.held_ns) for entry in now}
    over = (entry for entry in node.entries if entry.held_ns and (entry.key, entry.held_ns) not in going_on)
    spent = node.spent()
    return Stretches(now, untold(node) + tuple(over_at(one, at_ns, spent.get(one.key)) for one in over), at_ns)


def _since(entry: Entry, was: Entry | None, at_ns: int) -> Entry:
    """With since when it is held; the same object where that stands there."""
    held_ns = was.held_ns if was is not None and _goes_on(was, entry) else at_ns
    return entry if entry.held_ns == held_ns else replace(entry, held_ns=held_ns)


def over_at(entry: Entry, at_ns: int, gpu_ms: int | None = None) -> Ended:
    """What was held until then, and the GPU time used."""
    who = entry.uid, entry.namespace, entry.pod, entry.container
    return Ended(*who, entry.seats, entry.tenant, entry.account, entry.held_ns, at_ns, gpu_ms)


def untold(node: GpuNode) -> tuple[Ended, ...]:
    """What ended there and is not in the books, as far as the meter has said."""
    return tuple(one for one in node.ended if one.ended_ns > node.metered_ns)


def too_many(then: Stretches) -> bool:
    return len(then.ended) > MOST_ENDED


def _goes_on(was: Entry, entry: Entry) -> bool:
    return bool(was.held_ns) and (was.seats, was.tenant) == (entry.seats, entry.tenant)
