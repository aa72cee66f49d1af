from dataclasses import replace

from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.model.claim import Rejection, RejectionReason
from gpupool.model.gang import Gang, GangGroup, GangRole
from tests.support.promise_builders import full, held_by, placed, plan, small, workers
from tests.support.quota_builders import cohort, member
from tests.support.scheduling_builders import cards, snapshot, waiting, whole
from tests.support.time_builders import used_by


def of_model(gang: Gang | None, model: str) -> Gang:
    assert gang is not None
    (role,) = gang.root.parts
    assert isinstance(role, GangRole)
    return replace(gang, root=GangGroup(gang.id, (replace(role, shape=whole(model=model)),)))


def test_who_waits_for_its_own_quota_is_promised_when_that_and_the_cards_are_there() -> None:
    columns = full("1x6xT4", 0, 1)
    tenants = {"nlp": member(gpu=(3, 0), holds=2), "web": member()}
    mine = [small(f"mine-{end}", end) for end in (80, 81)]
    queue = (
        workers("big", 2),
        *mine,
        small("other", 81, tenant="web"),
        small("for ever", None, tenant="web"),
    )
    found = plan(snapshot(columns, *queue, tenants=tenants), held_by("nlp", columns, 80, 200))
    assert found.starts[queue[0].key].at_ns == 80 * SECOND
    assert placed(found) == ["for ever", "mine-80", "other"]
    assert found.rejections[queue[0].key].dominant is RejectionReason.QUOTA
    said = found.rejections[mine[1].key]
    assert said.dominant is RejectionReason.QUOTA


def test_who_waits_for_quota_of_unknown_end_collects_quota_and_no_cards() -> None:
    columns = full("1x6xT4", 0)
    tenants = {"nlp": member(gpu=(3, 0), holds=1), "web": member()}
    queue = (
        workers("big", 3),
        small("mine", 5),
        *(small(f"web-{n}", None, tenant="web", preemptible=True) for n in range(4)),
    )
    found = plan(snapshot(columns, *queue, tenants=tenants), held_by("nlp", columns, None))
    assert placed(found) == [f"web-{n}" for n in range(4)]
    assert found.starts == {}
    assert found.rejections[queue[1].key] == Rejection(
        "what the quota of tenant nlp leaves is kept for a claim of higher rank",
        RejectionReason.QUOTA,
    )


def test_who_has_its_quota_and_waits_for_cards_of_unknown_end_keeps_the_quota_meanwhile() -> None:
    """Also what its tenant's own jobs will give back before those cards come: else smaller ones
    used that first."""
    columns = full("1x2xT4+1x3xT4+1x1xL40S", 0, 1, 2, 3)
    tenants = {"nlp": member(gpu=(5, 0), holds=2), "web": member(holds=2)}
    queue = workers("big", 3), small("mine", None, want=whole(model="L40S"))
    runs = held_by("nlp", columns, None, None) + held_by("web", columns, None, None, first=2)
    head = replace(queue[0], gang=of_model(queue[0].gang, "T4"))
    found = plan(snapshot(columns, head, queue[1], tenants=tenants), runs)
    assert placed(found) == []
    assert found.rejections[head.key].dominant is not RejectionReason.QUOTA
    assert found.rejections[queue[1].key].sentence == (
        "what the quota of tenant nlp leaves is kept for a claim of higher rank"
    )


def test_what_a_cohort_leaves_is_kept_for_who_waits_for_it_whichever_tenant_asks() -> None:
    columns = full("1x6xT4", 0, 1)
    tenants = {"a": member("lab", holds=2), "b": member("lab"), "web": member()}
    queue = (
        workers("big", 3, tenant="b"),
        small("sibling", 90, tenant="a"),
        small("other", None, tenant="web"),
    )
    before = replace(snapshot(columns, *queue, tenants=tenants), cohorts={"lab": cohort((3, 0))})
    found = plan(before, held_by("a", columns, 70, 80))
    assert found.starts[queue[0].key].at_ns == 80 * SECOND
    assert placed(found) == ["other"]


def test_a_quota_of_one_model_has_a_time_axis_too() -> None:
    columns = cards("1x2xT4+1x2xL40S", used=used_by("node-1/0"))
    tenants = {"nlp": member(T4=(1, 0), holds=1), "web": member()}
    head = waiting("head", want=whole(model="T4"))
    found = plan(snapshot(columns, head, tenants=tenants), held_by("nlp", columns, 60))
    assert found.starts[head.key].at_ns == 60 * SECOND
