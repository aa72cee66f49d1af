from dataclasses import replace

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.engine.cycle import cycle
from tests.support.cycle_builders import seated, sentence
from tests.support.quota_builders import member
from tests.support.scheduling_builders import cards, snapshot, tenant, waiting, whole


def test_a_proportional_share_takes_the_card_its_memory_quota_can_pay() -> None:
    pool = cards("mixed:H200,T4")
    before = snapshot(pool, waiting("a", want=Shape(500)), tenants={"nlp": tenant(memory=10 * GIB)})
    assert seated(cycle(before, 0)) == {"a": ("node-1/1",)}


def test_a_proportional_share_waits_for_the_only_card_its_memory_quota_can_pay() -> None:
    pool = cards("mixed:H200,T4", used={"node-1/1": (1000, 15 * GIB)})
    before = snapshot(pool, waiting("a", want=Shape(500)), tenants={"nlp": tenant(memory=10 * GIB)})
    assert (
        sentence(before)
        == "tenant nlp holds 0 of its maximum 10240 MiB; this claim needs 71680 MiB more"
    )


def test_proportional_seats_on_unlike_cards_stay_within_the_memory_quota_together() -> None:
    pool = cards("mixed:H200,T4,A100-40G", used={"node-1/0": (500, GIB)})
    before = snapshot(
        pool, waiting("a", want=Shape(500, None, 2)), tenants={"nlp": tenant(memory=30 * GIB)}
    )
    assert seated(cycle(before, 0)) == {"a": ("node-1/1", "node-1/2")}
    richer = replace(before, tenants={"nlp": tenant(memory=80 * GIB)})
    assert seated(cycle(richer, 0)) == {"a": ("node-1/0", "node-1/1")}


def test_a_node_that_is_promised_whole_is_left_to_whom_it_was_promised() -> None:
    views = {"nlp": member(nodes=(1, None, 0)), "guest": member()}
    classes = [
        waiting("g0", "g1", "g2", want=whole(), tenant="guest"),
        waiting("n", want=whole(2), tenant="nlp", at=9),
    ]
    plan = cycle(snapshot("2x2xH200", *classes, tenants=views), 0)
    assert sorted(placement.job for placement in plan.placements) == ["g0", "g1", "n"]
    alone = cycle(snapshot("2x2xH200", classes[0], tenants=views), 0)
    assert [said.sentence for said in alone.rejections.values()] == [
        "needs a whole card; the 2 cards that fit are on nodes kept whole for other tenants"
    ]
