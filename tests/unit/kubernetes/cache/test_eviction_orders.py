"""Cards that a pod was told to leave are for whom it leaves, until that one has cards."""

from __future__ import annotations

from dataclasses import replace

from gpupool.kubernetes.cache.eviction_orders import EvictionOrders
from gpupool.kubernetes.resources.gpu_node import Entry, EvictionOrder
from gpupool.model.allocation import Seat
from gpupool.scheduling.preemption.beneficiaries import TURN_KEPT_NS
from tests.support.hand_clock import Clock

KEPT_SECONDS = TURN_KEPT_NS / 10**9
HELD = Entry("old", "default", "old", "main", (Seat("GPU-0", 500, 1),), "default")
LEAVES = replace(HELD, leaving_for="new/main")


def test_whom_others_were_told_to_leave_for_is_owed_until_it_stands_in_a_ledger() -> None:
    leaving = EvictionOrders(Clock())
    leaving.note_entries([HELD], [LEAVES])
    assert (leaving.beneficiary_of, leaving.list_beneficiaries()) == (
        {"old/main": "new/main"},
        ("new/main",),
    )
    leaving.note_entries([LEAVES], [])
    assert (leaving.beneficiary_of, leaving.list_beneficiaries()) == ({}, ("new/main",))
    leaving.note_entries([], [replace(HELD, uid="new")])
    assert leaving.list_beneficiaries() == ()


def test_a_gang_is_settled_by_its_members_and_a_pod_of_several_containers_by_any() -> None:
    for claim, sits in (
        ("team", replace(HELD, uid="a", gang="team")),
        ("pod", replace(HELD, uid="pod")),
    ):
        leaving = EvictionOrders(Clock())
        leaving.note_entries([HELD], [replace(HELD, leaving_for=claim)])
        assert leaving.list_beneficiaries() == (claim,)
        leaving.note_entries([], [sits])
        assert leaving.list_beneficiaries() == ()


def test_a_minute_after_the_last_one_left_it_waits_its_turn_as_others_do() -> None:
    clock = Clock()
    leaving, second = EvictionOrders(clock), replace(LEAVES, uid="older")
    leaving.note_entries([], [LEAVES, second])
    leaving.note_entries([LEAVES, second], [second])
    clock.now = KEPT_SECONDS
    assert leaving.list_beneficiaries() == ("new/main",), "one of them is still there"
    leaving.note_entries([second], [])
    clock.now += KEPT_SECONDS - 1
    assert leaving.list_beneficiaries() == ("new/main",)
    clock.now += 1
    assert leaving.list_beneficiaries() == ()


def test_an_order_without_anybody_it_is_for_is_known_and_owed_to_nobody() -> None:
    leaving, ill = EvictionOrders(Clock()), replace(HELD, leaving_at="7")
    leaving.note_entries([HELD], [ill])
    assert (leaving.orders, leaving.beneficiary_of, leaving.list_beneficiaries()) == (
        {"old/main": EvictionOrder("", "7")},
        {},
        (),
    )
    leaving.note_entries([ill], [HELD])
    assert leaving.orders == {}


def test_the_same_ledger_again_changes_nothing() -> None:
    leaving = EvictionOrders(Clock())
    leaving.note_entries([], [LEAVES])
    leaving.note_entries([LEAVES], [LEAVES])
    assert (leaving.beneficiary_of, leaving.list_beneficiaries()) == (
        {"old/main": "new/main"},
        ("new/main",),
    )


def test_who_need_not_leave_any_more_gives_nobody_a_turn_for_ever() -> None:
    clock = Clock()
    leaving = EvictionOrders(clock)
    leaving.note_entries([], [LEAVES])
    leaving.note_entries([LEAVES], [HELD])
    assert leaving.beneficiary_of == {}
    clock.now = KEPT_SECONDS
    assert leaving.list_beneficiaries() == ()
