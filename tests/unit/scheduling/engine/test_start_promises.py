from dataclasses import replace

import pytest

from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.model.claim import RejectionReason
from gpupool.model.gang import Gang, GangGroup, GangRole
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.engine.start_promises import FORECAST, PATIENCE_NS, SEARCHES
from gpupool.scheduling.explain.explain import explain_claim
from gpupool.scheduling.snapshot.claims import RunningJob, WaitingClass
from gpupool.scheduling.snapshot.plan import PlannedStart
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.scheduling.timeline import backfill
from gpupool.scheduling.workspace.planning_state import PlanningState
from tests.support.promise_builders import HEAD, full, held_by, placed, plan, pool, small, workers
from tests.support.quota_builders import member
from tests.support.scheduling_builders import MODELS, cards, snapshot, tenant, waiting, whole
from tests.support.time_builders import reserved, running, used_by


def test_a_head_that_waits_for_a_known_end_is_promised_that_start_and_its_cards() -> None:
    columns, jobs = pool(100)
    found = plan(snapshot(columns, HEAD), jobs)
    whole_cards = (1000, 1000), (MODELS["T4"], MODELS["T4"])
    names = columns.uuids[:2]
    start = PlannedStart(
        100 * SECOND, (0, 1), True, *whole_cards, claim="head", firm=True, devices=names
    )
    assert found.starts == {HEAD.key: start}


def test_what_ends_before_the_heads_start_passes_it_and_what_does_not_waits_and_is_told_why() -> (
    None
):
    columns, jobs = pool(100)
    for seconds, passes in ((100, True), (101, False), (None, False)):
        behind = small("small", seconds)
        found = plan(snapshot(columns, HEAD, behind), jobs)
        assert placed(found) == (["small"] if passes else [])
        if not passes:
            said = found.rejections[behind.key]
            assert said.dominant is RejectionReason.RESERVED
            assert said.sentence.startswith(
                "what is free is kept for a claim of higher rank from 1970-01-01T00:01:40Z on, and this claim "
            )


def test_a_head_that_is_larger_than_its_quota_is_promised_nothing_and_holds_nobody_up() -> None:
    columns, jobs = pool(100)
    found = plan(
        snapshot(
            columns, HEAD, small("small", None, tenant="audio"), tenants={"nlp": tenant(1000)}
        ),
        jobs,
    )
    assert placed(found) == ["small"]
    assert found.starts == {}


def test_a_head_whose_start_nobody_can_tell_lets_others_pass_for_a_while_and_then_collects_seats() -> (
    None
):
    columns, jobs = pool(None)
    behind = small("small", 10)
    patience = PATIENCE_NS // SECOND
    assert placed(plan(snapshot(columns, HEAD, behind), jobs, now=patience - 1)) == ["small"]
    found = plan(snapshot(columns, HEAD, behind), jobs, now=patience)
    assert placed(found) == []
    assert found.starts == {}
    assert found.rejections[behind.key].sentence == (
        "what is free is kept for a claim of higher rank, whose start is not known"
    )


def test_a_gang_whose_start_nobody_can_tell_collects_seats_at_once() -> None:
    columns, jobs = pool(None)
    role = GangRole("worker", whole(), 2, 2)
    gang = replace(
        waiting("g.0", "g.1", want=whole()), gang=Gang("g", GangGroup("g", (role,)), ("g.0", "g.1"))
    )
    found = plan(snapshot(columns, gang, small("small", 10)), jobs)
    assert placed(found) == []


def test_a_gang_is_promised_a_start_as_a_claim_is_and_what_ends_in_time_passes_it() -> None:
    columns, jobs = pool(100)
    role = GangRole("worker", whole(), 2, 2)
    gang = replace(
        waiting("g.0", "g.1", want=whole()), gang=Gang("g", GangGroup("g", (role,)), ("g.0", "g.1"))
    )
    found = plan(snapshot(columns, gang, small("short", 100), small("long", 101)), jobs)
    assert placed(found) == ["short"]
    assert found.starts[gang.key].at_ns == 100 * SECOND


def test_a_gang_that_may_not_have_the_room_there_is_is_told_for_whom_it_is_kept() -> None:
    columns, _ = pool()
    role = GangRole("worker", whole(), 2, 2)
    gang = replace(
        waiting("g.0", "g.1", want=whole()), gang=Gang("g", GangGroup("g", (role,)), ("g.0", "g.1"))
    )
    demo = reserved("demo", 100, 500, want=whole(2), tenant="vision")
    said = plan(snapshot(columns, gang), [], reservations=(demo,)).rejections[gang.key]
    assert said.dominant is RejectionReason.RESERVED
    assert said.sentence == (
        "what is free is kept for a reservation of another tenant from 1970-01-01T00:01:40Z on,"
        " and this claim has no known end"
    )


def test_heads_that_wait_for_different_cards_are_each_promised_a_start() -> None:
    columns = cards("1x1xT4+1x1xL40S", used=used_by("node-1/0") | used_by("node-2/0", model="L40S"))
    jobs = [running("a", columns, "node-1/0", ends=50), running("b", columns, "node-2/0", ends=60)]
    on_t4, on_l40s = (
        waiting("x", want=whole(model="T4")),
        waiting("y", want=whole(model="L40S"), at=1),
    )
    third = waiting("z", want=whole(), at=2)
    found = plan(snapshot(columns, on_t4, on_l40s, third), jobs)
    assert {key: start.at_ns // SECOND for key, start in found.starts.items()} == {
        on_t4.key: 50,
        on_l40s.key: 60,
    }


