"""When bytes went last through the terminal of a job, with the real supervisor and a real terminal."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpupool.agent.monitoring.terminal_use import measure_terminal_rest
from gpupool.agent.monitoring.usage import read_processes, sum_process_trees
from gpupool.agent.supervisor.client import read_started
from gpupool.client.attach import SupervisorChannel, _expect
from gpupool.probes.simulated import SimulatedProbe, parse_sim
from tests.support.supervised import Jobs, supervised_jobs, until
from tests.unit.agent.pool import POOL_ID
from tests.unit.agent.test_loop_observer import Told, observer

MINUTE_MS = 60_000


@dataclass(frozen=True)
class Terminal:
    """The terminal of a job that runs `cat`, which answers each line."""

    supervisor: int
    master: int
    channel: SupervisorChannel

    def find_device(self) -> int:
        """Return its number as an agent finds it."""
        return sum_process_trees(read_processes(), [self.supervisor])[self.supervisor].terminal

    def locate(self) -> Path:
        return Path("/dev/pts") / str(os.minor(self.find_device()))

    def measure(self) -> int | None:
        return measure_terminal_rest(self.find_device(), time.time_ns())


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    yield from supervised_jobs(tmp_path)


@pytest.fixture
def terminal(jobs: Jobs) -> Iterator[Terminal]:
    job_dir = jobs.start("cat", stdio="attach")
    channel = SupervisorChannel(str(job_dir / "sock"))
    channel.send("hello 1 1")
    _expect(channel, "hello")
    channel.send("attach pty 24 80")
    _expect(channel, "attached")
    (master,) = channel.take_descriptors()
    started = until(lambda: read_started(job_dir))
    made = Terminal(started.supervisor_pid, master, channel)
    until(made.find_device)
    yield made
    os.close(master)
    channel.close()


def test_a_typed_line_ends_the_rest_of_a_terminal(terminal: Terminal) -> None:
    assert terminal.measure() == 0
    hour_ago = time.time_ns() - 3_600 * 10**9
    os.utime(terminal.locate(), ns=(hour_ago, hour_ago))
    rest = terminal.measure()
    assert rest is not None
    assert 59 * MINUTE_MS < rest < 60 * MINUTE_MS
    os.write(terminal.master, b"line\n")
    until(lambda: terminal.measure() == 0)


def test_what_is_not_the_terminal_of_the_job_says_nothing(
    terminal: Terminal, tmp_path: Path
) -> None:
    device = terminal.find_device()
    now_ns = time.time_ns()
    assert measure_terminal_rest(0, now_ns) is None
    assert measure_terminal_rest(os.makedev(4, 1), now_ns) is None
    assert measure_terminal_rest(device, now_ns, tmp_path) is None
    (tmp_path / terminal.locate().name).touch()
    assert measure_terminal_rest(device, now_ns, tmp_path) is None
    os.utime(terminal.locate(), (2**31, 2**31))
    assert terminal.measure() == 0


def test_a_sample_of_a_job_has_the_rest_of_its_terminal(terminal: Terminal) -> None:
    (machine,) = parse_sim("L40S", POOL_ID)
    told = Told()
    watching = observer(SimulatedProbe(machine), told, {"j-1": terminal.supervisor})
    watching.sample()
    watching.close()
    assert [(one.job, one.terminal_milliseconds) for one in told.jobs] == [("j-1", 0)]
