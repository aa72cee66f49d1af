from dataclasses import replace

from gpupool.scheduling.engine.cycle import cycle
from tests.support.cycle_builders import SPREAD
from tests.support.scheduling_builders import cards, snapshot, waiting, whole


def test_placements_say_what_decided_them() -> None:
    before = snapshot(
        "3x2xH200",
        waiting("a"),
        waiting("b", tenant="x", want=whole(2)),
        waiting("c", want=whole()),
    )
    whys = [placement.why for placement in cycle(before, 0).placements]
    assert whys == [
        "node-1 is the fullest of 3 nodes that fit; on its fullest card",
        "node-2 is the fullest of 2 nodes that fit; on its fullest 2 cards",
        "node-1 is the fullest of 2 nodes that fit; on its fullest card",
    ]
    alone = cycle(replace(before, policy=SPREAD, cards=cards("1xT4"), waiting=(waiting("a"),)), 0)
    assert alone.placements[0].why == "node-1 is the only node that fits; on its emptiest card"
