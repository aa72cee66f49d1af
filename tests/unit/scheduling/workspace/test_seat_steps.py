from gpupool.base.units import GIB
from gpupool.scheduling.engine.cycle import cycle
from tests.support.cycle_builders import sentence
from tests.support.quota_builders import member
from tests.support.scheduling_builders import snapshot, waiting, whole


def test_several_cards_come_from_one_node_or_not_at_all() -> None:
    used = {"node-1/0": (1000, GIB), "node-2/0": (1000, GIB)}
    before = snapshot("2x2xH200", waiting("a", want=whole(2)), used=used)
    assert sentence(before) == (
        "needs 2 whole cards on one node; node-1 has 1 whole card free, node-2 1"
    )


def test_placing_many_heads_looks_at_each_card_once_and_then_at_the_changed_node() -> None:
    heads = tuple(f"j{i:02}" for i in range(64))
    plan = cycle(snapshot("50x8xH200", waiting(*heads, count=100_000)), 0)
    assert len(plan.placements) == 64
    assert plan.effort.rows <= 400 + 64 * 8


def test_classes_of_one_shape_share_one_look_at_the_cards() -> None:
    classes = [waiting(f"j{i}", tenant=f"t{i}") for i in range(20)]
    plan = cycle(snapshot("50x8xH200", *classes), 0)
    assert len(plan.placements) == 20
    assert plan.effort.rows <= 400 + 20 * 8


def test_a_claim_to_any_card_goes_where_its_tenant_may_hold_more() -> None:
    view = member(H200=(1, 0))
    before = snapshot(
        "mixed:H200,H200,L40S", waiting("a", "b", "c", want=whole()), tenants={"nlp": view}
    )
    plan = cycle(before, 0)
    assert sorted(placement.seats[0].device for placement in plan.placements) == [
        "node-1/0",
        "node-1/2",
    ]
    assert [said.sentence for said in plan.rejections.values()] == [
        (
            "needs a whole L40S card; of 3 cards 2 are of another model, 1 is in use;"
            " tenant nlp holds 1.00 of its maximum 1.00 H200; this claim needs 1.00 more"
        )
    ]
