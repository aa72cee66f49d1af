"""A plan in a full pool costs what an event concerns, and not how many classes wait: counted.

Counted are heads that had a turn, cards looked at, and calls of functions. What an array operation
or the kernel does inside is one call. The times are `make bench ARGS=cycles`.
"""

from __future__ import annotations

from typing import cast

import pytest

from bench.figures.cycles import TENANTS, Full
from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.placement.planner import Planner
from gpupool.base.clock import LedgerClock
from gpupool.base.units import WHOLE
from gpupool.model.claim import Rejection
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.engine.lazy_rejections import PoolAfterPlan
from gpupool.scheduling.engine.start_promises import LOOKS, SEARCHES
from gpupool.scheduling.preemption.victims import DEFAULT_PREEMPTION_RULES
from gpupool.scheduling.snapshot.claims import WaitingClass
from gpupool.scheduling.snapshot.plan import PlanningEffort
from gpupool.scheduling.workspace.planning_state import PlanningState
from tests.performance.test_plan import calls

FEW, MANY = 200, 2_000


def cost(what: str, count: int, *, quotas: bool) -> tuple[PlanningEffort, int]:
    """Of a plan after a job has ended, on a board that has seen the queue."""
    full = Full(count, what, "40x8xH200", quotas=quotas)
    board = PlanningState(full.snapshot(0))
    for event in range(2):
        cycle(full.snapshot(event), 10**9, board=board)
    full.end_one(1)
    before = full.snapshot(2)
    return cycle(before, 2 * 10**9, board=board).effort, calls(
        lambda: cycle(before, 2 * 10**9, board=board)
    )


@pytest.mark.parametrize("quotas", [False, True])
@pytest.mark.parametrize("what", ["shapes", "gangs"])
def test_ten_times_the_classes_take_as_many_turns_and_hardly_more_calls(
    what: str, *, quotas: bool
) -> None:
    few, many = (cost(what, count, quotas=quotas) for count in (FEW, MANY))
    assert many[0].attempts == few[0].attempts <= LOOKS * TENANTS + SEARCHES
    assert many[0].rows <= few[0].rows * 1.1
    assert many[1] <= few[1] * 1.5


class SteadyClock:
    """The only time that a plan needs here."""

    def now_ns(self) -> int:
        return 10**9


@pytest.mark.parametrize("quotas", [False, True])
def test_a_planner_judges_no_class_that_its_plan_passed_over(
    monkeypatch: pytest.MonkeyPatch, *, quotas: bool
) -> None:
    judgements: list[object] = []
    judge = PoolAfterPlan.find_rejection

    def counted(after: PoolAfterPlan, waiting: WaitingClass) -> Rejection:
        judgements.append(waiting.key)
        return judge(after, waiting)

    monkeypatch.setattr(PoolAfterPlan, "find_rejection", counted)
    full = Full(FEW, "shapes", "40x8xH200", quotas=quotas)
    planner = Planner(
        cast(LedgerCache, None), cast(LedgerClock, SteadyClock()), DEFAULT_PREEMPTION_RULES
    )
    plan = planner.make_plan(full.snapshot(0))
    assert len(plan.rejections) == FEW
    assert not judgements
    assert plan.rejections[full.waiting[-1].key].sentence
    assert len(judgements) == 1


def test_a_card_that_comes_free_gives_turns_to_few_of_those_that_it_could_serve() -> None:
    full = Full(MANY, "shapes", "40x8xH200", freed=WHOLE)
    full.end_one(1)
    plan = cycle(full.snapshot(1), 10**9)
    assert plan.placements
    assert plan.effort.attempts <= 3 * TENANTS
