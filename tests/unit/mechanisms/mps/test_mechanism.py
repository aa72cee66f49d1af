"""MPS from the note to the job's environment; the daemons are real processes that do nothing, and
their answers the recorded ones."""

import json
import os
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.errors import NotFound, RequestRejection, ServiceUnavailable
from gpupool.mechanisms.card_settings.compute_mode import ComputeMode
from gpupool.mechanisms.card_settings.records import CardRecordBook
from gpupool.mechanisms.contract import FenceLevel, NotYet, PreparedAllocation
from gpupool.mechanisms.mps.daemon import DaemonPlace, DaemonProcesses
from gpupool.mechanisms.mps.mechanism import START_SECONDS, MpsMechanism
from gpupool.mechanisms.mps.servers import name_namespace
from tests.support.mps_fake import FakeDaemon
from tests.support.mps_host import (
    CARD,
    GIB,
    FakeControl,
    FakeModes,
    HelperStarter,
    build_automatic,
    describe_share,
)


class Node:
    """One host: its cards, its daemons and the agent's state directory."""

    def __init__(self, folder: Path, protocol: int) -> None:
        host = folder / "host"
        host.mkdir()
        self.modes = FakeModes(host)
        self.control = FakeControl(host, protocol)
        self.now_ns = 1_000 * 10**9
        self.mechanism = MpsMechanism(self.modes, self.control, clock_ns=lambda: self.now_ns)
        self.state = folder / "state"
        self.agent = HelperStarter(folder / "bin")

    def prepare(self, allocation: str = "al-1", milli: int = 300) -> PreparedAllocation:
        view = describe_share(allocation, milli)
        return self.agent.prepare(self.mechanism, view, self.state)

    @property
    def place(self) -> DaemonPlace:
        folder = CardRecordBook(self.state / "mps").locate_folder(CARD.uuid)
        return DaemonPlace(folder, CARD.uuid, os.getuid(), os.getgid())

    def find_processes(self) -> tuple[int, ...]:
        return DaemonProcesses().find_processes(self.place.target)

    def read_daemon(self) -> FakeDaemon:
        return self.control.read_daemon(self.place.target)

    def read_mode(self) -> ComputeMode:
        return self.modes.read_mode(CARD.uuid)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory of a short path: the names of sockets are at most 108 bytes long."""
    with tempfile.TemporaryDirectory(prefix="mps") as name:
        yield Path(name)


@pytest.fixture(params=[2, 3])
def node(request: pytest.FixtureRequest, folder: Path) -> Iterator[Node]:
    made = Node(folder, request.param)
    yield made
    made.agent.stop()


@pytest.fixture
def old(folder: Path) -> Iterator[Node]:
    """A node with protocol 2."""
    made = Node(folder, 2)
    yield made
    made.agent.stop()


@pytest.fixture
def new(folder: Path) -> Iterator[Node]:
    """A node with protocol 3."""
    made = Node(folder, 3)
    yield made
    made.agent.stop()


def test_the_card_is_exclusive_before_the_daemon_is_asked_for(node: Node) -> None:
    answer = node.mechanism.prepare(describe_share(), node.state)
    assert isinstance(answer, NotYet)
    assert "daemon" in answer.reason
    assert node.read_mode() is ComputeMode.EXCLUSIVE_PROCESS
    assert node.find_processes() == ()


def test_the_helper_is_the_owners_and_sees_one_card(node: Node) -> None:
    answer = node.mechanism.prepare(describe_share(), node.state)
    assert isinstance(answer, NotYet)
    (helper,) = answer.helpers
    assert (helper.uid, helper.gid) == (os.getuid(), os.getgid())
    assert helper.environment["CUDA_VISIBLE_DEVICES"] == CARD.uuid
    pipe = Path(helper.environment["CUDA_MPS_PIPE_DIRECTORY"])
    assert pipe.stat().st_mode & 0o777 == 0o700
    assert pipe.stat().st_uid == os.getuid()
    protocol = ("-p", "3") if node.control.has_namespaces() else ()
    assert helper.arguments == ("/usr/bin/nvidia-cuda-mps-control", "-f", *protocol)
    # The daemon looks for its server there.
    assert {"/usr/bin", "/usr/sbin"} <= set(helper.environment["PATH"].split(":"))


def test_the_server_limits_a_job_before_the_job_can_connect(old: Node) -> None:
    old.prepare(milli=300)
    history = old.read_daemon().history
    start = next(n for n, line in enumerate(history) if line.startswith("start_server"))
    before = history[:start]
    assert "set_default_active_thread_percentage 30" in before
    assert "set_default_device_pinned_mem_limit 0 8192M" in before
    (server,) = old.read_daemon().servers.values()
    assert (server.uid, server.percentage, server.memory) == (os.getuid(), 30.0, "8192M")


def test_one_server_holds_the_largest_share_of_several(old: Node) -> None:
    old.prepare("al-1", 300)
    first = old.prepare("al-2", 500)
    assert old.prepare("al-3", 100).env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "10"
    assert len(old.find_processes()) == 1
    (server,) = old.read_daemon().servers.values()
    assert server.percentage == 50.0
    assert first.env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=8192M"
    old.mechanism.unprepare("al-2", 5, old.state)
    (server,) = old.read_daemon().servers.values()
    assert server.percentage == 30.0


def test_each_job_has_a_namespace_with_its_own_limits(new: Node) -> None:
    small = new.prepare("al-1", 300)
    large = new.prepare("al-2", 500)
    pipe = new.place.target.pipe
    for allocation, prepared in (("al-1", small), ("al-2", large)):
        folder = pipe / "gpupool" / name_namespace(allocation)
        assert prepared.env["CUDA_MPS_PIPE_DIRECTORY"] == str(folder)
    namespaces = new.read_daemon().namespaces
    assert namespaces[name_namespace("al-1")].percentage == "30"
    assert namespaces[name_namespace("al-2")].percentage == "50"
    assert namespaces[name_namespace("al-2")].memory == "8192M"
    assert namespaces["default"].memory == "1M", "a client of no job could run"


def test_the_namespace_of_a_job_that_ended_is_removed(new: Node) -> None:
    new.prepare("al-1")
    new.prepare("al-2")
    new.mechanism.unprepare("al-1", 5, new.state)
    assert set(new.read_daemon().namespaces) == {"default", name_namespace("al-2")}


def test_the_levels_say_what_each_protocol_holds(node: Node) -> None:
    prepared = node.prepare()
    level = FenceLevel.SOFT if node.control.has_namespaces() else FenceLevel.ADVISORY
    levels = node.mechanism.read_levels("al-1", node.state)
    assert levels == prepared.levels
    assert (levels.memory, levels.compute) == (level, level)
    assert (levels.bandwidth, levels.fault) == (FenceLevel.NONE, FenceLevel.NONE)
    assert "ends all jobs on this card's MPS server" in prepared.notes[1]
    assert node.mechanism.read_enforcement("al-1", node.state) == (level, prepared.notes[1])


def test_preparing_again_gives_the_same_and_starts_no_second_daemon(node: Node) -> None:
    first = node.prepare()
    pids = node.find_processes()
    assert node.mechanism.prepare(describe_share(), node.state) == first
    assert node.find_processes() == pids


def test_the_last_job_ends_the_daemon_and_restores_the_card(node: Node) -> None:
    node.prepare("al-1")
    node.prepare("al-2")
    node.mechanism.unprepare("al-1", 5, node.state)
    assert len(node.find_processes()) == 1
    assert node.read_mode() is ComputeMode.EXCLUSIVE_PROCESS
    for _ in range(2):
        node.mechanism.unprepare("al-2", 5, node.state)
        assert node.find_processes() == ()
        assert node.read_mode() is ComputeMode.DEFAULT
    assert not (node.state / "mps").exists()
    assert list((node.state / "prepared").iterdir()) == []


def test_the_daemon_ends_before_the_card_is_open_to_others(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.prepare()
    running = []
    write_mode = node.modes.write_mode

    def look_and_write(uuid: str, mode: ComputeMode) -> None:
        running.append(node.find_processes())
        write_mode(uuid, mode)

    monkeypatch.setattr(node.modes, "write_mode", look_and_write)
    node.mechanism.unprepare("al-1", 5, node.state)
    assert running == [()]


def test_a_mode_that_an_operator_set_meanwhile_stays(node: Node) -> None:
    node.prepare()
    node.modes.write_mode(CARD.uuid, ComputeMode.PROHIBITED)
    assert "PROHIBITED" in node.mechanism.observe(node.state)["al-1"].problem
    node.mechanism.unprepare("al-1", 5, node.state)
    assert node.read_mode() is ComputeMode.PROHIBITED


def test_a_card_that_was_exclusive_before_stays_so(node: Node) -> None:
    node.modes.write_mode(CARD.uuid, ComputeMode.EXCLUSIVE_PROCESS)
    node.prepare()
    node.mechanism.unprepare("al-1", 5, node.state)
    assert node.read_mode() is ComputeMode.EXCLUSIVE_PROCESS


def test_a_daemon_that_ignores_quit_is_killed(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpupool.mechanisms.mps.daemon.END_SECONDS", 0.2)
    node.prepare()
    (pid,) = node.find_processes()
    os.kill(pid, signal.SIGSTOP)
    node.mechanism.unprepare("al-1", 5, node.state)
    assert node.find_processes() == ()
    assert node.read_mode() is ComputeMode.DEFAULT


def test_a_killed_daemon_is_observed_and_preparing_asks_for_another(node: Node) -> None:
    node.prepare()
    (pid,) = node.find_processes()
    (node.place.target.pipe / "control").touch()
    node.agent.processes[f"mps-{node.place.folder.name}"].kill()
    node.agent.processes[f"mps-{node.place.folder.name}"].wait()
    assert node.mechanism.observe(node.state)["al-1"].problem == "its MPS daemon is gone"
    answer = node.mechanism.prepare(describe_share(), node.state)
    assert isinstance(answer, NotYet)
    assert not (node.place.target.pipe / "control").exists(), "a stale socket"
    node.prepare()
    assert node.find_processes() != (pid,)
    assert node.mechanism.observe(node.state)["al-1"].problem == ""


def test_a_daemon_killed_under_two_jobs_starts_anew_after_both_have_ended(node: Node) -> None:
    node.prepare("al-1")
    node.prepare("al-2")
    dead = node.find_processes()[0]
    os.kill(dead, signal.SIGKILL)
    node.agent.processes[f"mps-{node.place.folder.name}"].wait()
    third = describe_share("al-3")
    for left in (2, 1):
        answer = node.mechanism.prepare(third, node.state)
        assert isinstance(answer, NotYet)
        assert answer.reason == f"waits for {left} jobs of an MPS daemon that is gone to end"
        assert answer.helpers == (), "no daemon starts beside the clients of a dead one"
        node.mechanism.unprepare(f"al-{left}", 5, node.state)
        assert node.read_mode() is ComputeMode.EXCLUSIVE_PROCESS
    node.agent.prepare(node.mechanism, third, node.state)
    assert node.find_processes() not in ((), (dead,))
    node.mechanism.unprepare("al-3", 5, node.state)
    assert node.read_mode() is ComputeMode.DEFAULT


def test_only_preparing_starts_a_daemon(node: Node) -> None:
    answer = node.mechanism.prepare(describe_share("al-1"), node.state)
    assert isinstance(answer, NotYet)
    assert answer.helpers[0].restarts
    # A daemon that died after its limits were set must not be replaced by one without limits.
    assert not node.prepare("al-1").helpers[0].restarts


def test_a_server_that_never_comes_is_refused_with_the_time(node: Node) -> None:
    node.control.has_card = False
    view = describe_share()
    answer = node.mechanism.prepare(view, node.state)
    assert isinstance(answer, NotYet)
    node.agent.start_helper(answer.helpers[0])
    for seconds in (1, START_SECONDS - 1):
        node.now_ns += seconds * 10**9
        answer = node.mechanism.prepare(view, node.state)
        assert isinstance(answer, NotYet)
        assert "server" in answer.reason
    node.now_ns += 10**9
    with pytest.raises(RequestRejection, match=f"did not start in {START_SECONDS} s"):
        node.mechanism.prepare(view, node.state)
    node.mechanism.unprepare("al-1", 5, node.state)
    assert node.read_mode() is ComputeMode.DEFAULT
    assert node.find_processes() == ()


def test_a_server_whose_log_has_an_error_is_refused(old: Node) -> None:
    old.prepare("al-1")
    (pid,) = old.read_daemon().servers
    log = old.place.target.log / "server.log"
    log.write_text(f"[2026-11-01 10:00:00.000 Server {pid}] Server moved to FAULT state\n")
    with pytest.raises(RequestRejection, match="moved to FAULT state"):
        old.mechanism.prepare(describe_share("al-2"), old.state)


def test_the_log_of_an_earlier_server_does_not_count(old: Node) -> None:
    old.prepare("al-1")
    log = old.place.target.log / "server.log"
    log.write_text("[2026-11-01 10:00:00.000 Server 17] Server moved to FAULT state\n")
    assert isinstance(old.mechanism.prepare(describe_share("al-2"), old.state), PreparedAllocation)


def test_a_limit_that_the_daemon_does_not_take_is_refused(
    old: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real one answers a value out of range with the one that holds, and no error."""
    answer = old.mechanism.prepare(describe_share(), old.state)
    assert isinstance(answer, NotYet)
    old.agent.start_helper(answer.helpers[0])
    daemon = FakeDaemon(str(old.place.target.pipe))
    monkeypatch.setattr(daemon, "_set_default_percentage", lambda _: "95.0")
    monkeypatch.setattr(old.control, "read_daemon", lambda _: daemon)
    monkeypatch.setattr(old.control, "write_daemon", lambda *_: None)
    with pytest.raises(RequestRejection, match=r"answered '100\.0'"):
        old.mechanism.prepare(describe_share(), old.state)


