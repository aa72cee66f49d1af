"""Simulated cards that fail and heal: by the control file, and in the machine file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.model.device import DeviceHealth
from gpupool.probes.contract import HealthEvent
from gpupool.probes.simgpu import SimulatedMachine
from gpupool.probes.simulated import SimulatedProbe
from gpupool.probes.simulated_health import set_health
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
