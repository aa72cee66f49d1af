"""Cards that a pod was told to leave are for whom it leaves, until that one has cards."""

from __future__ import annotations

from dataclasses import replace

from gpupool.kubernetes.leaving import Leaving
from gpupool.kubernetes.objects import Entry, Order
from gpupool.model.allocation import Seat
from gpupool.scheduling.owed import KEPT_NS
from tests.support.hand_clock import Clock

KEPT_SECONDS = KEPT_NS / 10**9
HELD = Entry("old", "default", "old", "main", (Seat("GPU-0", 500, 1),), "default")
LEAVES = replace(HELD, leaving_for="new/main")


def test_whom_others_were_told_to_leave_for_is_owed_until_it_stands_in_a_ledger() -> None:
    leaving = Leaving(Clock())
    leaving.note([HELD], [LEAVES])
    assert (leaving.whom, leaving.owed()) == ({"old/main": "new/main"}, ("new/main",))
    leaving.note([LEAVES], [])
    assert (leaving.whom, leaving.owed()) == ({}, ("new/main",))
    leaving.note([], [replace(HELD, uid="new")])
    assert leaving.owed() == ()


def test_a_gang_is_settled_by_its_members_and_a_pod_of_several_containers_by_any() -> None:
    for claim, sits in (("team", replace(HELD, uid="a", gang="team")), ("pod", replace(HELD, uid="pod"))):
        leaving = Leaving(Clock())
        leaving.note([HELD], [replace(HELD, leaving_for=claim)])
        assert leaving.owed() == (claim,)
        leaving.note([], [sits])
        assert leaving.owed() == ()


def test_a_minute_after_the_last_one_left_it_waits_its_turn_as_others_do() -> None:
    clock = Clock()
    leaving, second = Leaving(clock), replace(LEAVES, uid="older")
    leaving.note([], [LEAVES, second])
    leaving.note([LEAVES, second], [second])
    clock.now = KEPT_SECONDS
    assert leaving.owed() == ("new/main",), "one of them is still there"
    leaving.note([second], [])
    clock.now += KEPT_SECONDS - 1
    assert leaving.owed() == ("new/main",)
    clock.now += 1
    assert leaving.owed() == ()


def test_an_order_without_anybody_it_is_for_is_known_and_owed_to_nobody() -> None:
    leaving, ill = Leaving(Clock()), replace(HELD, leaving_at="7")
    leaving.note([HELD], [ill])
    assert (leaving.orders, leaving.whom, leaving.owed()) == ({"old/main": Order("", "7")}, {}, ())
    leaving.note([ill], [HELD])
    assert leaving.orders == {}


def test_the_same_ledger_again_changes_nothing() -> None:
    leaving = Leaving(Clock())
    leaving.note([], [LEAVES])
    leaving.note([LEAVES], [LEAVES])
    assert (leaving.whom, leaving.owed()) == ({"old/main": "new/main"}, ("new/main",))


def test_who_need_not_leave_any_more_gives_nobody_a_turn_for_ever() -> None:
    clock = Clock()
    leaving = Leaving(clock)
    leaving.note([], [LEAVES])
    leaving.note([LEAVES], [HELD])
    assert leaving.whom == {}
    clock.now = KEPT_SECONDS
    assert leaving.owed() == ()
