"""Running and idle-suspended shares of a card stay below the factor, with the placements in it."""

from __future__ import annotations

from dataclasses import replace

from gpupool.base.units import GIB
from gpupool.model.suspension import IdleSuspensionRules
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.idle_suspension import find_factor_shortage, replace_suspended
from gpupool.scheduling.snapshot.claims import SuspendedJob
from gpupool.scheduling.snapshot.snapshot import Snapshot
from tests.support.scheduling_builders import cards, snapshot, waiting, whole

RULES = IdleSuspensionRules(memory_factor_milli=1500)


def suspend(before: Snapshot, gib: int) -> Snapshot:
    away = SuspendedJob("away", (0,), 1000, (gib * GIB,))
    return replace_suspended(replace(before, idle_rules=RULES), (away,))


def test_placements_count_with_what_runs_and_what_is_suspended() -> None:
    before = snapshot(cards("1xH200"), waiting("new", want=whole()))
    placed = cycle(before, 0).placements
    assert find_factor_shortage(suspend(before, 70), placed) is None
    shortage = find_factor_shortage(suspend(before, 71), placed)
    assert shortage is not None
    assert (shortage.running_bytes, shortage.suspended_bytes) == (140 * GIB, 71 * GIB)
    assert (shortage.limit_bytes, shortage.factor_text) == (210 * GIB, "1.5")
    # A card without idle-suspended shares is not looked at: its memory is the ledger's to keep.
    assert find_factor_shortage(before, placed) is None
