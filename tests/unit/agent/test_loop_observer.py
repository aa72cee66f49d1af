"""What an agent sees of cards: whose processes are on them, and how they are."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.agent.config import AgentConfig
from gpupool.agent.loop import Agent
from gpupool.agent.monitoring.observer import UsageObserver
from gpupool.base.errors import ProbeSuspended
from gpupool.model.device import DeviceHealth, DeviceProcess, DeviceUsage
from gpupool.model.faults.actions import RecoveryAction
from gpupool.probes.contract import HealthEvent, Machine
from gpupool.probes.simulated import SimulatedProbe, parse_sim
from gpupool.probes.simulated_health import report_xid, set_health
from gpupool.wire.faults.incidents import CardFaultIn
from gpupool.wire.samples import DeviceSample, JobSample
from tests.support.supervised import until
from tests.unit.agent.pool import POOL_ID, PoolServer

GIB = 1 << 30


class RecordedCards(SimulatedProbe):
    """Cards that say they are real, with the processes a test puts on them: there is no GPU to ask
    here."""

    def __init__(self, machine: Machine, processes: Sequence[DeviceProcess]) -> None:
        super().__init__(machine)
        self._real = replace(
            machine,
            simulated=False,
            devices=tuple(replace(d, simulated=False) for d in machine.devices),
        )
        self._processes = tuple(processes)

    def scan(self) -> Machine:
        return self._real

    def observe(self, uuids: Collection[str]) -> Mapping[str, DeviceUsage]:
        usage = DeviceUsage(
            utilization_percent=40,
            memory_used_bytes=3 * GIB,
            energy_millijoules=5000,
            processes=self._processes,
        )
        return dict.fromkeys(uuids, usage)


class Told:
    def __init__(self) -> None:
        self.devices: list[DeviceSample] = []
        self.jobs: list[JobSample] = []

    def __call__(self, devices: Sequence[DeviceSample], jobs: Sequence[JobSample]) -> None:
        self.devices += devices
        self.jobs += jobs


def observer(
    probe: SimulatedProbe, told: Told, running: Mapping[str, int], seconds: float = 3600.0
) -> UsageObserver:
    made = UsageObserver({"node": probe}, lambda: running, told, lambda: 7, seconds)
    made.set_machines({"node": probe.scan()})
    return made


@pytest.fixture
def ours() -> Iterator[int]:
    """A process of a job; this test process is its supervisor."""
    child = subprocess.Popen(["sleep", "600"])
    yield child.pid
    child.kill()
    child.wait()


def test_processes_of_jobs_are_not_shown_as_foreign_and_their_card_memory_is_counted(
    ours: int,
) -> None:
    (machine,) = parse_sim("L40S", POOL_ID)
    processes = [DeviceProcess(ours, 0, "python", 2 * GIB, 5), DeviceProcess(1, 0, None, GIB, 6)]
    told = Told()
    watching = observer(RecordedCards(machine, processes), told, {"j-1": os.getpid()})
    watching.sample()
    (sample,) = told.devices
    (foreign,) = sample.unmanaged
    assert (foreign.pid, foreign.user, foreign.memory_bytes, foreign.started_ns) == (
        1,
        "root",
        GIB,
        6,
    )
    assert foreign.name == Path("/proc/1/comm").read_text().strip()
    assert (sample.usage.utilization_percent, sample.usage.at_ns) == (40, 7)
    assert sample.usage.energy_millijoules == 5000
    (job,) = told.jobs
    assert (job.job, job.gpu_memory_bytes) == ("j-1", 2 * GIB)
    watching.close()


def test_simulated_cards_have_no_use_to_tell_of() -> None:
    (machine,) = parse_sim("L40S", POOL_ID)
    told = Told()
    watching = observer(SimulatedProbe(machine), told, {})
    watching.sample()
    assert (told.devices, told.jobs) == ([], [])
    watching.close()


def test_nothing_is_sampled_while_no_job_runs_and_soon_after_one_begins() -> None:
    (machine,) = parse_sim("L40S", POOL_ID)
    told, running = Told(), dict[str, int]()
    looks: list[int] = []
    made = UsageObserver(
        {"node": SimulatedProbe(machine)},
        lambda: (looks.append(1), running)[1],
        told,
        lambda: 7,
        0.05,
    )
    made.set_machines({"node": machine})
    made.start()
    until(lambda: looks)
    made.note_job_change()
    until(lambda: len(looks) >= 2)
    assert told.jobs == []
    running["j-1"] = os.getpid()
    made.note_job_change()
    until(lambda: told.jobs)
    made.close()
    made.join(10)


def test_news_of_health_is_told_once_for_each_change(tmp_path: Path) -> None:
    (machine,) = parse_sim("2xL40S", POOL_ID)
    told = Told()
    made = UsageObserver({"node": SimulatedProbe(machine, tmp_path)}, dict, told, lambda: 7, 3600.0)
    made.set_machines({"node": machine})
    made.start()
    set_health(tmp_path, 1, DeviceHealth.FAILED, "fell off the bus", 79)
    until(lambda: told.devices)
    set_health(tmp_path, 0, DeviceHealth.WARNING, "hot")
    until(lambda: len(told.devices) == 2)
    made.close()
    made.join(10)
    assert [(one.uuid, one.health) for one in told.devices] == [
        (machine.devices[1].uuid, "failed"),
        (machine.devices[0].uuid, "warning"),
    ]
    assert "79" in told.devices[0].health_reason


def test_an_event_that_names_no_card_makes_the_probe_be_asked(tmp_path: Path) -> None:
    (machine,) = parse_sim("2xL40S", POOL_ID)
    probe = SimulatedProbe(machine, tmp_path)
    made = observer(probe, Told(), {})
    set_health(tmp_path, 1, DeviceHealth.FAILED, "gone")
    news = made._find_health_changes(
        HealthEvent(None, DeviceHealth.FAILED, "something happened"), probe
    )
    assert [(one.uuid, one.health, one.health_reason) for one in news] == [
        (machine.devices[1].uuid, "failed", "gone")
    ]
    made.close()


@pytest.mark.root
def test_a_card_that_fails_is_known_to_the_server_at_once(tmp_path: Path) -> None:
    server = PoolServer(tmp_path)
    server.begin()
    control = tmp_path / "control"
    control.mkdir()
    (machine,) = parse_sim("2xL40S", POOL_ID)
    config = AgentConfig("sim-0", POOL_ID, os.getuid(), os.getgid())
    agent = Agent(config, server.paths, server.api, {"sim-0": SimulatedProbe(machine, control)})
    agent.start()
    try:
        until(lambda: server.node_is_ready("sim-0"), "the node's readiness")
        set_health(control, 1, DeviceHealth.FAILED, "fell off the bus")

        def seen() -> bool:
            with server.api() as api:
                found = api.request("GET", "devices/sim-0:1")
            return (found["health"], found["largest_milli"]) == ("failed", 0)

        until(seen, "the card's failure")
    finally:
        agent.close()
        agent.join()
        server.end()


class SuspendedCards(RecordedCards):
    """Cards that are not read while a step needs their driver closed."""

    def observe(self, uuids: Collection[str]) -> Mapping[str, DeviceUsage]:
        raise ProbeSuspended("card 0 is reset")

    def health(self) -> Mapping[str, tuple[DeviceHealth, str]]:
        raise ProbeSuspended("card 0 is reset")


def test_cards_that_are_not_read_now_are_unknown_and_their_jobs_are_sampled(ours: int) -> None:
    told = Told()
    cards = SuspendedCards(parse_sim("2xL40S")[0], ())
    watching = observer(cards, told, {"job-1": os.getpid()})
    watching._asks_health = True
    watching.sample()
    assert [sample.usage.utilization_percent for sample in told.devices] == [None, None]
    assert [sample.usage.at_ns for sample in told.devices] == [7, 7]
    assert [sample.health for sample in told.devices] == [None, None]
    (job,) = told.jobs
    assert job.job == "job-1"


def test_an_xid_is_reported_also_where_it_leaves_the_card_well(tmp_path: Path) -> None:
    (machine,) = parse_sim("2xL40S", POOL_ID)
    faults: list[CardFaultIn] = []
    watching = UsageObserver(
        {"node": SimulatedProbe(machine, tmp_path)},
        dict,
        Told(),
        lambda: 7,
        3600.0,
        tell_fault=faults.append,
    )
    watching.start()
    report_xid(tmp_path, 1, 31)
    until(lambda: len(faults) == 1)
    report_xid(tmp_path, 1, 31, RecoveryAction.GPU_RESET)
    until(lambda: len(faults) == 2)
    watching.close()
    watching.join(10)
    uuid = machine.devices[1].uuid
    assert faults == [
        CardFaultIn(uuid=uuid, xid=31, at_ns=7),
        CardFaultIn(uuid=uuid, xid=31, at_ns=7, recovery="gpu-reset"),
    ]
