from dataclasses import replace

from gpupool.scheduling.snapshot.running_jobs_log import RunningJobsRegister
from tests.support.scheduling_builders import cards
from tests.support.time_builders import running

POOL = cards("1x4xT4")
A, B, C = (running(name, POOL, f"node-1/{row}") for row, name in enumerate("abc"))


def test_a_view_is_a_tuple_of_what_runs_in_the_order_in_which_it_came() -> None:
    register = RunningJobsRegister()
    for job in (A, B, C):
        register.put_job(job)
    register.remove_job("a")
    assert register.get_view() == (B, C)


def test_a_view_does_not_change_and_stays_the_same_until_something_does() -> None:
    register = RunningJobsRegister()
    register.put_job(A)
    before = register.get_view()
    register.put_job(replace(A))
    register.remove_job("nobody")
    assert register.get_view() is before
    register.put_job(B)
    assert before == (A,)
    assert register.get_view() is not before


def test_a_view_knows_what_changed_since_an_earlier_one_each_job_once_and_as_it_is_now() -> None:
    register = RunningJobsRegister()
    register.put_job(A)
    register.put_job(B)
    before, leaving = register.get_view(), replace(B, beneficiary="x")
    register.put_job(C)
    register.put_job(leaving)
    register.remove_job("c")
    register.remove_job("a")
    assert register.get_view().find_changes(before) == {"a": None, "b": leaving, "c": None}
    assert register.get_view().find_changes(register.get_view()) == {}


def test_what_changed_since_a_view_of_another_register_or_a_plain_tuple_or_a_later_view_is_not_known() -> (
    None
):
    register, other = RunningJobsRegister(), RunningJobsRegister()
    register.put_job(A)
    before = register.get_view()
    register.put_job(B)
    other.put_job(A)
    assert register.get_view().find_changes(other.get_view()) is None
    assert register.get_view().find_changes((A,)) is None
    assert before.find_changes(register.get_view()) is None


def test_the_list_of_changes_stays_short_and_views_from_before_it_was_begun_anew_are_not_known() -> (
    None
):
    register = RunningJobsRegister()
    register.put_job(A)
    before = register.get_view()
    for _ in range(10_000):
        register.put_job(B)
        register.remove_job("b")
    assert register.get_view().find_changes(before) is None
    assert len(register.get_view()._changes) <= 4096
