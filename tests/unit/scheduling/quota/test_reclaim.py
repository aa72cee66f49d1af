from dataclasses import replace

from gpupool.scheduling.quota.reclaim import list_reclaimable_lots
from tests.support.quota_builders import cohort, gpus, member, runs, tree
from tests.support.scheduling_builders import cards


def taken(found, tenant: str, count: float, running, pool: str = "1x8xH200") -> list[list[str]]:
    lots = list_reclaimable_lots(found, tenant, gpus(count), running, cards(pool))
    return [[job.job for job in lot.jobs] for lot in lots]


def test_a_claim_that_borrows_itself_takes_nothing_back() -> None:
    found = tree("1x8xH200", nlp=member(gpu=2, holds=2), guest=member(gpu=2, holds=6))
    assert taken(found, "nlp", 1, [runs("g", "guest", 0, 1, 2, 3)]) == []


def test_what_a_borrower_started_last_is_taken_first_and_never_what_is_inside_its_nominal_part() -> (
    None
):
    found = tree("1x8xH200", nlp=member(gpu=4), guest=member(gpu=4, holds=8))
    running = [runs(f"g{n}", "guest", n, started=n) for n in range(8)]
    assert taken(found, "nlp", 4, running) == [["g7"], ["g6"], ["g5"], ["g4"]]


def test_a_job_that_straddles_the_nominal_part_runs_on_borrowed_quota() -> None:
    found = tree("1x8xH200", nlp=member(gpu=4), guest=member(gpu=4, holds=6))
    running = [runs("old", "guest", 0, 1, 2), runs("new", "guest", 3, 4, 5, started=1)]
    assert taken(found, "nlp", 4, running) == [["new"]]


def test_younger_jobs_give_back_before_one_that_straddles_the_nominal_part() -> None:
    found = tree("1x8xH200", nlp=member(gpu=4), guest=member(gpu=4, holds=7))
    running = [runs("old", "guest", 0, 1, 2, 3, 4)] + [
        runs(f"new{n}", "guest", 5 + n, started=1 + n) for n in range(2)
    ]
    assert taken(found, "nlp", 4, running) == [["new1"], ["new0"], ["old"]]


def test_the_tenant_most_over_its_fair_share_gives_back_first() -> None:
    found = tree(
        "1x8xH200",
        nlp=member(gpu=6),
        a=member(gpu=(1, None), holds=3),
        b=member(gpu=(1, None), holds=5),
    )
    running = [runs(f"a{n}", "a", n, started=n) for n in range(3)]
    running += [runs(f"b{n}", "b", 3 + n, started=n) for n in range(5)]
    assert taken(found, "nlp", 6, running) == [["b4"], ["b3"], ["b2"], ["a2"], ["b1"], ["a1"]]


def test_of_one_tenant_the_lowest_priority_goes_first() -> None:
    found = tree("1x8xH200", nlp=member(gpu=4), guest=member(gpu=(0, None), holds=2))
    running = [
        runs("low", "guest", 0, started=0, priority=-100),
        runs("late", "guest", 1, started=9),
    ]
    assert taken(found, "nlp", 4, running) == [["low"], ["late"]]


def test_a_gang_is_taken_whole() -> None:
    found = tree("1x8xH200", nlp=member(gpu=4), guest=member(gpu=(0, None), holds=3))
    running = [
        runs("m0", "guest", 0, gang="g"),
        runs("solo", "guest", 1, started=5),
        runs("m1", "guest", 2, gang="g"),
    ]
    assert taken(found, "nlp", 4, running) == [["solo"], ["m0", "m1"]]


def test_who_uses_what_its_siblings_leave_in_their_own_cohort_gives_nothing_to_another_cohort() -> (
    None
):
    cohorts = {"lab": cohort(4), "shop": cohort(4)}
    views = {"a": member("lab", 2, holds=4), "b": member("lab", 2), "web": member("shop", 4)}
    found = tree("1x8xH200", cohorts, **views)
    running = [runs(f"a{n}", "a", n, started=n) for n in range(4)]
    assert taken(found, "web", 4, running) == []
    assert taken(found, "b", 2, running) == [["a3"], ["a2"]]


def test_those_without_limits_give_back_what_is_beyond_the_rest_of_the_pool() -> None:
    found = tree("1x8xH200", nlp=member(gpu=6), guest=member(holds=8))
    running = [runs(f"g{n}", "guest", n, started=n) for n in range(8)]
    assert taken(found, "nlp", 6, running) == [[f"g{n}"] for n in (7, 6, 5, 4, 3, 2)]


def test_the_tree_is_afterwards_as_it_was() -> None:
    found = tree("1x8xH200", nlp=member(gpu=(4, 0)), guest=member(gpu=(4, 4), holds=8))
    running = [runs(f"g{n}", "guest", n, started=n) for n in range(8)]
    assert taken(found, "nlp", 4, running) == taken(found, "nlp", 4, running)
    assert not found.has_room("guest", gpus(1))


def test_what_may_not_be_preempted_is_inside_first_and_is_never_taken() -> None:
    found = tree("1x8xH200", nlp=member(gpu=4), guest=member(gpu=4, holds=8))
    fixed = [runs(f"f{n}", "guest", n, started=n, preemptible=False) for n in (4, 5, 6, 7)]
    running = [*(runs(f"g{n}", "guest", n, started=n) for n in range(4)), *fixed]
    assert taken(found, "nlp", 4, running) == [["g3"], ["g2"], ["g1"], ["g0"]]
    assert (
        taken(found, "nlp", 4, [runs(f"f{n}", "guest", n, preemptible=False) for n in range(8)])
        == []
    )


def test_a_gang_keeps_what_it_needs_before_what_it_goes_on_without_whatever_their_names() -> None:
    found = tree("1x8xH200", nlp=member(gpu=4), guest=member(gpu=2, holds=3))
    members = [runs(name, "guest", row, gang="g") for row, name in enumerate("bca")]
    running = [replace(job, role="worker", role_minimum=2) for job in members]
    assert taken(found, "nlp", 4, running) == [["a"]]