def estimate_of(before: Snapshot, jobs: list[RunningJob], asked: WaitingClass) -> int | None:
    start = explain_claim(replace(before, running=tuple(jobs)), asked, 0).start
    return None if start is None else start.at_ns // SECOND


def test_behind_the_head_the_estimate_counts_what_starts_before_it() -> None:
    columns, jobs = pool(100, 100)
    head, second, third = (
        replace(waiting(n, want=whole(2), at=at), seconds=50 + at) for at, n in enumerate("abc")
    )
    before = snapshot(columns, head, second, third)
    assert [estimate_of(before, jobs, one) for one in (head, second, third)] == [100, 150, 201]


def test_every_claim_of_a_class_before_it_counts_for_the_estimate() -> None:
    columns, jobs = pool(100, 100)
    many = replace(waiting("a", "b", "c", want=whole(2)), seconds=50)
    last = replace(waiting("z", want=whole(2), at=1), seconds=10)
    assert estimate_of(snapshot(columns, many, last), jobs, last) == 250


def test_nobody_can_tell_behind_jobs_of_unknown_end_or_too_many_claims() -> None:
    columns, jobs = pool(None, None)
    head, last = waiting("a", want=whole(2)), waiting("z", want=whole(), at=1)
    assert estimate_of(snapshot(columns, head, last), jobs, head) is None
    assert estimate_of(snapshot(columns, head, last), jobs, last) is None
    columns, jobs = pool(100, 100)
    many = replace(waiting("a", want=whole(2), count=FORECAST + 2), seconds=50)
    assert estimate_of(snapshot(columns, many, last), jobs, last) is None


def test_looking_ahead_leaves_the_board_as_it_was() -> None:
    columns, jobs = pool(100)
    before = replace(snapshot(columns, HEAD, small("small", 200)), running=tuple(jobs))
    board = PlanningState(before)
    first = cycle(before, 0, board=board)
    assert board.free.milli.tolist() == columns.free_milli.tolist()
    assert cycle(before, 0, board=board) == first


def test_only_so_many_heads_are_looked_at_however_long_the_queue_is() -> None:
    columns, jobs = pool(None)
    searched = []
    queue = [
        replace(waiting(f"j{n:03}", want=whole(2), at=0), seconds=n) for n in range(3 * SEARCHES)
    ]
    original = backfill.find_earliest_start

    def counted(*arguments, **more):
        searched.append(arguments)
        return original(*arguments, **more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(backfill, "find_earliest_start", counted)
        plan(snapshot(columns, *queue), jobs)
    assert len(searched) == SEARCHES


def lending(name: str, lent: float, nominal: float = 1) -> dict[str, TenantView]:
    """A tenant that holds nothing and lends so many cards of what it is guaranteed."""
    return {name: member(gpu=(nominal, None, lent))}


def test_a_gang_that_is_short_of_cards_is_promised_a_start_though_somebody_lends_only_a_part() -> (
    None
):
    columns = full("1x5xT4", 0, 1)
    tenants = {"nlp": member(holds=2), "web": member()} | lending("idle", 1, nominal=2)
    queue = workers("big", 4), small("short", 100, tenant="web"), small("long", None, tenant="web")
    queue = tuple(replace(one, preemptible=True) for one in queue)
    found = plan(snapshot(columns, *queue, tenants=tenants), held_by("nlp", columns, 100, 50))
    assert placed(found) == ["short"]
    assert found.starts[queue[0].key].at_ns == 100 * SECOND
    assert found.rejections[queue[0].key].dominant is not RejectionReason.QUOTA
    assert "kept for a claim of higher rank" in found.rejections[queue[2].key].sentence


def test_a_gang_that_could_never_start_beside_what_is_not_lent_is_promised_nothing() -> None:
    columns = full("1x4xT4", 0)
    tenants = {"nlp": member(holds=1), "web": member()} | lending("idle", 0)
    queue = workers("big", 4), small("long", None, tenant="web")
    found = plan(snapshot(columns, *queue, tenants=tenants), held_by("nlp", columns, 100))
    assert (placed(found), found.starts) == (["long"], {})


def test_a_gang_inside_its_tenants_guarantee_is_not_passed_by_younger_jobs_that_still_fit_in_it() -> (
    None
):
    columns = full("1x6xT4", 0, 1)
    for borrowing in (0, None):
        tenants = {"nlp": member(gpu=(4, borrowing), holds=2), "web": member(gpu=(2, 0))}
        queue = replace(workers("big", 4), priority=0), small("young", 200)
        found = plan(snapshot(columns, *queue, tenants=tenants), held_by("nlp", columns, 100, 150))
        if borrowing is None:
            assert placed(found) == ["big.0", "big.1", "big.2", "big.3"]
        else:
            assert (placed(found), found.starts[queue[0].key].at_ns) == ([], 150 * SECOND)


def test_a_gang_of_a_tenant_without_a_quota_collects_cards_where_no_guarantee_bounds_the_pool() -> (
    None
):
    columns = full("1x2xT4", 0)
    tenants = {"nlp": member(holds=1), "idle": member(gpu=(0, 0, 0))}
    queue = replace(workers("big", 2), priority=0, preemptible=False), small("young", None)
    found = plan(snapshot(columns, *queue, tenants=tenants), held_by("nlp", columns, None))
    assert placed(found) == []
