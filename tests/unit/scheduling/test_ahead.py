from dataclasses import replace

import pytest

from gpupool.base.units import GIB
from gpupool.model.claim import Reason, Rejection, Shape
from gpupool.model.gang import Gang, Group, Role
from gpupool.scheduling import backfill
from gpupool.scheduling.ahead import FORECAST, PATIENCE_NS, SEARCHES
from gpupool.scheduling.board import Board
from gpupool.scheduling.cycle import cycle
from gpupool.scheduling.ends import SECOND
from gpupool.scheduling.explain import explain
from gpupool.scheduling.snapshot import Cards, Plan, Running, Snapshot, Start, TenantView, Waiting
from tests.support.quota_builders import cohort, member
from tests.support.scheduling_builders import MODELS, cards, shape, snapshot, tenant, waiting, whole
from tests.support.time_builders import reserved, running, used_by

HEAD = waiting("head", want=whole(2), at=0)


def pool(*ends: int | None) -> tuple[Cards, list[Running]]:
    """One node of two cards, the first of them taken by jobs that end so (in seconds)."""
    names = [f"node-1/{i}" for i in range(len(ends))]
    full = cards("1x2xT4", used=used_by(*names))
    return full, [running(f"r{i}", full, name, ends=end) for i, (name, end) in enumerate(zip(names, ends, strict=True))]


def small(name: str, seconds: int | None, **how) -> Waiting:
    preemptible = how.pop("preemptible", False)
    claim = waiting(name, want=how.pop("want", whole()), at=5, **how)
    return replace(claim, seconds=seconds, preemptible=preemptible)


def plan(before: Snapshot, jobs: list[Running], now: int = 0, **more) -> Plan:
    return cycle(replace(before, running=tuple(jobs), **more), now * SECOND)


def placed(found: Plan) -> list[str]:
    return sorted(placement.job for placement in found.placements)


def test_a_head_that_waits_for_a_known_end_is_promised_that_start_and_its_cards() -> None:
    columns, jobs = pool(100)
    found = plan(snapshot(columns, HEAD), jobs)
    whole_cards = (1000, 1000), (MODELS["T4"], MODELS["T4"])
    names = columns.uuids[:2]
    start = Start(100 * SECOND, (0, 1), True, *whole_cards, claim="head", firm=True, devices=names)
    assert found.starts == {HEAD.key: start}


def test_what_ends_before_the_heads_start_passes_it_and_what_does_not_waits_and_is_told_why() -> None:
    columns, jobs = pool(100)
    for seconds, passes in ((100, True), (101, False), (None, False)):
        behind = small("small", seconds)
        found = plan(snapshot(columns, HEAD, behind), jobs)
        assert placed(found) == (["small"] if passes else [])
        if not passes:
            said = found.rejections[behind.key]
            assert said.dominant is Reason.RESERVED
            assert said.sentence.startswith(
                "what is free is kept for a claim of higher rank from 1970-01-01T00:01:40Z on, and this claim "
            )


def test_a_class_that_was_placed_before_the_head_counts_when_its_start_is_looked_for() -> None:
    columns, jobs = pool()
    first = replace(waiting("first", want=whole()), seconds=70)
    found = plan(snapshot(columns, first, replace(HEAD, oldest_ns=1)), jobs)
    assert placed(found) == ["first"]
    assert found.starts[HEAD.key].at_ns == 70 * SECOND


def test_a_head_that_is_larger_than_its_quota_is_promised_nothing_and_holds_nobody_up() -> None:
    columns, jobs = pool(100)
    found = plan(snapshot(columns, HEAD, small("small", None, tenant="audio"), tenants={"nlp": tenant(1000)}), jobs)
    assert placed(found) == ["small"]
    assert found.starts == {}


def test_a_head_whose_start_nobody_can_tell_lets_others_pass_for_a_while_and_then_collects_seats() -> None:
    columns, jobs = pool(None)
    behind = small("small", 10)
    patience = PATIENCE_NS // SECOND
    assert placed(plan(snapshot(columns, HEAD, behind), jobs, now=patience - 1)) == ["small"]
    found = plan(snapshot(columns, HEAD, behind), jobs, now=patience)
    assert placed(found) == []
    assert found.starts == {}
    assert found.rejections[behind.key].sentence == "what is free is kept for a claim of higher rank"


def test_a_gang_whose_start_nobody_can_tell_collects_seats_at_once() -> None:
    columns, jobs = pool(None)
    role = Role("worker", whole(), 2, 2)
    gang = replace(waiting("g.0", "g.1", want=whole()), gang=Gang("g", Group("g", (role,)), ("g.0", "g.1")))
    found = plan(snapshot(columns, gang, small("small", 10)), jobs)
    assert placed(found) == []


