"""Describes the MPS daemon of a card and its owner, finds its processes, and ends them.

The daemon runs in the foreground under a supervisor of the agent's. It runs under the owner's
account, and its directories belong to that account with mode 0700: no other account reaches its
sockets. What the owner can write there is never believed: processes are found by the kernel's
record of their environment, not by a pid file.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpupool.base.files.trees import remove_tree
from gpupool.mechanisms.contract import HelperProcess
from gpupool.mechanisms.mps.control import ControlTarget

#: Of both programs, `nvidia-cuda-mps-control` and `nvidia-cuda-mps-server`; the kernel cuts names
#: after 15 bytes (proc(5)).
_COMMAND: Final = b"nvidia-cuda-mps"
_SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PIPE: Final = "CUDA_MPS_PIPE_DIRECTORY"
#: Options with which the control program stays as a daemon.
_RESIDENT: Final = frozenset((b"-d", b"-f", b"--daemon", b"--foreground"))
#: Longest path of a socket with its closing NUL (unix(7)).
SOCKET_PATH_BYTES: Final = 108
#: Seconds for the daemon and its server to end after `quit -t 1`, and again after SIGKILL.
END_SECONDS: Final = 5.0
#: Bytes of the server's log that are read, at its end.
_LOG_BYTES: Final = 64 * 1024


@dataclass(frozen=True)
class DaemonPlace:
    """The directories of one daemon, and the account that it runs as."""

    folder: Path
    uuid: str
    uid: int
    gid: int

    @property
    def target(self) -> ControlTarget:
        return ControlTarget(self.folder / "pipe", self.folder / "log", self.uid, self.gid)

    def explain_length(self, longest_socket: str) -> str:
        """Return why its sockets cannot exist; empty when they can.

        Args:
            longest_socket: the longest path of one, below the pipe directory.
        """
        length = len(os.fsencode(self.target.pipe / longest_socket)) + 1
        if length <= SOCKET_PATH_BYTES:
            return ""
        return (
            f"the path of its sockets has {length} bytes, {SOCKET_PATH_BYTES} is the most "
            f"({self.target.pipe})"
        )

    def make_directories(self) -> None:
        """Make the pipe and the log directory for the owner alone. Idempotent."""
        for directory in (self.target.pipe, self.target.log):
            directory.mkdir(mode=0o700, exist_ok=True)
            if os.geteuid() == 0:
                os.chown(directory, self.uid, self.gid, follow_symlinks=False)

    def remove_stale_sockets(self) -> None:
        """Remove the sockets of a daemon that was killed: no client shall wait on them."""
        for entry in self.target.pipe.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                remove_tree(entry)
            else:
                entry.unlink(missing_ok=True)

    def describe_helper(self, program: str, arguments: tuple[str, ...]) -> HelperProcess:
        """Return the daemon as a helper; several allocations share it by its name."""
        return HelperProcess(
            f"mps-{self.folder.name}",
            (program, *arguments),
            {
                **self.target.environment,
                # The card alone, and by its uuid: an index means another card once one is hidden.
                "CUDA_VISIBLE_DEVICES": self.uuid,
                # It finds `nvidia-cuda-mps-server` by PATH (seen with strace, 535.261.03).
                "PATH": f"{os.path.dirname(program)}:{_SYSTEM_PATH}",
            },
            uid=self.uid,
            gid=self.gid,
        )

    def find_server_problem(self, pid: int) -> str:
        """Return what the server's log says against it; empty where it says nothing."""
        for names in (("server.log",), ("gpupool", "server.log")):
            for line in _read_end(self.target.log, names).splitlines():
                text = line.lower()
                if f"server {pid}]" in text and any(word in text for word in ("fail", "fault")):
                    return line.partition("]")[2].strip() or line
        return ""


def _read_end(folder: Path, names: tuple[str, ...]) -> str:
    """Read the end of a file below the owner's directory, without following a link of the owner's.

    Returns:
        Nothing for a file that is missing, or is a link or a pipe.
    """
    try:
        descriptor = _open_below(folder, names)
    except OSError:
        return ""
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return ""
        file.seek(max(0, status.st_size - _LOG_BYTES))
        return file.read(_LOG_BYTES).decode(errors="replace")


def _open_below(folder: Path, names: tuple[str, ...]) -> int:
    # O_NONBLOCK: opening a pipe without a writer would block.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(folder, flags | os.O_DIRECTORY)
    for name in names:
        above = descriptor
        try:
            descriptor = os.open(name, flags, dir_fd=above)
        finally:
            os.close(above)
    return descriptor


class DaemonProcesses:
    """The MPS processes of this host."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    def find_processes(self, target: ControlTarget) -> tuple[int, ...]:
        """Return the daemon and the server of a pipe directory, of its owner's account."""
        found = []
        for pid, environment in self._iterate_processes():
            if environment.get(_PIPE) == str(target.pipe):
                found.append(pid)
        return tuple(found)

    def find_foreign(self, uuid: str, root: Path) -> tuple[int, ...]:
        """Return the daemons and servers that could serve a card and are not below `root`."""
        found = []
        for pid, environment in self._iterate_processes():
            pipe = environment.get(_PIPE, "")
            shown = environment.get("CUDA_VISIBLE_DEVICES")
            if Path(pipe).is_relative_to(root) or (shown is not None and uuid not in shown):
                continue
            if self._is_resident(pid):
                found.append(pid)
        return tuple(found)

    def end_processes(self, target: ControlTarget, *, is_asked: bool) -> tuple[int, ...]:
        """Kill the processes that do not end by themselves. Return those that remain.

        Args:
            is_asked: the daemon has accepted `quit`, so it is given time.
        """
        if is_asked:
            self._wait_for_end(target)
        for pid in self.find_processes(target):
            self._kill_process(pid, target)
        self._wait_for_end(target)
        return self.find_processes(target)

    def _wait_for_end(self, target: ControlTarget) -> None:
        deadline = time.monotonic() + END_SECONDS
        for pid in self.find_processes(target):
            _wait_for_process(pid, deadline)

    def _kill_process(self, pid: int, target: ControlTarget) -> None:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            # The number may have gone to another process before the descriptor was opened.
            if self._read_environment(pid).get(_PIPE) == str(target.pipe):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        except ProcessLookupError:
            return
        finally:
            os.close(descriptor)

    def _is_resident(self, pid: int) -> bool:
        """Whether a process is a daemon or a server, and not a client that asks one."""
        try:
            words = (self._proc / str(pid) / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            return False
        return b"server" in words[0] or not _RESIDENT.isdisjoint(words)

    def _iterate_processes(self) -> Iterator[tuple[int, Mapping[str, str]]]:
        for entry in self._proc.iterdir():
            environment = self._read_environment(int(entry.name)) if entry.name.isdigit() else {}
            if environment:
                yield int(entry.name), environment

    def _read_environment(self, pid: int) -> Mapping[str, str]:
        """Return the environment of an MPS process; empty for any other, and for a zombie."""
        entry = self._proc / str(pid)
        try:
            if (entry / "comm").read_bytes()[: len(_COMMAND)] != _COMMAND:
                return {}
            return _parse_environment((entry / "environ").read_bytes())
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return {}  # it ended, or is another user's and this pool is not root's


def _parse_environment(content: bytes) -> dict[str, str]:
    variables = {}
    for entry in filter(None, os.fsdecode(content).split("\0")):
        name, _, value = entry.partition("=")
        variables[name] = value
    return variables


def _wait_for_process(pid: int, deadline: float) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
    finally:
        os.close(descriptor)
