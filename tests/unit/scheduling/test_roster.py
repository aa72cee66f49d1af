from dataclasses import replace

from gpupool.scheduling.roster import Roster
from gpupool.scheduling.runs import Register
from gpupool.scheduling.snapshot import Running
from gpupool.scheduling.steps import PLACE
from tests.support.scheduling_builders import cards
from tests.support.time_builders import running

POOL = cards("1x4xT4")
A, B, C = (running(name, POOL, f"node-1/{row}", ends=10 + row) for row, name in enumerate("abc"))


def following(*running: Running) -> Roster:
    roster = Roster()
    roster.begin(POOL)
    roster.follow(running)
    return roster


def test_who_runs_in_a_gang_or_leaves_for_somebody_or_has_a_reservation_is_found_by_its_name() -> None:
    roster = following(replace(B, gang="g"), replace(A, gang="g", started_ns=5), replace(C, leaving_for="x"))
    assert [job.job for job in roster.of_gang("g")] == ["b", "a"]
    assert [job.job for job in roster.leaving_for("x")] == ["c"]
    assert roster.awaits("x")
    assert roster.reserved() == []
    assert following(replace(A, reservation="demo")).reserved()[0].job == "a"
    assert roster.of_gang("other") == roster.leaving_for("other") == []


def test_whether_anyone_leaves_or_could_is_known_without_looking_at_all() -> None:
    roster = following(A, B)
    assert not roster.anyone_leaves
    roster.follow((A, replace(B, preemptible=True)))
    assert roster.anyone_leaves
    roster.follow((A, replace(B, leaving_for="x")))
    assert roster.anyone_leaves
    roster.follow((A, B))
    assert not roster.anyone_leaves
    assert not roster.awaits("x")


def test_a_job_that_went_is_not_given_back_a_second_time() -> None:
    roster = following(A, B)
    assert roster.ends.at(0)[0][PLACE].tolist() == [0, 1]
    roster.follow((C, B))
    assert roster.ends.at(0)[0][PLACE].tolist() == [1, 2]


def test_following_a_register_looks_at_what_changed_and_at_nothing_else() -> None:
    register, roster = Register(), following()
    for number in range(1000):
        register.put(replace(A, job=f"r{number}"))
    roster.follow(register.view())
    before = roster.looked
    register.drop("r5")
    register.put(B)
    roster.follow(register.view())
    roster.follow(register.view())
    assert roster.looked - before == 2


def test_following_jobs_that_nobody_keeps_a_register_of_compares_them_all_and_comes_to_the_same() -> None:
    register = Register()
    for job in (A, B):
        register.put(job)
    plain, told = following(A, B), following()
    told.follow(register.view())
    register.drop("a")
    told.follow(register.view())
    plain.follow((B,))
    assert plain.ends.at(0)[0].tolist() == told.ends.at(0)[0].tolist()


def test_other_cards_are_begun_with_nobody_on_them_and_the_count_of_looks_goes_on() -> None:
    roster = following(replace(A, gang="g"))
    looked = roster.looked
    roster.begin(cards("1x2xT4"))
    assert roster.of_gang("g") == []
    assert roster.looked == looked
