"""How much memory of a card may be lent twice: to running shares, and to idle ones beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from gpupool.model.suspension import UNIT_FACTOR
from gpupool.scheduling.idle_suspension.kept_capacity import measure_kept, sum_seats
from gpupool.scheduling.snapshot.plan import JobPlacement
from gpupool.scheduling.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class FactorShortage:
    """A card on which running and idle-suspended shares would have too much together; in bytes."""

    card: str
    running_bytes: int
    suspended_bytes: int
    limit_bytes: int
    factor_milli: int

    @property
    def factor_text(self) -> str:
        return f"{self.factor_milli / UNIT_FACTOR:g}"


def find_factor_shortage(
    snapshot: Snapshot, placements: Iterable[JobPlacement]
) -> FactorShortage | None:
    """Find the first card that the placements would bring above the factor.

    Args:
        snapshot: the pool with its suspended jobs; cards without one are not looked at.
        placements: what would start.
    """
    placed = defaultdict[str, int](int)
    for placement in placements:
        for seat in placement.seats:
            placed[seat.device] += seat.memory_bytes
    cards = snapshot.cards
    rules = snapshot.idle_rules
    kept = measure_kept(cards, snapshot.suspended, rules).size
    suspended = sum_seats(cards, snapshot.suspended).size
    for row in suspended.nonzero()[0].tolist():
        uuid = cards.uuids[row]
        total = int(cards.memory_bytes[row])
        running = total - int(cards.free_bytes[row] + kept[row]) + placed[uuid]
        away = int(suspended[row])
        limit = rules.compute_limit(total)
        if running + away > limit:
            return FactorShortage(uuid, running, away, limit, rules.memory_factor_milli)
    return None
