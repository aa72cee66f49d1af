from gpupool.base.units import GIB
from gpupool.model.claim import RejectionReason
from gpupool.scheduling.engine.cycle import cycle
from tests.support.cycle_builders import seated
from tests.support.scheduling_builders import apply, snapshot, waiting, whole


def test_a_large_claim_that_finds_no_room_does_not_hold_back_a_small_one() -> None:
    classes = waiting("large", want=whole(8), priority=100), waiting("small")
    plan = cycle(snapshot("8xT4", *classes, used={"node-1/0": (500, GIB)}), 0)
    assert seated(plan) == {"small": ("node-1/0",)}
    assert [key[1] for key in plan.rejections] == [100]


def test_a_plan_stops_at_its_limit_and_says_that_there_is_room() -> None:
    before = snapshot("8xH200", waiting("a", "b", "c"))
    plan = cycle(before, 0, limit=2)
    (said,) = plan.rejections.values()
    assert len(plan.placements) == 2
    assert (
        said.sentence
        == "there is room; it comes in the next round, after 2 claims placed in this one"
    )
    assert said.dominant is RejectionReason.BEHIND
    assert seated(cycle(apply(before, plan), 0)) == {"c": ("node-1/1",)}


def test_work_does_not_grow_with_the_number_of_jobs_behind_the_heads() -> None:
    few, many = (cycle(snapshot("50x8xH200", waiting("a", "b", count=n)), 0) for n in (3, 100_000))
    assert (few.effort.rows, few.placements) == (many.effort.rows, many.placements)