def test_a_gang_is_promised_a_start_as_a_claim_is_and_what_ends_in_time_passes_it() -> None:
    columns, jobs = pool(100)
    role = Role("worker", whole(), 2, 2)
    gang = replace(waiting("g.0", "g.1", want=whole()), gang=Gang("g", Group("g", (role,)), ("g.0", "g.1")))
    found = plan(snapshot(columns, gang, small("short", 100), small("long", 101)), jobs)
    assert placed(found) == ["short"]
    assert found.starts[gang.key].at_ns == 100 * SECOND


def test_a_gang_that_may_not_have_the_room_there_is_is_told_for_whom_it_is_kept() -> None:
    columns, _ = pool()
    role = Role("worker", whole(), 2, 2)
    gang = replace(waiting("g.0", "g.1", want=whole()), gang=Gang("g", Group("g", (role,)), ("g.0", "g.1")))
    demo = reserved("demo", 100, 500, want=whole(2), tenant="vision")
    said = plan(snapshot(columns, gang), [], reservations=(demo,)).rejections[gang.key]
    assert said.dominant is Reason.RESERVED
    assert said.sentence == (
        "what is free is kept for a reservation of another tenant from 1970-01-01T00:01:40Z on,"
        " and this claim has no known end"
    )


def test_heads_that_wait_for_different_cards_are_each_promised_a_start() -> None:
    columns = cards("1x1xT4+1x1xL40S", used=used_by("node-1/0") | used_by("node-2/0", model="L40S"))
    jobs = [running("a", columns, "node-1/0", ends=50), running("b", columns, "node-2/0", ends=60)]
    on_t4, on_l40s = waiting("x", want=whole(model="T4")), waiting("y", want=whole(model="L40S"), at=1)
    third = waiting("z", want=whole(), at=2)
    found = plan(snapshot(columns, on_t4, on_l40s, third), jobs)
    assert {key: start.at_ns // SECOND for key, start in found.starts.items()} == {on_t4.key: 50, on_l40s.key: 60}


def test_a_reservation_keeps_its_cards_from_all_but_its_tenants_claims_that_name_it() -> None:
    columns, _ = pool()
    demo = reserved("demo", 0, 500, want=whole(2))
    mine = replace(small("mine", None), reservation="demo")
    others = small("other", None, tenant="vision")
    stranger = replace(small("stranger", None, tenant="vision"), reservation="demo")
    found = plan(snapshot(columns, mine, others, stranger), [], now=10, reservations=(demo,))
    assert placed(found) == ["mine"]
    assert found.rejections[others.key].sentence == "what is free is kept for a reservation of another tenant"
    assert found.rejections[others.key].dominant is Reason.RESERVED


@pytest.mark.parametrize(("seconds", "starts"), [(490, True), (491, False), (None, False)])
def test_a_start_promised_at_the_end_of_a_reservation_is_not_put_off_by_its_own_jobs(
    seconds: int | None, starts: bool
) -> None:
    demo = reserved("demo", 0, 500, want=whole(2))
    older = waiting("older", tenant="vision", want=whole(2), at=0)
    mine = replace(small("mine", seconds), reservation="demo")
    found = plan(snapshot(cards("1x2xT4"), older, mine), [], now=10, reservations=(demo,))
    assert found.starts[older.key].at_ns == 500 * SECOND
    assert placed(found) == (["mine"] if starts else [])
    if not starts:
        assert found.rejections[mine.key].sentence.startswith("what is free is kept for a claim of higher rank from ")


def test_before_a_reservation_starts_others_use_its_cards_if_they_end_in_time() -> None:
    columns, _ = pool()
    demo = reserved("demo", 100, 500, want=whole(2))
    found = plan(
        snapshot(columns, small("short", 100), small("long", 101)),
        [],
        reservations=(demo,),
    )
    assert placed(found) == ["short"]


def test_a_share_goes_beside_the_reserved_part_of_a_card() -> None:
    columns, _ = pool()
    demo = reserved("demo", 100, 500, want=Shape(600, 4 * GIB), replicas=2)
    found = plan(snapshot(columns, small("s", None, want=shape(400)), small("t", None, want=shape(500))), [])
    assert placed(found) == ["s", "t"]
    found = plan(
        snapshot(columns, small("s", None, want=shape(400)), small("t", None, want=shape(500))),
        [],
        reservations=(demo,),
    )
    assert placed(found) == ["s"]


def estimate_of(before: Snapshot, jobs: list[Running], asked: Waiting) -> int | None:
    start = explain(replace(before, running=tuple(jobs)), asked, 0).start
    return None if start is None else start.at_ns // SECOND


def test_behind_the_head_the_estimate_counts_what_starts_before_it() -> None:
    columns, jobs = pool(100, 100)
    head, second, third = (replace(waiting(n, want=whole(2), at=at), seconds=50 + at) for at, n in enumerate("abc"))
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
    board = Board(before)
    first = cycle(before, 0, board=board)
    assert board.free.milli.tolist() == columns.free_milli.tolist()
    assert cycle(before, 0, board=board) == first


def test_a_gang_keeps_the_seats_it_was_promised_where_looking_anew_finds_it_none_as_early() -> None:
    columns = cards("2x2xT4", used=used_by("node-1/0") | {"node-2/1": (600, 2 * GIB)})
    jobs = [
        running("until", columns, "node-1/0", ends=46),
        running("beside", columns, "node-2/1", ends=90, milli=600, size=2 * GIB),
    ]
    pair, card = Role("pair", shape(300, 9 * GIB, 2), 1, 1), Role("card", whole(), 2, 2)
    root, members = Group("g", (pair, card)), ("g.0", "g.1", "g.2")
    gang = replace(waiting(*members, want=pair.shape), gang=Gang("g", root, members), seconds=30)
    before = snapshot(columns, gang)
    assert plan(before, jobs).starts[gang.key].at_ns == 90 * SECOND
    size = MODELS["T4"]
    kept = Start(46 * SECOND, (2, 3, 0, 1), True, (300, 300, 1000, 1000), (9 * GIB, 9 * GIB, size, size))
    again = plan(before, jobs, promised={gang.key: kept}).starts[gang.key]
    assert (again.at_ns, again.rows, again.milli, again.sizes) == (kept.at_ns, kept.rows, kept.milli, kept.sizes)
    later = replace(before, cards=cards("2x2xT4", used={"node-2/1": (600, 2 * GIB)}))
    assert placed(plan(later, jobs[1:], now=46)) == []
    found = plan(later, jobs[1:], now=46, promised={gang.key: kept})
    assert [seat.device for one in found.placements for seat in one.seats] == [
        "node-2/0",
        "node-2/1",
        "node-1/0",
        "node-1/1",
    ]


def test_only_so_many_heads_are_looked_at_however_long_the_queue_is() -> None:
    columns, jobs = pool(None)
    searched = []
    queue = [replace(waiting(f"j{n:03}", want=whole(2), at=0), seconds=n) for n in range(3 * SEARCHES)]
    original = backfill.earliest

    def counted(*arguments, **more):
        searched.append(arguments)
        return original(*arguments, **more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(backfill, "earliest", counted)
        plan(snapshot(columns, *queue), jobs)
    assert len(searched) == SEARCHES


def workers(name: str, count: int, at: int = 0, **how) -> Waiting:
    """A gang of whole cards, before all others in the queue."""
    members = tuple(f"{name}.{n}" for n in range(count))
    role = Role("worker", whole(), count, count)
    first = replace(waiting(*members, want=whole(), at=at, **how), priority=1, preemptible=True)
    return replace(first, gang=Gang(name, Group(name, (role,)), members))


def of_model(gang: Gang | None, model: str) -> Gang:
    assert gang is not None
    (role,) = gang.root.parts
    assert isinstance(role, Role)
    return replace(gang, root=Group(gang.id, (replace(role, shape=whole(model=model)),)))


def lending(name: str, lent: float, nominal: float = 1) -> dict[str, TenantView]:
    """A tenant that holds nothing and lends so many cards of what it is guaranteed."""
    return {name: member(gpu=(nominal, None, lent))}


def held_by(tenant: str, columns: Cards, *ends: int | None, first: int = 0) -> list[Running]:
    """A job on each of these cards."""
    names = columns.uuids[first : first + len(ends)]
    return [
        replace(running(f"{tenant}-{name}", columns, name, ends=end), tenant=tenant)
        for name, end in zip(names, ends, strict=True)
    ]


def full(layout: str, *taken: int) -> Cards:
    columns = cards(layout)
    return cards(layout, used=used_by(*(columns.uuids[row] for row in taken)))


def test_a_gang_that_is_short_of_cards_is_promised_a_start_though_somebody_lends_only_a_part() -> None:
    columns = full("1x5xT4", 0, 1)
    tenants = {"nlp": member(holds=2), "web": member()} | lending("idle", 1, nominal=2)
    queue = workers("big", 4), small("short", 100, tenant="web"), small("long", None, tenant="web")
    queue = tuple(replace(one, preemptible=True) for one in queue)
    found = plan(snapshot(columns, *queue, tenants=tenants), held_by("nlp", columns, 100, 50))
    assert placed(found) == ["short"]
    assert found.starts[queue[0].key].at_ns == 100 * SECOND
    assert found.rejections[queue[0].key].dominant is not Reason.QUOTA
    assert "kept for a claim of higher rank" in found.rejections[queue[2].key].sentence


def test_a_gang_that_could_never_start_beside_what_is_not_lent_is_promised_nothing() -> None:
    columns = full("1x4xT4", 0)
    tenants = {"nlp": member(holds=1), "web": member()} | lending("idle", 0)
    queue = workers("big", 4), small("long", None, tenant="web")
    found = plan(snapshot(columns, *queue, tenants=tenants), held_by("nlp", columns, 100))
    assert (placed(found), found.starts) == (["long"], {})


def test_who_waits_for_its_own_quota_is_promised_when_that_and_the_cards_are_there() -> None:
    columns = full("1x6xT4", 0, 1)
    tenants = {"nlp": member(gpu=(3, 0), holds=2), "web": member()}
    mine = [small(f"mine-{end}", end) for end in (80, 81)]
    queue = workers("big", 2), *mine, small("other", 81, tenant="web"), small("for ever", None, tenant="web")
    found = plan(snapshot(columns, *queue, tenants=tenants), held_by("nlp", columns, 80, 200))
    assert found.starts[queue[0].key].at_ns == 80 * SECOND
    assert placed(found) == ["for ever", "mine-80", "other"]
    assert found.rejections[queue[0].key].dominant is Reason.QUOTA
    said = found.rejections[mine[1].key]
    assert said.dominant is Reason.QUOTA


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
        "what the quota of tenant nlp leaves is kept for a claim of higher rank", Reason.QUOTA
    )


def test_gangs_alike_of_tenants_with_quotas_of_compute_are_seated_once_in_a_plan() -> None:
    columns = full("1x8xT4", 0, 1)
    seated = []
    original = backfill.tried_on

    def counted(*arguments):
        seated.append(arguments)
        return original(*arguments)

    for limits, times in (({}, 1), ({"memory_gib": (100, 0)}, 2)):
        tenants = {name: member(gpu=(3, 0), holds=1, **limits) for name in ("nlp", "web")}
        gangs = [workers(name, 3, tenant=name) for name in tenants]
        alike = [replace(one, gang=replace(one.gang, root=replace(one.gang.root, name="all"))) for one in gangs]
        jobs = [*held_by("nlp", columns, None), *held_by("web", columns, None, first=1)]
        seated.clear()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(backfill, "tried_on", counted)
            plan(snapshot(columns, *alike, tenants=tenants), jobs)
        assert len(seated) == times


def test_who_has_its_quota_and_waits_for_cards_of_unknown_end_keeps_the_quota_meanwhile() -> None:
    """Also what its tenant's own jobs will give back before those cards come: else smaller ones used that first."""
    columns = full("1x2xT4+1x3xT4+1x1xL40S", 0, 1, 2, 3)
    tenants = {"nlp": member(gpu=(5, 0), holds=2), "web": member(holds=2)}
    queue = workers("big", 3), small("mine", None, want=whole(model="L40S"))
    runs = held_by("nlp", columns, None, None) + held_by("web", columns, None, None, first=2)
    head = replace(queue[0], gang=of_model(queue[0].gang, "T4"))
    found = plan(snapshot(columns, head, queue[1], tenants=tenants), runs)
    assert placed(found) == []
    assert found.rejections[head.key].dominant is not Reason.QUOTA
    assert found.rejections[queue[1].key].sentence == (
        "what the quota of tenant nlp leaves is kept for a claim of higher rank"
    )


def test_what_a_cohort_leaves_is_kept_for_who_waits_for_it_whichever_tenant_asks() -> None:
    columns = full("1x6xT4", 0, 1)
    tenants = {"a": member("lab", holds=2), "b": member("lab"), "web": member()}
    queue = workers("big", 3, tenant="b"), small("sibling", 90, tenant="a"), small("other", None, tenant="web")
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


def test_a_gang_inside_its_tenants_guarantee_is_not_passed_by_younger_jobs_that_still_fit_in_it() -> None:
    columns = full("1x6xT4", 0, 1)
    for borrowing in (0, None):
        tenants = {"nlp": member(gpu=(4, borrowing), holds=2), "web": member(gpu=(2, 0))}
        queue = replace(workers("big", 4), priority=0), small("young", 200)
        found = plan(snapshot(columns, *queue, tenants=tenants), held_by("nlp", columns, 100, 150))
        if borrowing is None:
            assert placed(found) == ["big.0", "big.1", "big.2", "big.3"]
        else:
            assert (placed(found), found.starts[queue[0].key].at_ns) == ([], 150 * SECOND)


def test_a_gang_of_a_tenant_without_a_quota_collects_cards_where_no_guarantee_bounds_the_pool() -> None:
    columns = full("1x2xT4", 0)
    tenants = {"nlp": member(holds=1), "idle": member(gpu=(0, 0, 0))}
    queue = replace(workers("big", 2), priority=0, preemptible=False), small("young", None)
    found = plan(snapshot(columns, *queue, tenants=tenants), held_by("nlp", columns, None))
    assert placed(found) == []
