"""What an agent that starts finds of a MIG switch whose agent was killed in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpupool.mechanisms.contract import NotYet
from gpupool.mechanisms.mig.driver import MigMode
from gpupool.mechanisms.mig.mode_switch import MigModeSwitch
from gpupool.mechanisms.slow_step import StepResult
from tests.support.mig_cards import CARDS, MigHost

OFF = MigMode(False, False)
ON = MigMode(True, True)
RESET = f"reset-{CARDS[0]}"


class AgentKilled(Exception):
    """The agent was killed in a step, whose process went on."""


@pytest.fixture
def ampere(host: MigHost) -> MigHost:
    """Plain cards that change the mode at a reset."""
    for card in host.state.cards:
        card.current = card.pending = card.resetless = 0
    return host


def make_switch(host: MigHost, *, is_killed: bool = False) -> MigModeSwitch:
    """A switch whose resets end at once, as the files of a step say."""

    def run_reset(folder: Path, name: str, arguments: object, reason: str) -> StepResult | NotYet:
        result = folder / f"step-{name}.result"
        if result.exists():
            return StepResult(**json.loads(result.read_text()))
        host.reset()
        result.write_text(json.dumps({"exit_code": 0, "output": ""}))
        if is_killed:
            raise AgentKilled
        return StepResult(0, "")

    return MigModeSwitch(host.driver, host.files, run_reset)


def kill_in_entry(host: MigHost, state: Path) -> None:
    with pytest.raises(AgentKilled):
        make_switch(host, is_killed=True).enter(host.make_device(), state)


def kill_in_leave(host: MigHost, state: Path) -> None:
    assert make_switch(host).enter(host.make_device(), state) is None
    with pytest.raises(AgentKilled):
        make_switch(host, is_killed=True).leave(host.make_device(), state)


def test_the_result_of_an_entry_is_not_taken_for_that_of_the_leave(
    ampere: MigHost, tmp_path: Path
) -> None:
    kill_in_entry(ampere, tmp_path)
    assert make_switch(ampere).leave(ampere.make_device(), tmp_path) is None
    assert ampere.driver.read_mode(CARDS[0]) == OFF
    assert list((tmp_path / "modes").glob("*.*")) == []


def test_a_card_that_reached_the_mode_is_restored_after_a_boot(
    ampere: MigHost, tmp_path: Path
) -> None:
    kill_in_entry(ampere, tmp_path)
    assert make_switch(ampere).restore([ampere.make_device()], tmp_path) == {}
    for card in ampere.state.cards:
        card.current = card.pending = 0  # as the driver has them after a boot
    assert make_switch(ampere).restore([ampere.make_device()], tmp_path) == {}
    assert ampere.driver.read_mode(CARDS[0]) == ON


def test_a_card_on_the_way_out_is_not_restored(ampere: MigHost, tmp_path: Path) -> None:
    kill_in_leave(ampere, tmp_path)
    switch = make_switch(ampere)
    assert switch.restore([ampere.make_device()], tmp_path) == {}
    assert ampere.driver.read_mode(CARDS[0]) == OFF
    assert switch.is_leaving(CARDS[0], tmp_path)
    assert switch.leave(ampere.make_device(), tmp_path) is None
    assert not switch.is_leaving(CARDS[0], tmp_path)
    assert list((tmp_path / "modes").glob("*.json")) == []


def test_a_leave_that_failed_leaves_a_card_that_is_restored(
    ampere: MigHost, tmp_path: Path
) -> None:
    switch = make_switch(ampere)
    assert switch.enter(ampere.make_device(), tmp_path) is None
    ampere.card.resetless = 1
    ampere.card.deaf = 1
    with pytest.raises(Exception, match="did not change it"):
        switch.leave(ampere.make_device(), tmp_path)
    assert not switch.is_leaving(CARDS[0], tmp_path)


def test_the_record_of_another_switch_is_left_alone(ampere: MigHost, tmp_path: Path) -> None:
    record = tmp_path / "modes" / f"{CARDS[0]}.json"
    record.parent.mkdir()
    record.write_text(json.dumps({"mode": "sriov", "step": "entered"}))
    switch = make_switch(ampere)
    assert switch.restore([ampere.make_device()], tmp_path) == {}
    assert not switch.is_leaving(CARDS[0], tmp_path)
    assert ampere.driver.read_mode(CARDS[0]) == OFF
