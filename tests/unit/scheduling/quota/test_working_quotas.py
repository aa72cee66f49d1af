"""What may not be preempted runs on its own tenant's part and on what nobody is guaranteed, and on
nothing else."""

from dataclasses import replace

from gpupool.model.claim import RejectionReason
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.explain.explain import explain_claim
from gpupool.scheduling.quota.quota_rejections import (
    PREEMPTIBLE,
)
from gpupool.scheduling.reasons.help_messages import WAIT
from gpupool.scheduling.snapshot.claims import RunningJob, WaitingClass
from gpupool.scheduling.snapshot.plan import Plan
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from tests.support.gang_builders import occupied
from tests.support.quota_builders import cohort, member, runs
from tests.support.scheduling_builders import cards, snapshot, tenant, waiting, whole

POOL = "1x8xH200"


def asked(jobs: list[RunningJob], *queue: WaitingClass, **views: TenantView) -> Snapshot:
    """Eight cards, and what these jobs hold of them."""
    held = {name: sum(len(job.rows) for job in jobs if job.tenant == name) for name in views}
    known = {
        name: replace(view, held=member(holds=held[name]).held) for name, view in views.items()
    }
    return replace(
        snapshot(occupied(cards(POOL), *jobs), *queue, tenants=known), running=tuple(jobs)
    )


def firm(count: int, tenant: str = "guest", name: str = "firm") -> WaitingClass:
    return waiting(name, want=whole(count), tenant=tenant)


def soft(count: int, tenant: str = "guest", name: str = "soft") -> WaitingClass:
    return replace(firm(count, tenant, name), preemptible=True)


def placed(found: Plan) -> list[str]:
    return [placement.job for placement in found.placements]


def test_what_is_not_preemptible_leaves_alone_what_others_are_guaranteed_and_is_told_so() -> None:
    before = asked([], firm(6), owner=member(gpu=3), guest=member(gpu=(2, None)))
    found = cycle(before, 0)
    (said,) = found.rejections.values()
    assert placed(found) == []
    assert (said.dominant, said.hint) == (RejectionReason.QUOTA, PREEMPTIBLE)
    assert said.sentence == (
        "cannot start while 3.00 of the pool's 8.00 GPU are guaranteed to others; this claim, not preemptible, "
        "needs 6.00"
    )
    helps = explain_claim(before, before.waiting[0], 0).helps
    assert PREEMPTIBLE in helps
    assert WAIT not in helps
    assert placed(cycle(replace(before, waiting=(firm(5),)), 0)) == ["firm"]
    assert placed(cycle(replace(before, waiting=(soft(6),)), 0)) == ["soft"]


def test_inside_its_own_part_a_claim_may_be_of_either_kind() -> None:
    before = asked([], firm(3, "owner"), owner=member(gpu=3), guest=member(gpu=5))
    assert placed(cycle(before, 0)) == ["firm"]


def test_what_nobody_is_guaranteed_is_there_once_for_all_that_is_not_preemptible() -> None:
    jobs = [
        runs("a", "guest", 0, 1, preemptible=False),
        runs("b", "other", 2, 3, preemptible=False),
    ]
    before = asked(jobs, firm(1), owner=member(gpu=4), guest=member(gpu=(0, None)), other=member())
    assert placed(cycle(before, 0)) == []
    assert placed(
        cycle(replace(before, running=tuple(replace(one, preemptible=True) for one in jobs)), 0)
    ) == ["firm"]


def test_what_a_firm_borrower_has_of_the_rest_is_no_longer_anybody_elses_and_is_given_back_for_the_owner() -> (
    None
):
    """The guest has what nobody is guaranteed, so what another tenant without a part holds is the
    owner's."""
    jobs = [
        runs("fix", "guest", 0, 1, 2, 3, preemptible=False),
        runs("one", "other", 4, 5),
        runs("two", "other", 6, 7),
    ]
    before = asked(
        jobs, firm(4, "owner"), owner=member(gpu=4), guest=member(gpu=(0, None)), other=member()
    )
    assert sorted(one.job for one in cycle(before, 0).evictions) == ["one", "two"]


def test_in_a_cohort_what_a_sibling_is_guaranteed_is_kept_and_what_only_the_cohort_is_may_be_used() -> (
    None
):
    views = {"a": member("lab", 2), "b": member("lab"), "web": member(gpu=2)}
    before = replace(asked([], firm(4, "b"), **views), cohorts={"lab": cohort((6, 0))})
    assert placed(cycle(before, 0)) == ["firm"]
    assert placed(cycle(replace(before, waiting=(firm(5, "b"),)), 0)) == []
    assert placed(cycle(replace(before, waiting=(soft(5, "b"),)), 0)) == ["soft"]


def test_a_model_that_others_are_guaranteed_is_left_and_another_one_taken() -> None:
    pool = "1x2xT4+1x2xL40S"
    tenants = {"owner": member(T4=2), "guest": member()}
    found = cycle(snapshot(cards(pool), firm(1), tenants=tenants), 0)
    assert [one.seats[0].device for one in found.placements] == ["node-2/0"]
    only = waiting("only", want=whole(model="T4"), tenant="guest")
    assert placed(cycle(snapshot(cards(pool), only, tenants=tenants), 0)) == []


def test_where_more_is_guaranteed_than_there_is_everybody_may_use_its_own_part() -> None:
    before = asked([], firm(8), owner=member(gpu=8), guest=member(gpu=8))
    assert placed(cycle(before, 0)) == ["firm"]


def test_where_nobody_is_guaranteed_anything_nothing_is_looked_at() -> None:
    before = asked([runs("a", "guest", 0, preemptible=False)], firm(7), guest=tenant())
    assert placed(cycle(before, 0)) == ["firm"]
