"""Switches simulated cards by the rules of real ones."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpupool.mechanisms.contract import NotYet
from gpupool.mechanisms.mig.mode_switch import MigModeSwitch
from gpupool.mechanisms.mig.simulated_switch import MigSwitch, locate_modes
from gpupool.model.device import CardMode, Device, ModeNeed
from gpupool.probes.simulated import parse_sim
from tests.support.mig_cards import MigHost

SWITCH = MigSwitch()


def simulate_card(model: str) -> Device:
    (machine,) = parse_sim(f"1x{model}")
    return machine.devices[0]


def scan(card: Device, state_dir: Path) -> Device:
    return locate_modes(state_dir).mark_modes([card])[0]


def enter(card: Device, state_dir: Path) -> None:
    deadline = time.monotonic() + 60
    while (answer := SWITCH.enter(scan(card, state_dir), state_dir)) is not None:
        assert time.monotonic() < deadline, answer.reason
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("model", "need"), [("H200", ModeNeed.IDLE_CARD), ("A100-80G", ModeNeed.RESET)]
)
def test_a_card_goes_to_mig_and_back(model: str, need: ModeNeed, tmp_path: Path) -> None:
    card = simulate_card(model)
    offer = SWITCH.describe_offer(card)
    assert offer is not None
    assert (offer.needs, offer.blocked_by) == (need, "")
    assert all("simulated" in step for step in SWITCH.list_steps(card)[:-1])
    enter(card, tmp_path)
    assert scan(card, tmp_path).mode is CardMode.MIG
    assert SWITCH.enter(scan(card, tmp_path), tmp_path) is None, "entering twice is entering once"
    while SWITCH.leave(scan(card, tmp_path), tmp_path) is not None:
        time.sleep(0.02)
    assert scan(card, tmp_path).mode is CardMode.PLAIN
    assert not (tmp_path / "modes" / f"{card.uuid}.json").exists()


def test_a_reset_that_runs_is_found_again_by_the_next_agent(tmp_path: Path) -> None:
    card = simulate_card("A100-80G")
    answer = SWITCH.enter(card, tmp_path)
    assert isinstance(answer, NotYet)
    assert "is reset to change its MIG mode" in answer.reason
    assert (tmp_path / "modes" / f"{card.uuid}.json").exists()
    enter(card, tmp_path)  # as a new agent does: only the state directory is known
    assert scan(card, tmp_path).mode is CardMode.MIG


def test_a_board_without_mig_has_no_offer() -> None:
    card = simulate_card("L40S")
    assert SWITCH.describe_offer(card) is None
    assert SWITCH.list_steps(card) == ()


def test_a_real_card_goes_to_the_real_driver(host: MigHost, tmp_path: Path) -> None:
    switch = MigSwitch(MigModeSwitch(host.driver, host.files))
    card = Device("GPU-none", 0, "nvidia", "NVIDIA H200", "H200", 1 << 37, partitioned=False)
    offer = switch.describe_offer(card)
    assert offer is not None
    assert "the driver cannot be asked" in offer.blocked_by
    assert not locate_modes(tmp_path).folder.exists()
