"""Running and idle-suspended shares of a card stay below the factor, with the placements in it."""

from __future__ import annotations

from gpupool.base.units import GIB
from gpupool.model.suspension import IdleSuspensionRules
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.idle_suspension import find_factor_shortage
from tests.support.scheduling_builders import cards, snapshot, waiting, whole

RULES = IdleSuspensionRules(memory_factor_milli=1500)


def test_placements_count_with_what_runs_and_what_is_suspended() -> None:
    before = snapshot(cards("1xH200"), waiting("new", want=whole()))
    placed = cycle(before, 0).placements
    uuid = before.cards.uuids[0]
    assert find_factor_shortage(before, placed, {uuid: 70 * GIB}, RULES) is None
    shortage = find_factor_shortage(before, placed, {uuid: 71 * GIB}, RULES)
    assert shortage is not None
    assert (shortage.running_bytes, shortage.limit_bytes) == (140 * GIB, 210 * GIB)
    assert shortage.factor_text == "1.5"
    # A card without idle-suspended shares is not looked at: its memory is the ledger's to keep.
    assert find_factor_shortage(before, placed, {}, RULES) is None
