"""A node's agent looks at its containers as that of one machine at its jobs: what is found, told,
counted and done."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpupool.kubernetes.node import container_owners
from gpupool.kubernetes.node.audit import NodeAudit
from gpupool.kubernetes.node.prepare import EntryPreparer
from gpupool.kubernetes.reporting.events import Event
from gpupool.kubernetes.resources.gpu_node import Entry
from gpupool.mechanisms.arbiter import ArbiterProcess
from gpupool.mechanisms.contract import JobSeat
from gpupool.mechanisms.driver.driver_files import find_simulated_libraries, find_templates
from gpupool.model.allocation import Seat
from gpupool.model.device import DeviceProcess, DeviceUsage
from gpupool.probes.simulated import SimulatedProbe, parse_sim
from tests.support.supervised import until

pytestmark = pytest.mark.skipif(
    find_templates() is None or find_simulated_libraries() is None,
    reason="gpupool-native is installed without its fence",
)

(MACHINE,) = parse_sim("1xL40S", "n0")
CARD = MACHINE.devices[0]
MIB = 1 << 20
UID, POD = "0f8fad5b-d9cb-469f-a165-70867728950e", "train-with-a-long-name-0-of-a-set"
CONTAINER = "main-with-a-name-as-long-as-a-label-may-be-which-is-63-letters"


class Card(SimulatedProbe):
    """A card that says that these processes have so much of it."""

    def __init__(self, state_dir: Path) -> None:
        file = state_dir / "simgpu/n0/machine"
        file.parent.mkdir(parents=True)
        super().__init__(MACHINE, machine_file=file)
        self.on_card: dict[int, int] = {}

    def observe(self, uuids: Collection[str]) -> Mapping[str, DeviceUsage]:
        used = tuple(DeviceProcess(pid, None, None, size) for pid, size in self.on_card.items())
        return {CARD.uuid: DeviceUsage(processes=used)}


class Node:
    """An agent's audit, and a container whose program is a process of ours."""

    def __init__(self, state_dir: Path, reaction: str) -> None:
        self.card = Card(state_dir)
        self.card.machine_cards()
        seat = JobSeat("/run/gpupool", uid=0, gid=0)
        self.preparing = EntryPreparer(
            state_dir, MACHINE, self.card, ArbiterProcess(None, random.random), seat
        )
        self.entry = Entry(
            UID, "team", POD, CONTAINER, (Seat(CARD.uuid, 300, 1000 * MIB),), "nlp", generation=1
        )
        self.program = subprocess.Popen(["sleep", "600"])
        self.proc = state_dir / "proc"
        (self.proc / str(self.program.pid)).mkdir(parents=True)
        (self.proc / str(self.program.pid) / "cgroup").write_text(
            f"0::/kubepods/pod{UID}/{'a' * 64}\n"
        )
        self.told: list[Event] = []
        self.audit = NodeAudit(
            self.card,
            MACHINE,
            self.preparing,
            lambda: None,
            state_dir=state_dir,
            driver_root=Path("/"),
            reaction=reaction,
            pods=self.pods,
            tell=self.told.append,
        )
        self.audit._owners._proc = self.proc

    def pods(self) -> list[dict[str, Any]]:
        return [
            {"metadata": {"uid": UID}, "spec": {"containers": [{"name": CONTAINER}]}, "status": {}}
        ]


@pytest.fixture
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Node]:
    made = Node(tmp_path, getattr(request, "param", "kill"))
    yield made
    made.program.kill()
    made.program.wait()


def test_a_container_on_a_card_past_its_fence_is_told_counted_and_killed(node: Node) -> None:
    node.preparing.prepare(node.entry)
    node.card.on_card = {node.program.pid: 10 * MIB, os.getpid(): 10 * MIB}
    node.audit.auditor.compare_jobs()
    assert node.program.wait() == -9
    kinds = {event.about.partition("/")[2] for event in node.told}
    assert "unregistered" in kinds
    (event,) = (event for event in node.told if event.about == f"{CONTAINER}/unregistered")
    assert (event.kind, event.namespace, event.name, event.uid) == ("Pod", "team", POD, UID)
    assert (event.reason, event.warning) == ("PastFence", True)
    assert "its processes were killed" in event.note
    assert node.audit.count_findings()[f"team/{POD}/{CONTAINER}", "unregistered"] == 1


@pytest.mark.parametrize("node", ["warn"], indirect=True)
def test_with_the_reaction_warn_it_is_only_told(node: Node) -> None:
    node.preparing.prepare(node.entry)
    node.card.on_card = {node.program.pid: 10 * MIB}
    node.audit.auditor.compare_jobs()
    assert node.program.poll() is None
    assert all("only told" in event.note for event in node.told)
    assert node.told


def test_a_container_within_its_share_is_let_be_whatever_the_length_of_its_names(
    node: Node,
) -> None:
    """Its limits page has room for 63 bytes of each name, which is no change of the page."""
    node.preparing.prepare(node.entry)
    node.audit.auditor.compare_jobs()
    assert (node.told, node.audit.count_findings()) == ([], {})
    assert node.program.poll() is None


def test_what_is_undone_is_neither_looked_at_nor_counted(node: Node) -> None:
    node.preparing.prepare(node.entry)
    node.card.on_card = {node.program.pid: 10 * MIB}
    node.audit.auditor.compare_jobs()
    assert node.audit.count_findings()
    node.preparing.unprepare(UID, CONTAINER)
    node.told.clear()
    node.audit.auditor.compare_jobs()
    assert (node.told, node.audit.count_findings()) == ([], {})


def test_a_container_that_is_prepared_while_it_sleeps_is_looked_at(node: Node) -> None:
    node.audit.auditor.start()
    try:
        node.card.on_card = {node.program.pid: 10 * MIB}
        node.preparing.prepare(node.entry)
        until(lambda: node.told, "the finding")
    finally:
        node.audit.auditor.close()
        node.audit.auditor.join(10)


def test_an_agent_that_takes_up_containers_of_the_one_before_looks_at_them(
    node: Node, tmp_path: Path
) -> None:
    node.preparing.prepare(node.entry)
    seat = JobSeat("/run/gpupool", uid=0, gid=0)
    later = EntryPreparer(tmp_path, MACHINE, node.card, ArbiterProcess(None, random.random), seat)
    assert later.fenced_allocations() == ()
    later.resume_allocations()
    assert later.fenced_allocations() == (f"{UID}.{CONTAINER}",)
    assert (
        container_owners.ContainerOwners(node.pods, node.proc).kill_container(
            node.audit._list_fenced()[0]
        )
        == 1
    )
