"""A card is drained, switched by its agent, and given back the state it had."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import NotFound, WriteConflict, WrongState
from gpupool.model.device import CardMode
from gpupool.wire.modes import CardWish, ModeReport, ModeWork
from tests.unit.fleet.conftest import ADMIN, AGENT, House, card, node

OFFERS = [
    {
        "mode": "mig",
        "needs": "idle-card",
        "seconds": 5,
        "blocked_by": "",
        "steps": ["turn MIG mode on"],
    },
    {
        "mode": "passthrough",
        "needs": "idle-card",
        "seconds": None,
        "blocked_by": "its IOMMU group has the disk 0000:00:1f.2",
        "steps": ["bind vfio-pci"],
    },
]


def register(house: House, mode: str | None = None, **facts: Any) -> None:
    known = {"modes": OFFERS, **facts} | ({"mode": mode} if mode else {})
    house.fleet.register_node("sim", node(card(0, facts=known), card(1)), AGENT)


def read_ready(house: House, after: int = 0) -> list[ModeWork]:
    with house.store.read() as connection:
        return [work for _, work in house.fleet.modes.read_ready(connection, "sim", after)]


def report(house: House, state: Any, mode: Any = "mig", reason: str = "") -> None:
    made = ModeReport(uuid="GPU-0", mode=mode, state=state, reason=reason)
    house.fleet.modes.apply_reports("sim", [made])


def test_a_dry_run_shows_every_step_and_changes_nothing(house: House) -> None:
    register(house)
    house.sit("GPU-0")
    before = (house.rows(), house.events(), house.generation())
    plan = house.fleet.modes.switch_mode("sim:0", CardMode.MIG, dry_run=True)
    assert plan.steps == [
        "wait for 1 share to end; no new one is placed there",
        "turn MIG mode on",
        "look at the card again",
        "hand it out again",
    ]
    assert (plan.mode, plan.wanted, plan.state, plan.seconds) == ("plain", "mig", "planned", 5)
    assert (house.rows(), house.events(), house.generation()) == before


def test_the_agent_learns_of_a_switch_when_the_last_share_has_gone(house: House) -> None:
    register(house)
    house.sit("GPU-0")
    shown = house.fleet.modes.switch_mode("sim:0", CardMode.MIG)
    assert shown.state == "draining"
    assert house.rows()["GPU-0"].state == "draining"
    assert read_ready(house) == []
    cursor = house.generation()
    house.leave("GPU-0")
    assert read_ready(house, cursor) == [ModeWork(uuid="GPU-0", mode="mig")]
    report(house, "switching", reason="the card is being reset")
    switch = house.fleet.get_device("sim:0", ADMIN).switch
    assert switch is not None
    assert (switch.state, switch.reason) == ("switching", "the card is being reset")


def test_a_switched_card_is_handed_out_again(house: House) -> None:
    register(house)
    house.fleet.modes.switch_mode("sim:0", CardMode.MIG)
    register(house, "mig")
    for _ in range(2):
        report(house, "done")
    shown = house.fleet.get_device("sim:0", ADMIN)
    assert (shown.mode, shown.state, shown.switch) == ("mig", "adopted", None)
    assert [event.subject for event in house.events("device.mode_changed")] == ["sim:0"]


def test_a_report_before_the_registration_does_not_end_the_switch(house: House) -> None:
    register(house)
    house.fleet.modes.switch_mode("sim:0", CardMode.MIG)
    report(house, "done")
    assert house.fleet.get_device("sim:0", ADMIN).switch is not None


def test_a_failed_switch_gives_the_card_back_and_says_why(house: House) -> None:
    register(house)
    house.fleet.modes.switch_mode("sim:0", CardMode.MIG)
    report(house, "failed", reason="process 812 has /dev/nvidia0 open")
    shown = house.fleet.get_device("sim:0", ADMIN)
    assert (shown.state, shown.switch) == ("adopted", None)
    (event,) = house.events("device.mode_failed")
    assert event.data["reason"] == "process 812 has /dev/nvidia0 open"


def test_a_card_that_was_not_adopted_is_not_handed_out_afterwards(house: House) -> None:
    register(house)
    house.fleet.release_devices(["sim:0"], False, ADMIN)
    house.fleet.modes.switch_mode("sim:0", CardMode.MIG)
    register(house, "mig")
    report(house, "done")
    assert house.rows()["GPU-0"].state == "observed"


def test_a_card_that_is_being_switched_is_not_adopted(house: House) -> None:
    register(house)
    house.fleet.modes.switch_mode("sim:0", CardMode.MIG)
    with pytest.raises(WrongState, match="is being switched to mode mig"):
        house.fleet.adopt_devices(["sim:0"], ADMIN)


def test_another_wish_replaces_the_first_and_the_state_before_is_remembered(house: House) -> None:
    register(house)
    house.fleet.modes.switch_mode("sim:0", CardMode.MIG)
    house.fleet.modes.switch_mode("sim:0", CardMode.PLAIN)
    assert read_ready(house) == [ModeWork(uuid="GPU-0", mode="plain")]
    report(house, "done")
    assert house.fleet.get_device("sim:0", ADMIN).switch is not None
    report(house, "done", "plain")
    shown = house.fleet.get_device("sim:0", ADMIN)
    assert (shown.mode, shown.state, shown.switch) == ("plain", "adopted", None)


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("passthrough", "its IOMMU group has the disk 0000:00:1f.2"),
        ("mps", "L40S on this node never has mode mps; it has: mig, passthrough"),
    ],
)
def test_what_blocks_a_switch_is_named_and_nothing_changes(
    house: House, mode: str, reason: str
) -> None:
    register(house)
    before = (house.rows(), house.events(), house.generation())
    plan = house.fleet.modes.switch_mode("sim:0", CardMode(mode), dry_run=True)
    assert plan.blocked_by == [reason]
    with pytest.raises(WrongState, match=f"cannot be switched to mode {mode}: {reason}"):
        house.fleet.modes.switch_mode("sim:0", CardMode(mode))
    assert (house.rows(), house.events(), house.generation()) == before


def test_a_card_in_the_mode_has_nothing_to_do(house: House) -> None:
    register(house, "mig")
    plan = house.fleet.modes.switch_mode("sim:0", CardMode.MIG)
    assert (plan.state, plan.steps) == ("done", [])
    assert house.fleet.get_device("sim:0", ADMIN).switch is None


def test_a_card_without_a_name_here_is_not_found(house: House) -> None:
    register(house)
    with pytest.raises(NotFound):
        house.fleet.modes.switch_mode("sim:7", CardMode.MIG)


def test_reports_of_another_agent_change_nothing(house: House) -> None:
    register(house)
    house.fleet.modes.switch_mode("sim:0", CardMode.MIG)
    made = ModeReport(uuid="GPU-0", mode="mig", state="failed", reason="none of its business")
    house.fleet.modes.apply_reports("other", [made])
    assert house.fleet.get_device("sim:0", ADMIN).switch is not None


def test_offers_that_are_none_are_left_out(house: House) -> None:
    register(house, modes=["mig", {"mode": "mps", "seconds": "soon", "steps": 3}])
    plan = house.fleet.modes.switch_mode("sim:0", CardMode.MPS, dry_run=True)
    assert plan.seconds is None
    assert plan.steps == ["look at the card again", "hand it out again"]


def wish(*names: str, expected: Any = "plain") -> list[CardWish]:
    return [CardWish(device=name, expected=expected) for name in names]


def register_two(house: House, second: str | None = None) -> None:
    facts = {"modes": OFFERS} | ({"mode": second} if second else {})
    cards = [card(0, facts={"modes": OFFERS}), card(1, facts=facts), card(2)]
    house.fleet.register_node("sim", node(*cards), AGENT)


def test_several_cards_are_switched_in_one_request(house: House) -> None:
    register_two(house)
    for _ in range(2):
        shown = house.fleet.modes.switch_modes(wish("sim:0", "GPU-1"), CardMode.MIG)
        assert [(one.device, one.state) for one in shown] == [
            ("sim:0", "switching"),
            ("sim:1", "switching"),
        ]
    assert len(house.events("device.mode_requested")) == 2
    assert [work.uuid for work in read_ready(house)] == ["GPU-0", "GPU-1"]


def test_a_card_in_the_mode_already_is_no_stale_plan(house: House) -> None:
    register_two(house, "mig")
    shown = house.fleet.modes.switch_modes(wish("sim:0", "sim:1"), CardMode.MIG)
    assert [one.state for one in shown] == ["switching", "done"]
    assert [work.uuid for work in read_ready(house)] == ["GPU-0"]


def test_one_card_that_changed_since_the_plan_keeps_all_as_they_are(house: House) -> None:
    register_two(house, "passthrough")
    before = (house.rows(), house.events(), house.generation())
    with pytest.raises(WriteConflict, match="1 of 2 cards changed since the plan") as caught:
        house.fleet.modes.switch_modes(wish("sim:0", "sim:1"), CardMode.MIG)
    assert "sim:1 is in mode passthrough, expected plain" in caught.value.message
    assert (house.rows(), house.events(), house.generation()) == before


def test_a_card_on_its_way_to_another_mode_is_another_admins(house: House) -> None:
    register(house, modes=[OFFERS[0], {**OFFERS[1], "blocked_by": ""}])
    house.fleet.modes.switch_mode("sim:0", CardMode.PASSTHROUGH)
    with pytest.raises(WriteConflict, match="sim:0 is being switched to mode passthrough"):
        house.fleet.modes.switch_modes(wish("sim:0"), CardMode.MIG)
    assert [work.mode for work in read_ready(house)] == ["passthrough"]


def test_one_card_that_cannot_be_switched_keeps_all_as_they_are(house: House) -> None:
    register_two(house)
    before = (house.rows(), house.events(), house.generation())
    with pytest.raises(WrongState, match="1 of 2 cards cannot be switched to mode mig"):
        house.fleet.modes.switch_modes(wish("sim:0", "sim:2"), CardMode.MIG)
    plans = house.fleet.modes.switch_modes(wish("sim:0", "sim:2"), CardMode.MIG, dry_run=True)
    assert [bool(plan.blocked_by) for plan in plans] == [False, True]
    assert (house.rows(), house.events(), house.generation()) == before


def test_a_plan_without_an_expectation_takes_any_mode(house: House) -> None:
    register_two(house, "passthrough")
    shown = house.fleet.modes.switch_modes(wish("sim:1", expected=None), CardMode.MIG)
    assert [one.state for one in shown] == ["switching"]
