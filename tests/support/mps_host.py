"""A host with NVIDIA cards for MPS: compute modes in files, and daemons that answer.

Everything is in files, so that a forked child that is killed leaves what a killed agent leaves.
"""

import os
import pickle
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpupool.base.errors import ServiceUnavailable
from gpupool.mechanisms.card_settings.compute_mode import ComputeMode
from gpupool.mechanisms.contract import (
    AllocationView,
    GrantedDevice,
    HelperProcess,
    JobSeat,
    NotYet,
    PreparedAllocation,
)
from gpupool.mechanisms.mps.control import ControlTarget
from gpupool.mechanisms.mps.daemon import DaemonProcesses
from gpupool.mechanisms.mps.mechanism import MpsMechanism
from gpupool.mechanisms.mps.replies import ControlReply, classify_reply
from gpupool.model.device import Device
from tests.support.mps_fake import NO_DAEMON, FakeDaemon

GIB = 1 << 30

#: Of this process alone: MPS processes of tests beside it would be foreign ones on the same card.
CARD = Device(
    f"GPU-8f6dbc4f-0000-0000-0000-{os.getpid():012}",
    0,
    "nvidia",
    "NVIDIA H200",
    "H200",
    141 * GIB,
    device_paths=("/dev/nvidia0",),
    compute_capability=(9, 0),
    driver_version="580.65.06",
    partitioned=False,
)


def describe_share(
    allocation: str = "al-1",
    milli: int = 300,
    memory_bytes: int = 8 * GIB,
    card: Device = CARD,
    **changes: object,
) -> AllocationView:
    """An allocation that MPS serves, of generation 5."""
    seat = JobSeat(uid=os.getuid(), gid=os.getgid())
    granted = (GrantedDevice(card, milli, memory_bytes),)
    view = AllocationView("pool", allocation, 5, "job-1", "team", "mps", granted, (card,), seat)
    return replace(view, **changes)  # type: ignore[arg-type]


class FakeModes:
    """Compute modes of a host's cards, one file each.

    Attributes:
        stubborn: cards that report success and change nothing.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.stubborn: set[str] = set()

    def read_mode(self, uuid: str) -> ComputeMode:
        try:
            return ComputeMode((self._root / f"mode-{uuid}").read_text())
        except FileNotFoundError:
            return ComputeMode.DEFAULT

    def write_mode(self, uuid: str, mode: ComputeMode) -> None:
        if uuid in self.stubborn:
            raise ServiceUnavailable(f"Card {uuid} did not take compute mode {mode}")
        (self._root / f"mode-{uuid}").write_text(mode)


class FakeControl:
    """Answers commands for the daemons that run.

    Args:
        automatic: a daemon runs as long as its pipe directory exists, without a process.
    """

    def __init__(
        self, root: Path, protocol: int = 2, *, automatic: bool = False, has_card: bool = True
    ) -> None:
        self._root = root
        self._protocol = protocol
        self._automatic = automatic
        self.has_card = has_card
        self.absence = ""

    def explain_absence(self) -> str:
        return self.absence

    def locate_program(self) -> str:
        return "/usr/bin/nvidia-cuda-mps-control"

    def has_namespaces(self) -> bool:
        return self._protocol == 3

    def send_line(self, target: ControlTarget, line: str) -> ControlReply:
        assert self._protocol == 2
        return self._ask(target, (line,), is_quit=line.startswith("quit"))

    def send_words(self, target: ControlTarget, words: Sequence[str]) -> ControlReply:
        assert self._protocol == 3
        return self._ask(target, words, is_quit=words[0] == "-q")

    def read_daemon(self, target: ControlTarget) -> FakeDaemon:
        """Return the state of the daemon that runs."""
        path = self._locate(target)
        assert path is not None, "no daemon runs"
        if not path.exists():
            return FakeDaemon(str(target.pipe), has_card=self.has_card)
        loaded: FakeDaemon = pickle.loads(path.read_bytes())
        return loaded

    def write_daemon(self, target: ControlTarget, daemon: FakeDaemon) -> None:
        """Change the state of the daemon that runs."""
        path = self._locate(target)
        assert path is not None
        path.write_bytes(pickle.dumps(daemon))

    def _locate(self, target: ControlTarget) -> Path | None:
        if self._automatic:
            name = target.pipe.parent.name
            return self._root / f"{name}.daemon" if target.pipe.is_dir() else None
        pids = DaemonProcesses().find_processes(target)
        return self._root / f"{pids[0]}.daemon" if pids else None

    def _ask(self, target: ControlTarget, words: Sequence[str], *, is_quit: bool) -> ControlReply:
        path = self._locate(target)
        if path is None:
            return classify_reply(NO_DAEMON)
        daemon = self.read_daemon(target)
        answer = daemon.answer_line if self._protocol == 2 else None
        text = answer(words[0]) if answer else daemon.answer_words(words)
        self.write_daemon(target, daemon)
        if is_quit:
            path.unlink()
            for pid in DaemonProcesses().find_processes(target):
                os.kill(pid, 15)
        return classify_reply(text)


class AutomaticProcesses(DaemonProcesses):
    """The processes of automatic daemons: one for each pipe directory."""

    def find_processes(self, target: ControlTarget) -> tuple[int, ...]:
        return (1,) if target.pipe.is_dir() else ()

    def end_processes(self, target: ControlTarget, *, is_asked: bool) -> tuple[int, ...]:
        return ()


def build_automatic(root: Path, protocol: int = 2) -> MpsMechanism:
    """MPS on a host on which every daemon starts by itself."""
    root.mkdir(exist_ok=True)
    return MpsMechanism(
        FakeModes(root), FakeControl(root, protocol, automatic=True), AutomaticProcesses()
    )


class HelperStarter:
    """Plays the agent: starts helpers as processes of their names, once each."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._program = folder / "nvidia-cuda-mps-control"
        self._program.symlink_to("/bin/sleep")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start_helper(self, helper: HelperProcess) -> None:
        running = self.processes.get(helper.name)
        if running is None or running.poll() is not None:
            command = [str(self._program), "3600"]
            self.processes[helper.name] = subprocess.Popen(command, env=dict(helper.environment))

    def prepare(
        self, mechanism: MpsMechanism, view: AllocationView, state_dir: Path
    ) -> PreparedAllocation:
        """Prepare, and start what the answer asks for, until it is prepared."""
        answer = mechanism.prepare(view, state_dir)
        for _ in range(3):
            if not isinstance(answer, NotYet):
                break
            for helper in answer.helpers:
                self.start_helper(helper)
            answer = mechanism.prepare(view, state_dir)
        assert isinstance(answer, PreparedAllocation), answer
        return answer

    def stop(self) -> None:
        """End what still runs."""
        for process in self.processes.values():
            process.kill()
            process.wait()