def test_another_owner_is_refused_and_nothing_changes(node: Node) -> None:
    node.prepare()
    before = sorted(node.state.rglob("*"))
    with pytest.raises(RequestRejection, match="an MPS daemon of another"):
        node.mechanism.prepare(describe_share("al-2", tenant="blue"), node.state)
    assert sorted(node.state.rglob("*")) == before


def test_the_49th_client_is_refused(node: Node) -> None:
    node.prepare("al-1")
    daemon = node.read_daemon()
    servers = daemon.servers or daemon.named
    next(iter(servers.values())).clients = list(range(1000, 1048))
    node.control.write_daemon(node.place.target, daemon)
    with pytest.raises(RequestRejection, match="48 clients are on its MPS server, 48 is the most"):
        node.mechanism.prepare(describe_share("al-2"), node.state)


def test_48_jobs_share_one_daemon(folder: Path) -> None:
    mechanism = build_automatic(folder / "host", 3)
    for number in range(48):
        view = describe_share(f"al-{number}", 20, GIB)
        assert isinstance(mechanism.prepare(view, folder / "state"), PreparedAllocation)
    with pytest.raises(RequestRejection, match="48 clients"):
        mechanism.prepare(describe_share("al-48", 20, GIB), folder / "state")
    for number in range(48):
        mechanism.unprepare(f"al-{number}", 5, folder / "state")
    assert not (folder / "state" / "mps").exists()


