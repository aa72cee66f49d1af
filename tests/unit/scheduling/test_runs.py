from dataclasses import replace

from gpupool.scheduling.runs import Register
from tests.support.scheduling_builders import cards
from tests.support.time_builders import running

POOL = cards("1x4xT4")
A, B, C = (running(name, POOL, f"node-1/{row}") for row, name in enumerate("abc"))


def test_a_view_is_a_tuple_of_what_runs_in_the_order_in_which_it_came() -> None:
    register = Register()
    for job in (A, B, C):
        register.put(job)
    register.drop("a")
    assert register.view() == (B, C)


def test_a_view_does_not_change_and_stays_the_same_until_something_does() -> None:
    register = Register()
    register.put(A)
    before = register.view()
    register.put(replace(A))
    register.drop("nobody")
    assert register.view() is before
    register.put(B)
    assert before == (A,)
    assert register.view() is not before


def test_a_view_knows_what_changed_since_an_earlier_one_each_job_once_and_as_it_is_now() -> None:
    register = Register()
    register.put(A)
    register.put(B)
    before, leaving = register.view(), replace(B, leaving_for="x")
    register.put(C)
    register.put(leaving)
    register.drop("c")
    register.drop("a")
    assert register.view().since(before) == {"a": None, "b": leaving, "c": None}
    assert register.view().since(register.view()) == {}


def test_what_changed_since_a_view_of_another_register_or_a_plain_tuple_or_a_later_view_is_not_known() -> None:
    register, other = Register(), Register()
    register.put(A)
    before = register.view()
    register.put(B)
    other.put(A)
    assert register.view().since(other.view()) is None
    assert register.view().since((A,)) is None
    assert before.since(register.view()) is None


def test_the_list_of_changes_stays_short_and_views_from_before_it_was_begun_anew_are_not_known() -> None:
    register = Register()
    register.put(A)
    before = register.view()
    for _ in range(10_000):
        register.put(B)
        register.drop("b")
    assert register.view().since(before) is None
    assert len(register.view()._changes) <= 4096
