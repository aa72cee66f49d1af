"""The agent's copy of its ledger: on disk before a container relies on it, and never written by the
event loop."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import CardNotReady, ServiceUnavailable, StillInUse
from gpupool.base.supervision import register
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.node import ledger_copy
from gpupool.kubernetes.node.agent import COPY, AgentPaths, NodeAgent
from gpupool.kubernetes.resources.gpu_node import Entry
from gpupool.model.allocation import Seat
from gpupool.probes.simulated import SimulatedProbe, parse_sim
from tests.support.kube_builders import gpu_node
from tests.support.kube_memory import MemoryApi


class Kubelet:
    """A kubelet whose bookings are asked for: by then the copy has to be there."""

    def __init__(self, copy: Path) -> None:
        self._copy, self.seen = copy, list[int]()

    def read_bookings(self) -> list[Any]:
        self.seen.append(json.loads(self._copy.read_text())["metadata"]["generation"])
        raise CardNotReady("nobody has the slot", hint="")

    def read_slots(self, _space: str, _pod: str) -> dict[str, list[str]]:
        return {}


class Nothing:
    """What prepares shares: nothing was prepared."""

    def prepared_generations(self) -> dict[Any, Any]:
        return {}

    def is_limited(self, _uid: str, _container: str) -> bool:
        return False

    def describe_share(self, _device: Any) -> None:
        return None

    def measure_gpu_time(self, _uid: str, _container: str) -> None:
        return None


def made(place: Path) -> tuple[NodeAgent, Kubelet]:
    (machine,) = parse_sim("2xL40S", "n0")
    kubelet = Kubelet(place / COPY)
    (place / "run").mkdir()
    places = AgentPaths(place, place / "cdi", place / "run" / "agent.sock")
    probe = SimulatedProbe(machine, place)
    return NodeAgent(
        None, "n0", probe, machine, Nothing(), kubelet, places, 8, find_pieces=lambda cards: {}
    ), kubelet  # type: ignore[arg-type]


def test_the_event_loop_writes_no_copy_and_a_container_waits_for_it(tmp_path: Path) -> None:
    async def run() -> None:
        agent, kubelet = made(tmp_path)
        for version in (4, 5):
            agent._note_ledger(gpu_node(version=version), False)
        assert not (tmp_path / COPY).exists()
        assert "nobody has the slot" in await asyncio.to_thread(agent._prepare_slot, "s1")
        assert kubelet.seen == [5]

    asyncio.run(run())


def test_without_a_question_the_copy_is_written_beside_the_reports(tmp_path: Path) -> None:
    async def run() -> None:
        agent, _ = made(tmp_path)
        agent._note_ledger(gpu_node(version=7), False)
        await asyncio.to_thread(agent._release_unused)

    asyncio.run(run())
    assert json.loads((tmp_path / COPY).read_text())["metadata"]["generation"] == 7


def test_another_ledger_of_the_same_generation_replaces_the_copy(tmp_path: Path) -> None:
    """A server that was restored from a backup counts generations again."""
    entry = Entry("uid-a", "default", "a", "main", (Seat("GPU-n0-0", 300, 1 << 30),), "default")

    async def run() -> None:
        agent, _ = made(tmp_path)
        agent._note_ledger(gpu_node(version=7), False)
        await asyncio.to_thread(agent._release_unused)
        agent._note_ledger(gpu_node(version=7, allocations=[entry.to_json()]), False)
        await asyncio.to_thread(agent._release_unused)

    asyncio.run(run())
    (copied,) = json.loads((tmp_path / COPY).read_text())["spec"]["allocations"]
    assert copied["uid"] == "uid-a"


def test_a_copy_that_cannot_be_written_keeps_containers_waiting_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    async def run() -> None:
        agent, kubelet = made(tmp_path)
        agent._note_ledger(gpu_node(version=7), False)
        with monkeypatch.context() as patched:
            patched.setattr(ledger_copy, "write_durably", full)
            said = await asyncio.to_thread(agent._prepare_slot, "s1")
            assert "cannot be written: No space left on device" in said
            await asyncio.to_thread(agent._release_unused)
        assert kubelet.seen == []
        await asyncio.to_thread(agent._prepare_slot, "s1")
        assert kubelet.seen == [7]

    asyncio.run(run())


def test_a_note_that_cannot_be_flushed_keeps_its_container_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the question was left without an answer, and the plugin named no reason."""

    def fails(_slot: str) -> None:
        raise OSError(5, "Input/output error")

    async def run() -> str:
        agent, _ = made(tmp_path)
        monkeypatch.setattr(agent, "_write_slot", fails)
        return await asyncio.to_thread(agent._prepare_slot, "s1")

    said = asyncio.run(run())
    assert (
        said
        == "GP-2033: what the container needs cannot be written: Input/output error; it is tried again"
    )


