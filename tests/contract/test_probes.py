"""What every probe must keep: the simulated one on every shipped machine, and NVML on a stand-in
driver.

A dynamic library is chosen when a process starts, so each rule meets the NVML probe in a process of
its own.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest

from gpupool.model.device import DeviceHealth, DeviceUsage
from gpupool.model.topology import LinkKind
from gpupool.probes.contract import EndedTimeProbe, Probe
from gpupool.probes.preset_files import list_presets
from gpupool.probes.simulated import SimulatedProbe, parse_sim

SOURCE = Path(__file__).parents[1] / "unit/probes/fake_nvml.c"


def it_says_that_it_can_work(probe: Probe) -> None:
    assert probe.name
    assert probe.available().ok


def its_cards_have_different_uuids_and_counted_indices(probe: Probe) -> None:
    devices = probe.scan().devices
    assert devices
    assert len({d.uuid for d in devices}) == len(devices)
    assert [d.index for d in devices] == list(range(len(devices)))


def its_cards_have_a_model_and_memory(probe: Probe) -> None:
    for device in probe.scan().devices:
        assert device.model
        assert device.vendor
        assert device.memory_bytes > 1 << 30


def it_marks_all_cards_as_simulated_or_none(probe: Probe) -> None:
    machine = probe.scan()
    assert {d.simulated for d in machine.devices} == {machine.simulated}


def its_topology_is_about_its_own_cards(probe: Probe) -> None:
    machine = probe.scan()
    uuids = tuple(d.uuid for d in machine.devices)
    assert machine.topology.devices == uuids
    for kind in LinkKind:
        assert sorted(
            u for island in machine.topology.list_domains(kind) for u in island
        ) == sorted(uuids)
    for a, b in combinations(uuids, 2):
        assert machine.topology.find_distance(a, b) == machine.topology.find_distance(b, a) > 0


def its_places_lie_within_the_card(probe: Probe) -> None:
    for device in probe.scan().devices:
        for profile in device.profiles:
            assert profile.starts
            assert 0 < profile.gpu_milli <= 1000
            assert 0 < profile.memory_bytes <= device.memory_bytes


def scanning_twice_gives_the_same(probe: Probe) -> None:
    assert probe.scan() == probe.scan()


def it_observes_what_is_asked_and_nothing_else(probe: Probe) -> None:
    uuids = [d.uuid for d in probe.scan().devices]
    seen = probe.observe([uuids[0], "GPU-of-another-host"])
    assert list(seen) == [uuids[0]]
    assert isinstance(seen[uuids[0]], DeviceUsage)
    assert probe.observe([]) == {}


def it_tells_of_ended_processes_that_were_asked_for_or_why_not(probe: Probe) -> None:
    assert isinstance(probe, EndedTimeProbe)
    uuid = probe.scan().devices[0].uuid
    asked = (4001, os.getpid())
    told = probe.ended_times([uuid, "GPU-of-another-host"], asked)
    assert list(told) in ([uuid], [uuid, "GPU-of-another-host"])
    for times in told.values():
        assert bool(times.processes) <= (not times.reason)
        assert all(one.pid in asked and one.gpu_ns >= 0 for one in times.processes)
        assert all(
            one.start_ns < time.clock_gettime_ns(time.CLOCK_BOOTTIME) for one in times.processes
        )


def its_health_agrees_with_its_scan(probe: Probe) -> None:
    told = probe.health()
    assert {d.uuid: (d.health, d.health_reason) for d in probe.scan().devices} == told
    assert all(
        reason
        for health, reason in told.values()
        if health in (DeviceHealth.FAILED, DeviceHealth.WARNING)
    )


FOR_EVER = 120
"""Seconds after which what should have ended is said to hang."""


def waiting_ends_when_its_time_is_up(probe: Probe) -> None:
    def wait() -> None:
        for _ in range(4):
            probe.wait_events(0.01)

    # In a thread, so that one that never ends fails here; how long the machine takes over it does
    # not matter.
    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    waiting.join(FOR_EVER)
    assert not waiting.is_alive()


def closing_twice_is_closing_once(probe: Probe) -> None:
    probe.wait_events(0)
    probe.close()
    probe.close()


RULES: tuple[Callable[[Probe], None], ...] = (
    it_says_that_it_can_work,
    its_cards_have_different_uuids_and_counted_indices,
    its_cards_have_a_model_and_memory,
    it_marks_all_cards_as_simulated_or_none,
    its_topology_is_about_its_own_cards,
    its_places_lie_within_the_card,
    scanning_twice_gives_the_same,
    it_observes_what_is_asked_and_nothing_else,
    it_tells_of_ended_processes_that_were_asked_for_or_why_not,
    its_health_agrees_with_its_scan,
    waiting_ends_when_its_time_is_up,
    closing_twice_is_closing_once,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("spec", [*list_presets(), "4xL40S+2xT4", "MI300X"])
def test_a_simulated_machine_keeps_the_rules(
    spec: str, rule: Callable[[Probe], None], tmp_path: Path
) -> None:
    for machine in parse_sim(spec):
        probe = SimulatedProbe(machine, tmp_path)
        rule(probe)
        probe.close()


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", folder / "libnvidia-ml.so.1", SOURCE], check=True)
    return folder


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("scene", ["pair", "switch", "ill"])
def test_the_nvml_probe_keeps_the_rules(
    driver: Path, scene: str, rule: Callable[[Probe], None]
) -> None:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(driver), "FAKE_NVML_SCENE": scene}
    command = [sys.executable, __file__, rule.__name__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    from gpupool.probes.nvml import NvmlProbe

    {rule.__name__: rule for rule in RULES}[sys.argv[1]](NvmlProbe())