def test_a_card_that_takes_no_mode_is_no_host_for_mps(node: Node) -> None:
    node.modes.stubborn.add(CARD.uuid)
    with pytest.raises(ServiceUnavailable, match="did not take compute mode"):
        node.mechanism.prepare(describe_share(), node.state)
    node.mechanism.unprepare("al-1", 5, node.state)
    assert not (node.state / "mps").exists()


def test_a_card_that_does_not_go_back_stays_on_record(node: Node) -> None:
    node.prepare()
    node.modes.stubborn.add(CARD.uuid)
    with pytest.raises(ServiceUnavailable):
        node.mechanism.unprepare("al-1", 5, node.state)
    assert "al-1" in node.mechanism.observe(node.state)
    node.modes.stubborn.clear()
    node.mechanism.unprepare("al-1", 5, node.state)
    assert node.read_mode() is ComputeMode.DEFAULT
    assert not (node.state / "mps").exists()


def test_a_resize_sets_other_limits_on_the_server(node: Node) -> None:
    node.prepare(milli=300)
    node.mechanism.resize(replace(describe_share(milli=600), generation=6), node.state)
    daemon = node.read_daemon()
    if daemon.servers:
        (server,) = daemon.servers.values()
        assert server.percentage == 60.0
    else:
        assert daemon.namespaces[name_namespace("al-1")].percentage == "60"
    share = json.loads((node.state / "prepared/al-1/share/share.json").read_text())
    assert share["devices"][0]["gpu_milli"] == 600
    assert node.mechanism.observe(node.state)["al-1"].generation == 6


def test_a_resize_of_what_is_not_prepared_is_refused(node: Node) -> None:
    with pytest.raises(NotFound):
        node.mechanism.resize(describe_share(), node.state)


def test_a_path_that_is_too_long_for_a_socket_is_refused(node: Node, tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 80)
    with pytest.raises(RequestRejection, match="108 is the most"):
        node.mechanism.prepare(describe_share(), deep)
    assert not deep.exists()


def test_a_record_of_an_allocation_that_is_gone_is_closed(node: Node) -> None:
    """As after a damaged note, which the agent removes by itself."""
    node.prepare()
    (node.state / "prepared/al-1/note.json").write_text("{")
    for path in sorted((node.state / "prepared/al-1").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (node.state / "prepared/al-1").rmdir()
    node.mechanism.unprepare("al-unheard-of", 1, node.state)
    assert node.read_mode() is ComputeMode.DEFAULT
    assert node.find_processes() == ()
    assert not (node.state / "mps").exists()
