"""The card on which a waiting claim would start, were nothing kept there for suspended jobs."""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.model.suspension import UNIT_FACTOR
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.idle_suspension.kept_capacity import (
    measure_kept,
    replace_suspended,
    sum_seats,
)
from gpupool.scheduling.preemption.victims import PreemptionRules
from gpupool.scheduling.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class KeptCard:
    """What one card keeps for jobs that were suspended because they were idle."""

    card: str
    #: How many of them want to work again; the amounts below are theirs.
    woken_jobs: int
    woken_milli: int
    woken_bytes: int
    #: Memory of the others: what they have while they run, and what is kept of it.
    asleep_bytes: int
    kept_bytes: int
    limit_bytes: int
    factor_milli: int

    @property
    def factor_text(self) -> str:
        return f"{self.factor_milli / UNIT_FACTOR:g}"


def find_kept_card(snapshot: Snapshot, now_ns: int, preemption: PreemptionRules) -> KeptCard | None:
    """Find where a waiting claim would start; None if it starts anyway, or would not even so.

    Args:
        snapshot: the pool; the claim alone waits in it.
        now_ns: its instant.
        preemption: which jobs may be evicted for a claim.
    """
    if not snapshot.suspended or not snapshot.waiting:
        return None
    if cycle(snapshot, now_ns, rules=preemption, said=False).placements:
        return None
    unkept = replace_suspended(snapshot, ())
    kept = measure_kept(snapshot.cards, snapshot.suspended, snapshot.idle_rules)
    rows = {uuid: row for row, uuid in enumerate(snapshot.cards.uuids)}
    for placement in cycle(unkept, now_ns, rules=preemption, said=False).placements:
        for seat in placement.seats:
            row = rows[seat.device]
            if kept.milli[row] or kept.size[row]:
                return describe_kept_card(snapshot, row)
    return None


def describe_kept_card(snapshot: Snapshot, row: int) -> KeptCard:
    """Describe what the card of a row keeps."""
    cards = snapshot.cards
    mine = [job for job in snapshot.suspended if row in job.rows]
    woken = [job for job in mine if job.wanted_ns]
    asleep = [job for job in mine if not job.wanted_ns]
    every = sum_seats(cards, woken)
    return KeptCard(
        card=cards.uuids[row],
        woken_jobs=len(woken),
        woken_milli=int(every.milli[row]),
        woken_bytes=int(every.size[row]),
        asleep_bytes=int(sum_seats(cards, asleep).size[row]),
        kept_bytes=int(measure_kept(cards, asleep, snapshot.idle_rules).size[row]),
        limit_bytes=snapshot.idle_rules.compute_limit(int(cards.memory_bytes[row])),
        factor_milli=snapshot.idle_rules.memory_factor_milli,
    )
