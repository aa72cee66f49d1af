import pytest

from gpupool.base.units import GIB
from gpupool.scheduling.admission.gang import judge_gang
from gpupool.scheduling.engine.cycle import cycle
from tests.support.gang_builders import gang, role
from tests.support.gang_plans import FULL, searches
from tests.support.scheduling_builders import shape, snapshot, tenant, whole


def test_more_than_the_minimum_is_placed_where_there_is_room() -> None:
    plan = cycle(snapshot("2x4xH200", gang("g", role("worker", whole(), 2, 12))), 0)
    assert [placement.job for placement in plan.placements] == [f"g-{n}" for n in range(8)]
    ((key, said),) = plan.rejections.items()
    assert key.gang == "g"
    assert said.sentence == "needs a whole card; all 8 cards are in use"


def test_a_gang_that_runs_takes_more_members_one_by_one() -> None:
    asked = gang("g", role("worker", whole(), 4, 6), gone=4)
    before = snapshot("5xH200", asked, used={f"node-1/{n}": FULL for n in range(4)})
    assert [placement.job for placement in cycle(before, 0).placements] == ["g-4"]


def test_members_that_are_needed_again_come_back_together_or_not_at_all() -> None:
    asked = gang("g", role("worker", whole(), 4, 6), gone=2)
    before = snapshot("6xH200", asked, used={f"node-1/{n}": FULL for n in range(5)})
    assert cycle(before, 0).placements == ()
    assert (
        len(
            cycle(
                snapshot("4xH200", asked, used={"node-1/0": FULL, "node-1/1": FULL}), 0
            ).placements
        )
        == 2
    )


def test_a_gang_that_can_never_fit_is_refused_without_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, found = gang("g", role("worker", shape(1, GIB), 9000)), searches(monkeypatch)
    before = snapshot("2x4xL40S", asked)
    assert asked.gang is not None
    said = judge_gang(asked.gang, tenant(), before.cards, tenant_name="nlp")
    assert said is not None
    assert "360 would find room" in said.sentence
    assert cycle(before, 0).placements == ()
    assert found == []
