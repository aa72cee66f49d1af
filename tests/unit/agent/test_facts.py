"""What a registration says of a card beyond its size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpupool.agent.facts import list_device_facts
from gpupool.model.device import Device
from gpupool.model.partition import write_profiles
from gpupool.probes.mig_tables import list_mig_profiles
from gpupool.probes.simulated import parse_sim


def simulate_card(spec: str) -> Device:
    (machine,) = parse_sim(spec)
    return machine.devices[0]


def find_mig_offer(device: Device) -> dict[str, Any]:
    (offer,) = [one for one in list_device_facts(device)["modes"] if one["mode"] == "mig"]
    return dict(offer)


def test_a_card_out_of_mig_mode_publishes_profiles_that_its_board_is_not_known_for() -> None:
    card = simulate_card("1xH200")
    assert "profiles" not in find_mig_offer(card), "the board's are not repeated for each card"
    own = list_mig_profiles("A30")
    assert find_mig_offer(replace(card, profiles=own))["profiles"] == write_profiles(own)


def test_a_card_in_mig_mode_publishes_its_profiles_as_its_own() -> None:
    card = simulate_card("1xH200:mig")
    assert list_device_facts(card)["profiles"] == write_profiles(card.profiles)
    other = replace(card, profiles=list_mig_profiles("A30"))
    assert "profiles" not in find_mig_offer(other), "they stand in the card's facts"


def test_a_board_without_mig_offers_no_such_mode() -> None:
    assert "modes" not in list_device_facts(simulate_card("1xL40S"))
