"""A switch leaves one mode, enters the next, waits for slow steps and reports each refusal."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import pytest

from gpupool.agent import card_modes
from gpupool.agent.card_modes import CardModeChanger
from gpupool.base.errors import RequestRejection
from gpupool.mechanisms.contract import NotYet
from gpupool.model.device import CardMode, Device, ModeOffer
from gpupool.probes.nvml.gate import GATE
from gpupool.probes.simulated import parse_sim
from gpupool.wire.modes import ModeReport, ModeWork

CARD = parse_sim("1xL40S")[0].devices[0]


@dataclass
class ScriptedSwitch:
    """Gives its answers one after the other, and writes down what it was asked."""

    mode: CardMode
    calls: list[str] = field(default_factory=list)
    waits: int = 0
    refusal: str = ""

    def describe_offer(self, device: Device) -> ModeOffer | None:
        return ModeOffer(self.mode)

    def list_steps(self, device: Device) -> tuple[str, ...]:
        return ("set it up",)

    def enter(self, device: Device, state_dir: Path) -> NotYet | None:
        return self._answer("enter")

    def leave(self, device: Device, state_dir: Path) -> NotYet | None:
        return self._answer("leave")

    def _answer(self, verb: str) -> NotYet | None:
        self.calls.append(f"{verb} {self.mode}")
        if self.refusal:
            raise RequestRejection(self.refusal)
        if self.waits:
            self.waits -= 1
            return NotYet("the card is being reset", 0.5)
        return None


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    switches = {}
    for mode in (CardMode.MIG, CardMode.PASSTHROUGH):
        switches[mode] = ScriptedSwitch(mode, found)
    monkeypatch.setattr(card_modes, "SWITCHES", MappingProxyType(switches))
    return found


@pytest.fixture
def changer(calls: list[str], tmp_path: Path) -> CardModeChanger:
    return CardModeChanger(tmp_path)


def get_switch(mode: CardMode) -> ScriptedSwitch:
    switch = card_modes.SWITCHES[mode]
    assert isinstance(switch, ScriptedSwitch)
    return switch


def advance(changer: CardModeChanger, device: Device = CARD) -> list[ModeReport]:
    return changer.advance({device.uuid: device})


def test_a_card_goes_from_one_mode_to_another_by_way_of_plain(
    changer: CardModeChanger, calls: list[str]
) -> None:
    changer.add([ModeWork(uuid=CARD.uuid, mode="passthrough")])
    (report,) = advance(changer, replace(CARD, mode=CardMode.MIG))
    assert report.state == "done"
    assert calls == ["leave mig", "enter passthrough"]
    assert advance(changer) == []


def test_a_slow_step_is_reported_and_looked_at_again_soon(
    changer: CardModeChanger, calls: list[str]
) -> None:
    get_switch(CardMode.MIG).waits = 2
    changer.add([ModeWork(uuid=CARD.uuid, mode="mig")])
    assert changer.limit_wait(25) == 25
    (report,) = advance(changer)
    assert (report.state, report.reason) == ("switching", "the card is being reset")
    assert changer.limit_wait(25) == 0.5
    advance(changer)
    (report,) = advance(changer)
    assert report.state == "done"
    assert changer.limit_wait(25) == 25


def test_a_refusal_ends_the_switch_with_its_reason(
    changer: CardModeChanger, calls: list[str]
) -> None:
    get_switch(CardMode.MIG).refusal = "process 812 has /dev/nvidia0 open"
    changer.add([ModeWork(uuid=CARD.uuid, mode="mig")])
    (report,) = advance(changer)
    assert (report.state, report.reason) == ("failed", "process 812 has /dev/nvidia0 open")
    assert advance(changer) == []


def test_a_card_that_is_in_the_mode_is_done_without_a_call(
    changer: CardModeChanger, calls: list[str]
) -> None:
    changer.add([ModeWork(uuid=CARD.uuid, mode="mig")])
    (report,) = advance(changer, replace(CARD, mode=CardMode.MIG))
    assert report.state == "done"
    assert calls == []


def test_a_card_that_is_gone_waits_until_the_server_names_it_again(
    changer: CardModeChanger, calls: list[str]
) -> None:
    changer.add([ModeWork(uuid=CARD.uuid, mode="mig")])
    assert changer.advance({}) == []
    assert advance(changer) == []
    assert calls == []


def test_a_mode_that_this_agent_does_not_know_is_a_refusal(
    changer: CardModeChanger, calls: list[str]
) -> None:
    changer.add([ModeWork(uuid=CARD.uuid, mode="mps")])
    (report,) = advance(changer)
    assert report.state == "failed"
    assert report.reason == "this agent cannot switch cards to or from mode mps"


def test_an_end_is_reported_when_the_cards_can_be_read_again(
    changer: CardModeChanger, calls: list[str]
) -> None:
    over = threading.Event()
    changer.add([ModeWork(uuid=CARD.uuid, mode="mig")])
    with GATE.suspend("another", "card 1 is reset", over.is_set):
        pass
    assert advance(changer) == []
    assert changer.limit_wait(25) == 0.5
    over.set()
    (report,) = advance(changer)
    assert report.state == "done"
    assert calls == ["enter mig"], "the switch is not done twice"
    assert advance(changer) == []
