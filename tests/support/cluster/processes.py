"""The rig's processes. Each carries the directory and its own name in its environment, which is all
that is known of it: nothing is written down, so nothing can be missing there when the rig is killed
between a start and a note of it."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.cluster.directory import ClusterError, Directory
from tests.support.cluster.waiting import wait_until

MARK = "GPUPOOL_CLUSTER_DIRECTORY"
NAME = "GPUPOOL_CLUSTER_PROGRAM"
LOG_TAIL_BYTES = 3000
KILL_LIMIT_SECONDS = 20
START_LIMIT_SECONDS = 120


@dataclass(frozen=True)
class Program:
    """What to start under a name, and how to see that it is ready."""

    name: str
    command: Sequence[object]
    ready: Callable[[], bool]
    environment: Mapping[str, str] = field(default_factory=dict)


class Processes:
    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._children: dict[
            str, subprocess.Popen[bytes]
        ] = {}  # by name; to collect them when they have ended

    def run(self, program: Program) -> None:
        """Start it and wait until it is ready; idempotent."""
        self.start(program)
        self.await_ready(program)

    def start(self, program: Program) -> None:
        """Start it unless it runs. Under the directory's lock."""
        if self.pid(program.name) is None:
            self._spawn(program)

    def await_ready(self, program: Program) -> None:
        """Raises ClusterError with the end of its log when it ends before, or takes too long."""

        def is_ready() -> bool:
            if program.ready():
                return True
            if not self._lives(program.name):
                raise ClusterError(
                    f"{program.name} ended before it was ready:\n{self._log_tail(program.name)}"
                )
            return False

        late = f"{program.name} was not ready after {START_LIMIT_SECONDS} s"
        wait_until(
            is_ready, START_LIMIT_SECONDS, lambda: f"{late}:\n{self._log_tail(program.name)}"
        )

    def _lives(self, name: str) -> bool:
        """A child is asked itself: for a moment in its exec it lives and has no environment that
        could be read."""
        child = self._children.get(name)
        return self.pid(name) is not None if child is None else child.poll() is None

    def _spawn(self, program: Program) -> None:
        log_path = self.log(program.name)
        log_path.parent.mkdir(exist_ok=True)
        marks = {MARK: str(self._directory.path), NAME: program.name}
        with log_path.open("ab") as log:
            child = subprocess.Popen(
                [str(word) for word in program.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._directory.path,
                env={**os.environ, **program.environment, **marks},
                start_new_session=True,
                close_fds=False,  # ours close at exec and not before: a child holds the directory's lock until then
            )
        self._children[program.name] = child

    def running(self) -> dict[str, int]:
        """Name and pid of each program. Its children have its marks as well, but lead no
        session."""
        return {name: pid for pid, name in _marked(self._directory.path) if _leads_a_session(pid)}

    def pid(self, name: str) -> int | None:
        return self.running().get(name)

    def log(self, name: str) -> Path:
        return self._directory / "log" / f"{name}.log"

    def _log_tail(self, name: str) -> str:
        return self.log(name).read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")

    def kill(self, name: str) -> None:
        """End one program at once and leave its children, as a fault would; nothing happens where
        it does not run."""
        child = self._children.pop(name, None)
        if child is not None:
            child.kill()
            child.wait(KILL_LIMIT_SECONDS)
        self._kill_until_gone(lambda: {pid for pid in [self.pid(name)] if pid is not None})

    def kill_all(self) -> None:
        """End every process of this directory at once: nothing of theirs is kept, so there is
        nothing to save."""
        self._kill_until_gone(
            lambda: {pid for pid, _ in _marked(self._directory.path)} | self._own()
        )

    def _own(self) -> set[int]:
        return {child.pid for child in self._children.values() if child.poll() is None}

    def _kill_until_gone(self, find: Callable[[], set[int]]) -> None:
        def are_gone() -> bool:
            living = find()
            for pid in living:
                _kill(pid)
            self._children = {
                name: child for name, child in self._children.items() if child.poll() is None
            }
            return not living

        wait_until(
            are_gone,
            KILL_LIMIT_SECONDS,
            lambda: f"processes {sorted(find())} do not end; see /proc/PID/stack",
        )


def started(pid: int) -> int | None:
    """When a process was started, in clock ticks since boot; None when there is none, or only its
    zombie."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state == "Z" else int(rest[18])


def is_marked(directory: Path) -> bool:
    """Whether a process lives that was started for this directory, by whomever."""
    return any(_marked(directory))


def _marked(directory: Path) -> Iterator[tuple[int, str]]:
    mark, name = os.fsencode(f"{MARK}={directory}"), f"{NAME}=".encode()
    for entry in Path("/proc").iterdir():
        environment = _environment(entry) if entry.name.isdigit() else []
        if mark in environment:
            told = next(
                (os.fsdecode(word[len(name) :]) for word in environment if word.startswith(name)),
                "",
            )
            yield int(entry.name), told


def _environment(entry: Path) -> list[bytes]:
    """Empty for a zombie, and for the processes of others."""
    try:
        return (entry / "environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


def _leads_a_session(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
