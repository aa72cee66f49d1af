"""Rejections of classes that slept: found on first use, in the pool as the plan leaves it."""

from __future__ import annotations

from unittest import mock

import pytest

from gpupool.base.units import GIB
from gpupool.model.claim import Rejection, RejectionReason
from gpupool.scheduling.engine.lazy_rejections import (
    LazyRejections,
    PoolAfterPlan,
    select_judged,
)
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.workspace.planning_state import PlanningState
from gpupool.scheduling.workspace.transaction import PlanningTransaction
from tests.support.scheduling_builders import shape, snapshot, waiting

TOLD = Rejection("said by the plan", RejectionReason.COMPUTE)


def queue() -> Snapshot:
    """Two classes that wait for the only card, of which 0.80 are taken."""
    classes = [waiting(name, want=shape(milli)) for name, milli in (("a", 500), ("b", 700))]
    return snapshot("1xT4", *classes, used={"node-1/0": (800, GIB)})


def pool_after(before: Snapshot) -> PoolAfterPlan:
    return PoolAfterPlan(PlanningTransaction(before, PlanningState(before)), 0)


def test_a_rejection_that_the_plan_did_not_find_is_computed_once() -> None:
    before = queue()
    first, second = before.waiting
    after = pool_after(before)
    found = LazyRejections(lambda: before.waiting, {first.key: TOLD}, after)
    with mock.patch.object(after, "find_rejection", wraps=after.find_rejection) as search:
        assert found[first.key] is TOLD
        assert found[second.key] is found[second.key]
    assert "0.20" in found[second.key].sentence
    assert [call.args[0] for call in search.call_args_list] == [second]


def test_rejections_are_those_of_classes_that_still_wait() -> None:
    before = queue()
    first, second = before.waiting
    found = LazyRejections(lambda: (second,), {}, pool_after(before))
    assert list(found) == [second.key]
    assert len(found) == 1
    assert first.key not in found
    with pytest.raises(KeyError):
        found[first.key]


def test_judged_rejections_are_found_without_computing_others() -> None:
    before = queue()
    told = {before.waiting[0].key: TOLD}
    after = pool_after(before)
    lazy = LazyRejections(lambda: before.waiting, told, after)
    lazy[before.waiting[1].key]
    assert select_judged(lazy) == told
    assert select_judged(told) is told


def test_the_pool_after_a_plan_stays_when_the_plan_is_undone() -> None:
    before = snapshot("1xT4", waiting("rest", want=shape(500)))
    work = PlanningTransaction(before, PlanningState(before))
    mark = work.mark()
    assert work.seat_claim("nlp", shape(700)) is not None
    after = PoolAfterPlan(work, 1)
    work.rollback(mark)
    assert work.free.milli.tolist() == [1000]
    said = after.find_rejection(before.waiting[0])
    assert said.sentence.endswith("the only card lacks compute (free: 0.30)")