class BusyLock:
    """Somebody else has it until `free` is set."""

    def __init__(self) -> None:
        self.waited_for, self.free = threading.Event(), threading.Event()

    def __enter__(self) -> None:
        self.waited_for.set()
        self.free.wait()

    def __exit__(self, *_: object) -> None:
        pass


def test_a_question_that_waits_for_another_does_not_count_as_one_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(register.pulse, "scale", 0.0)
    lock = BusyLock()

    async def run() -> None:
        agent, _ = made(tmp_path)
        monkeypatch.setattr(agent, "_preparation", lock)
        asked = asyncio.create_task(asyncio.to_thread(agent._prepare_slot, "s1"))
        await asyncio.to_thread(lock.waited_for.wait)
        silent = {one.name for one in register.list_silent()}
        lock.free.set()
        await asked
        assert "agent-ready" not in silent

    asyncio.run(run())


class Held(Nothing):
    """Two containers whose entries are gone. The first cannot be undone until `problem` is None."""

    def __init__(self) -> None:
        self.prepared = {("uid-a", "main"): 1, ("uid-b", "main"): 1}
        self.problem: Exception | None = None

    def prepared_generations(self) -> dict[tuple[str, str], int]:
        return dict(self.prepared)

    def unprepare(self, uid: str, container: str) -> None:
        if uid == "uid-a" and self.problem is not None:
            raise self.problem
        del self.prepared[uid, container]


@pytest.mark.parametrize(
    "problem",
    [StillInUse("a program has a partition open"), OSError(28, "No space left on device")],
    ids=["partition open", "disk full"],
)
def test_preparation_that_cannot_be_undone_is_tried_again_and_holds_up_no_other(
    tmp_path: Path, problem: Exception
) -> None:
    """Raised, it would end the agent at every look, and no container of the node could start."""

    async def run() -> None:
        agent, _ = made(tmp_path)
        held = Held()
        held.problem = problem
        agent._preparing = held  # type: ignore[assignment]
        agent._note_ledger(gpu_node(version=7), False)
        assert await asyncio.to_thread(agent._release_unused), "it is looked at again soon"
        assert list(held.prepared) == [("uid-a", "main")]
        held.problem = None
        assert not await asyncio.to_thread(agent._release_unused)
        assert held.prepared == {}

    asyncio.run(run())


class AwayApi(MemoryApi):
    """Its first answer is that the server is away; `returned` is set by the second request."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.returned = asyncio.Event()

    async def request(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        self.asked += 1
        if self.asked == 1:
            raise ServiceUnavailable("connection refused")
        self.returned.set()
        return await super().request(method, path, body, **more)


def test_agent_that_starts_while_the_api_server_is_away_goes_on(tmp_path: Path) -> None:
    """Containers restart meanwhile by the copy of the ledger; an agent that ended served none."""

    async def run() -> None:
        agent, _ = made(tmp_path)
        api = AwayApi()
        api.put(f"{ledger.NODES}/n0", gpu_node())
        agent._api = api
        life = asyncio.create_task(agent._run_tasks())
        back = asyncio.create_task(api.returned.wait())
        await asyncio.wait({life, back}, return_when=asyncio.FIRST_COMPLETED)
        assert not life.done(), life.exception()
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)

    asyncio.run(run())
