"""Agents and daemons are killed at random steps; then the next agent undoes all.

Whatever was killed: the card has its compute mode of before, no process and no file is left. Agents
are forked children that end, without any clean-up, at a random change to the file system. Daemons
are processes. `GPUPOOL_KILLS` sets the number of kills; `-s` prints what was killed.
"""

import os
import random
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.errors import GpupoolError
from gpupool.mechanisms.card_settings.compute_mode import ComputeMode
from gpupool.mechanisms.card_settings.records import CardRecordBook
from gpupool.mechanisms.contract import NotYet
from gpupool.mechanisms.mps.daemon import DaemonPlace, DaemonProcesses
from gpupool.mechanisms.mps.mechanism import MpsMechanism
from tests.support.kill_points import run_killed
from tests.support.mps_host import CARD, FakeControl, FakeModes, HelperStarter, describe_share

KILLS = int(os.environ.get("GPUPOOL_KILLS", "16"))
#: What must have been killed at least once.
KINDS = {"agent in prepare", "agent in unprepare", "daemon"}
#: Jobs beside each other; 48 is the most clients of one server.
JOBS = int(os.environ.get("GPUPOOL_KILL_JOBS", "3"))
ALLOCATIONS = tuple(f"al-{number}" for number in range(JOBS))


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mps") as name:
        yield Path(name)


class Host:
    """A node on which anything may be killed.

    Attributes:
        counts: what was done and killed.
    """

    def __init__(self, folder: Path, protocol: int, seed: int) -> None:
        self.random = random.Random(seed)
        host = folder / "host"
        host.mkdir()
        self.state = folder / "state"
        self.modes = FakeModes(host)
        control = FakeControl(host, protocol)
        self.mechanism = MpsMechanism(self.modes, control)
        self.agent = HelperStarter(folder / "bin")
        self.counts: Counter[str] = Counter()
        place = CardRecordBook(self.state / "mps").locate_folder(CARD.uuid)
        self.target = DaemonPlace(place, CARD.uuid, os.getuid(), os.getgid()).target

    def find_processes(self) -> tuple[int, ...]:
        return DaemonProcesses().find_processes(self.target)

    def prepare(self, allocation: str, generation: int) -> None:
        """Prepare and start helpers, as far as no refusal stops it."""
        view = replace(
            describe_share(allocation, self.random.randint(10, 900)), generation=generation
        )
        for _ in range(3):
            try:
                answer = self.mechanism.prepare(view, self.state)
            except GpupoolError:
                return
            if not isinstance(answer, NotYet):
                return
            for helper in answer.helpers:
                self.agent.start_helper(helper)

    def kill_agent(self, generation: int) -> None:
        """Let an agent die within a random verb."""
        allocation = self.random.choice(ALLOCATIONS)
        view = replace(describe_share(allocation, 200), generation=generation)
        verb, call = self.random.choice(
            [
                ("prepare", lambda: self.mechanism.prepare(view, self.state)),
                ("resize", lambda: self.mechanism.resize(view, self.state)),
                (
                    "unprepare",
                    lambda: self.mechanism.unprepare(allocation, generation, self.state),
                ),
            ]
        )
        # A refusal ends the call, such as for a generation that is stale.
        if run_killed(self.random.randrange(30), call, refusals=(GpupoolError,)):
            self.counts[f"agent in {verb}"] += 1

    def kill_daemon(self) -> None:
        for pid in self.find_processes():
            os.kill(pid, signal.SIGKILL)
            self.counts["daemon"] += 1
        for process in self.agent.processes.values():
            process.wait()

    def undo_all(self, generation: int) -> None:
        """Do what the next agent does: undo every allocation that it does not know."""
        self.mechanism.observe(self.state)
        for allocation in ALLOCATIONS:
            self.mechanism.unprepare(allocation, generation, self.state)


@pytest.mark.parametrize("protocol", [2, 3])
def test_random_kills_leak_nothing(folder: Path, protocol: int) -> None:
    host = Host(folder, protocol, seed=20261128 + protocol)
    generation = 5
    try:
        while sum(host.counts.values()) < KILLS // 2 or not host.counts.keys() >= KINDS:
            before = host.random.choice([ComputeMode.DEFAULT, ComputeMode.EXCLUSIVE_PROCESS])
            host.modes.write_mode(CARD.uuid, before)
            for _ in range(host.random.randint(0, JOBS)):
                generation += 1
                host.prepare(host.random.choice(ALLOCATIONS), generation)
            for _ in range(host.random.randint(1, 5)):
                generation += 1
                step = host.random.choice(["prepare", "agent", "agent", "daemon"])
                if step == "prepare":
                    host.prepare(host.random.choice(ALLOCATIONS), generation)
                elif step == "agent":
                    host.kill_agent(generation)
                else:
                    host.kill_daemon()
            host.undo_all(generation + 1)
            assert host.modes.read_mode(CARD.uuid) is before, host.counts
            assert host.find_processes() == (), host.counts
            assert not (host.state / "mps").exists(), host.counts
            prepared = host.state / "prepared"
            assert not prepared.exists() or not any(prepared.iterdir()), host.counts
    finally:
        host.agent.stop()
    print(f"\nprotocol {protocol}: {sum(host.counts.values())} kills, 0 leaks: {dict(host.counts)}")
