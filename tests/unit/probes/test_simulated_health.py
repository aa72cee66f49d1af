"""Simulated cards that fail and heal: by the control file, and in the machine file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.base.errors import BadMachine
from gpupool.model.device import DeviceHealth
from gpupool.model.faults.actions import RecoveryAction
from gpupool.model.faults.catalogue import read_xids
from gpupool.model.faults.diagnosis import judge_xid
from gpupool.probes.contract import HealthEvent
from gpupool.probes.simgpu import SimulatedMachine
from gpupool.probes.simulated import SimulatedProbe
from gpupool.probes.simulated_health import parse_state, report_xid, set_health
from tests.unit.native.simgpu_model import MS, User
from tests.unit.probes.simgpu_machine import FIRST, MACHINE, SECOND


@pytest.fixture
def probe(tmp_path: Path, path: Path) -> Iterator[SimulatedProbe]:
    found = SimulatedProbe(MACHINE, tmp_path, path)
    yield found
    found.close()


def test_health_set_for_the_probe_reaches_the_programs_once(
    probe: SimulatedProbe, machine: SimulatedMachine, tmp_path: Path, user: User
) -> None:
    user.ask("context", 0)
    user.ask("context", 1)
    set_health(tmp_path, FIRST, DeviceHealth.FAILED, "fell off the bus", xid=79)
    set_health(tmp_path, 1, DeviceHealth.FAILED, "memory", xid=48)
    probe.health()
    assert machine.read_condition(FIRST) == (True, False, 79)
    assert machine.read_condition(SECOND) == (False, True, 48)
    assert (user.ask("submit", 0, MS), user.ask("submit", 1, MS)) == (999, 214)
    user.ask("close", 1)
    user.say("context", 1)
    assert user.line().startswith("context 46 "), "a card that needs a reset takes no new work"
    set_health(tmp_path, FIRST, DeviceHealth.OK)
    set_health(tmp_path, SECOND, DeviceHealth.OK)
    probe.health()
    assert machine.read_condition(FIRST)[:2] == machine.read_condition(SECOND)[:2] == (False, False)
    assert user.ask("context", 1) >= 0


def test_a_card_made_to_fail_in_its_file_is_an_event_for_the_probe(
    probe: SimulatedProbe, machine: SimulatedMachine
) -> None:
    assert probe.wait_events(0) == ()
    machine.lose_card(SECOND)
    assert probe.wait_events(0) == (
        HealthEvent(SECOND, DeviceHealth.FAILED, "fell off the bus (XID 79)", 79),
    )
    assert probe.health()[SECOND][0] is DeviceHealth.FAILED
    machine.heal_card(SECOND)
    assert probe.wait_events(0) == (HealthEvent(SECOND, DeviceHealth.OK, ""),)


def test_every_xid_of_the_control_file_is_an_event_with_its_health(tmp_path: Path) -> None:
    probe = SimulatedProbe(MACHINE, tmp_path)
    for xid in read_xids():
        report_xid(tmp_path, FIRST, xid)
        assert probe.wait_events(5) == (HealthEvent(FIRST, *judge_xid(xid), xid),)
    probe.close()


def test_a_recovery_action_of_the_control_file_makes_a_harmless_xid_grave(
    tmp_path: Path,
) -> None:
    probe = SimulatedProbe(MACHINE, tmp_path)
    report_xid(tmp_path, FIRST, 13, RecoveryAction.GPU_RESET)
    (event,) = probe.wait_events(5)
    assert (event.xid, event.recovery) == (13, RecoveryAction.GPU_RESET)
    assert event.health is DeviceHealth.FAILED
    probe.close()


def test_a_recovery_action_that_there_is_none_of_is_refused() -> None:
    with pytest.raises(BadMachine, match="no recovery action"):
        parse_state({"xid": 13, "recovery_action": "kick"})
