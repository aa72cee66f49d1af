"""How much memory of a card may be lent twice: to running shares, and to idle ones beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpupool.model.suspension import UNIT_FACTOR, IdleSuspensionRules
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
    snapshot: Snapshot,
    placements: Iterable[JobPlacement],
    suspended_bytes: Mapping[str, int],
    rules: IdleSuspensionRules,
) -> FactorShortage | None:
    """Find the first card that the placements would bring above the factor.

    Args:
        snapshot: the pool without the victims.
        placements: what starts then.
        suspended_bytes: by card, the memory of shares that are suspended because they were idle,
            the victims included; other cards are not looked at.
        rules: the factor.
    """
    placed = defaultdict[str, int](int)
    for placement in placements:
        for seat in placement.seats:
            placed[seat.device] += seat.memory_bytes
    cards = snapshot.cards
    for row, uuid in enumerate(cards.uuids):
        suspended = suspended_bytes.get(uuid, 0)
        if not suspended:
            continue
        total = int(cards.memory_bytes[row])
        running = total - int(cards.free_bytes[row]) + placed[uuid]
        limit = rules.compute_limit(total)
        if running + suspended > limit:
            return FactorShortage(uuid, running, suspended, limit, rules.memory_factor_milli)
    return None
