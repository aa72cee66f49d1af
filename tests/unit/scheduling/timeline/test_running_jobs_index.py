from dataclasses import replace

from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.running_jobs_log import RunningJobsRegister
from gpupool.scheduling.timeline.running_jobs_index import RunningJobsIndex
from gpupool.scheduling.timeline.step_function import PLACE
from tests.support.scheduling_builders import cards
from tests.support.time_builders import running

POOL = cards("1x4xT4")
A, B, C = (running(name, POOL, f"node-1/{row}", ends=10 + row) for row, name in enumerate("abc"))


def following(*running: RunningJob) -> RunningJobsIndex:
    roster = RunningJobsIndex()
    roster.begin(POOL)
    roster.follow(running)
    return roster


def test_who_runs_in_a_gang_or_leaves_for_somebody_or_has_a_reservation_is_found_by_its_name() -> (
    None
):
    roster = following(
        replace(B, gang="g"), replace(A, gang="g", started_ns=5), replace(C, beneficiary="x")
    )
    assert [job.job for job in roster.list_gang_members("g")] == ["b", "a"]
    assert [job.job for job in roster.list_leaving_for("x")] == ["c"]
    assert roster.is_awaited_by("x")
    assert roster.list_reserved() == []
    assert following(replace(A, reservation="demo")).list_reserved()[0].job == "a"
    assert roster.list_gang_members("other") == roster.list_leaving_for("other") == []


def test_whether_anyone_leaves_or_could_is_known_without_looking_at_all() -> None:
    roster = following(A, B)
    assert not roster.has_evictable_jobs
    roster.follow((A, replace(B, preemptible=True)))
    assert roster.has_evictable_jobs
    roster.follow((A, replace(B, beneficiary="x")))
    assert roster.has_evictable_jobs
    roster.follow((A, B))
    assert not roster.has_evictable_jobs
    assert not roster.is_awaited_by("x")


def test_a_job_that_went_is_not_given_back_a_second_time() -> None:
    roster = following(A, B)
    assert roster.ends.list_steps(0)[0][PLACE].tolist() == [0, 1]
    roster.follow((C, B))
    assert roster.ends.list_steps(0)[0][PLACE].tolist() == [1, 2]


def test_following_a_register_looks_at_what_changed_and_at_nothing_else() -> None:
    register, roster = RunningJobsRegister(), following()
    for number in range(1000):
        register.put_job(replace(A, job=f"r{number}"))
    roster.follow(register.get_view())
    before = roster.looked
    register.remove_job("r5")
    register.put_job(B)
    roster.follow(register.get_view())
    roster.follow(register.get_view())
    assert roster.looked - before == 2


def test_following_jobs_that_nobody_keeps_a_register_of_compares_them_all_and_comes_to_the_same() -> (
    None
):
    register = RunningJobsRegister()
    for job in (A, B):
        register.put_job(job)
    plain, told = following(A, B), following()
    told.follow(register.get_view())
    register.remove_job("a")
    told.follow(register.get_view())
    plain.follow((B,))
    assert plain.ends.list_steps(0)[0].tolist() == told.ends.list_steps(0)[0].tolist()


def test_other_cards_are_begun_with_nobody_on_them_and_the_count_of_looks_goes_on() -> None:
    roster = following(replace(A, gang="g"))
    looked = roster.looked
    roster.begin(cards("1x2xT4"))
    assert roster.list_gang_members("g") == []
    assert roster.looked == looked
