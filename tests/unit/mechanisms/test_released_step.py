"""While a released step runs, no process of the agent has a card open: real descriptors, real kills.

The library is the compiled stand-in, which opens a file for each card as NVML opens its node.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.mechanisms.contract import AllocationView, GrantedDevice, NotYet
from gpupool.mechanisms.pci.holders import find_holders
from gpupool.mechanisms.released_step import (
    await_released_steps,
    explain_wait,
    is_driver_suspended,
    run_released_step,
)
from gpupool.mechanisms.slow_step import StepResult, await_slow_step, list_released
from gpupool.model.device import Device
from gpupool.probes.nvml.gate import DriverGate
from tests.support.supervised import until
from tests.unit.probes.fake_driver import compile_driver

AGENT = Path(__file__).with_name("releasing_agent.py")
#: Kills of an agent at random moments.
KILLS = 4


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_driver(tmp_path_factory.mktemp("driver"))


class Host:
    """A machine with two cards, and its agents."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.nodes = folder / "dev"
        (self.state / "modes").mkdir(parents=True)
        self.nodes.mkdir()
        self.paths = [self.nodes / f"nvidia{number}" for number in range(3)]
        for path in self.paths:
            path.touch()
        self.environment = {
            **os.environ,
            "LD_LIBRARY_PATH": str(library),
            "FAKE_NVML_NODES": str(self.nodes),
        }
        self.agents: list[subprocess.Popen[str]] = []

    def start_agent(self) -> subprocess.Popen[str]:
        arguments = [str(self.state), str(self.nodes), str(self.folder)]
        agent = subprocess.Popen(
            [sys.executable, str(AGENT), *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.agents.append(agent)
        return agent

    def count(self, name: str) -> int:
        path = self.folder / name
        return len(path.read_text().splitlines()) if path.exists() else 0

    def list_holders(self) -> list[int]:
        return [one.pid for one in find_holders(self.paths)]

    def finish(self, agent: subprocess.Popen[str]) -> dict[str, Any]:
        """Let the step end, and return what the agent reports."""
        (self.folder / "go").touch()
        output, errors = agent.communicate(timeout=60)
        assert agent.returncode == 0, errors
        found: dict[str, Any] = json.loads(output.splitlines()[-1])
        return found

    def end(self) -> None:
        (self.folder / "go").touch()
        for agent in self.agents:
            agent.kill()
            agent.communicate()
        await_slow_step(self.state / "modes", "reset-card")


@pytest.fixture
def host(tmp_path: Path, library: Path) -> Iterator[Host]:
    made = Host(tmp_path, library)
    yield made
    made.end()


def test_no_reader_has_a_card_open_while_the_step_runs(host: Host) -> None:
    agent = host.start_agent()
    until(lambda: host.count("looks") > 5)
    assert agent.pid not in host.list_holders()
    report = host.finish(agent)
    assert (report["exit_code"], report["output"]) == (0, "")
    assert report["devices"] == 3, "the cards are read again afterwards"
    assert report["alive"]
    assert report["suspended"] > 0
    assert report["read"] > 0
    assert host.count("runs") == 1
    assert list_released(host.state / "modes") == ["reset-card"]


def test_a_step_that_is_killed_lets_the_cards_be_read_again(host: Host) -> None:
    agent = host.start_agent()
    until(lambda: host.count("looks") > 0)
    # The step and its parent, of which either alone would keep the lock.
    for pid in list_children(agent.pid):
        for child in [*list_children(pid), pid]:
            os.kill(child, signal.SIGKILL)
    until(lambda: host.count("runs") == 2)  # the agent opened and closed the library between
    report = host.finish(agent)
    assert report["exit_code"] == 0
    assert report["devices"] == 3


def test_an_agent_that_starts_meanwhile_waits_for_the_step(host: Host) -> None:
    first = host.start_agent()
    until(lambda: host.count("looks") > 0)
    first.kill()
    first.wait()
    second = host.start_agent()
    looks = host.count("looks")
    until(lambda: host.count("looks") > looks + 30)
    assert second.pid not in host.list_holders()
    report = host.finish(second)
    assert (report["exit_code"], report["devices"]) == (0, 3)
    assert host.count("runs") == 1


def test_agents_that_are_killed_at_random_never_disturb_the_step(host: Host) -> None:
    moments = random.Random(58)
    for _ in range(KILLS):
        agent = host.start_agent()
        with pytest.raises(subprocess.TimeoutExpired):
            agent.wait(moments.uniform(0.2, 0.8))
        agent.kill()
        agent.wait()
    report = host.finish(host.start_agent())
    assert (report["exit_code"], report["output"], report["devices"]) == (0, "", 3)


def list_children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Library:
    """NVML for a forked process: opens the node of the only card as the real one does."""

    class NVMLError(Exception):
        value = 1

    def __init__(self, node: Path) -> None:
        self.node = node
        self.descriptor = -1

    def nvmlInit(self) -> None:  # noqa: N802  pynvml's name
        self.descriptor = os.open(self.node, os.O_RDONLY | os.O_CLOEXEC)

    def nvmlShutdown(self) -> None:  # noqa: N802  pynvml's name
        os.close(self.descriptor)


def make_gate(node: Path) -> DriverGate:
    """A gate of a new process, with the library open as by its probe."""
    library = Library(node)
    return DriverGate(lambda: library)


def run_killed_at(line: int, state: Path, node: Path, command: list[str]) -> int:
    """Run a step in a fork that is killed before that line of ours; return its exit status."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    left = line

    def trace(frame: Any, event: str, argument: object) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.endswith(("_step.py", "gate.py")):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    gate = make_gate(node)
    with gate.hold():
        gate.attach(gate)
    sys.settrace(trace)
    run_released_step(state / "modes", "reset-card", command, "reset", gate)
    os._exit(0)


def test_an_agent_may_be_killed_before_any_line(tmp_path: Path) -> None:
    """Before each line of a step's start; the next agent finishes it with the card closed."""
    node = tmp_path / "nvidia0"
    node.touch()
    program = "import pathlib, sys; from gpupool.mechanisms.pci.holders import find_holders"
    program += f"; sys.exit(9 if find_holders([pathlib.Path({str(node)!r})]) else 0)"
    line = 0
    statuses = []
    while not statuses or statuses[-1] != 0:
        line += 11  # each line in turn would take a process a line
        state = tmp_path / str(line)
        (state / "modes").mkdir(parents=True)
        statuses.append(run_killed_at(line, state, node, [sys.executable, "-c", program]))
        gate = make_gate(node)
        await_released_steps(state, gate, seconds=30)
        with gate.hold():
            gate.attach(gate)
        answer = await_answer(state, [sys.executable, "-c", program], gate)
        assert answer.exit_code == 0, f"killed before line {line}"
        assert gate.await_end(10)
        with gate.hold():
            gate.attach(gate)
        gate.detach(gate)
    assert len(statuses) > 5
    assert set(statuses[:-1]) == {signal.SIGKILL}


def await_answer(state: Path, command: list[str], gate: DriverGate) -> StepResult:
    def ask() -> StepResult | NotYet:
        return run_released_step(state / "modes", "reset-card", command, "reset", gate)

    found = until(lambda: isinstance(answer := ask(), StepResult) and answer)
    assert isinstance(found, StepResult)
    return found


def test_a_step_that_hangs_does_not_keep_an_agent_from_starting(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    agent = host.start_agent()
    until(lambda: host.count("looks") > 0)
    agent.kill()
    agent.wait()
    gate = DriverGate()
    await_released_steps(host.state, gate, seconds=0.05)
    assert not is_driver_suspended(gate)
    assert "still needs it closed" in caplog.text


def test_only_allocations_of_real_nvidia_cards_wait() -> None:
    gate = DriverGate()
    with gate.suspend("a", "card 0 is reset", lambda: False):
        pass
    for vendor, simulated, reason in (
        ("nvidia", False, "card 0 is reset"),
        ("nvidia", True, ""),
        ("amd", False, ""),
    ):
        card = Device("GPU-1", 0, vendor, "a card", "card", 1 << 30, simulated=simulated)
        granted = (GrantedDevice(card, 1000, 1 << 30),)
        view = AllocationView("pool", "al-1", 1, "job", "team", "fixed", granted, (card,))
        assert explain_wait(view, gate) == reason
