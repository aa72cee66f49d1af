"""Start `python -m gpupool.host` as a child: commands never import the server or the agent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import IO, Any, Final

from gpupool.base.errors import GpupoolError, InternalError, from_code
from gpupool.base.room import state_error

#: Of prctl(2).
_PR_SET_PDEATHSIG: Final = 1


def make_host_command(state_dir: str, *words: str) -> list[str]:
    """Make the command line of the host."""
    return [sys.executable, "-m", "gpupool.host", "--state-dir", state_dir, *words]


def _make_follower() -> Callable[[], None]:
    """Make what has a new process get SIGTERM when its parent dies.

    execve(2) keeps it, children do not inherit it.
    """
    import ctypes  # most commands start no server

    prctl = ctypes.CDLL(None).prctl  # loaded before the fork

    def follow_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

    return follow_parent


class HostStart:
    """A pool that is starting; `await_ready()` blocks until it answers and knows of its jobs."""

    def __init__(
        self,
        state_dir: str,
        words: Sequence[str],
        *,
        log: IO[bytes] | None,
        ends_with_us: bool = False,
    ) -> None:
        """Start the server.

        Args:
            state_dir: Of the pool.
            words: Options of the host.
            log: Where its output goes; None is ours.
            ends_with_us: Whether it stops when this process dies, even by SIGKILL.
        """
        # The child says on this pipe that it is ready; if it dies first, the pipe ends.
        read, write = os.pipe()
        try:
            # A session of its own: Ctrl-C on the terminal is ours to translate, not the server's to
            # die of.
            self.process = subprocess.Popen(
                [*make_host_command(state_dir, *words), "--ready-fd", str(write)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[write],
                start_new_session=True,
                # A server that holds the caller's directory would keep it from being unmounted.
                cwd="/",
                preexec_fn=_make_follower() if ends_with_us else None,
            )
        finally:
            os.close(write)
        self._read = read
        self.is_ready = False
        self.log = log
        self.state_dir = state_dir

    def await_ready(self) -> dict[str, Any]:
        """Block until the pool is ready; return what it says of itself.

        Raises:
            GpupoolError: The error that the host answered.
            InternalError: It died without a word.
        """
        with os.fdopen(self._read, "rb") as said:
            line = said.readline()
        answer = _parse_answer(line)
        if answer.get("ready"):
            self.is_ready = True
            return answer
        self.process.wait()
        if "error" in answer:
            raise _make_error(answer["error"])
        raise InternalError(
            f"the pool ended while starting (exit status {self.process.returncode})",
            hint=self._where_to_look(),
        )

    def _where_to_look(self) -> str:
        return (
            f"see {self.state_dir}/server.log" if self.log is not None else "see what it said above"
        )


def open_log(state_dir: str) -> Any:
    """Open `server.log` of the state directory, which is made as the server would make it.

    Raises:
        StateUnusable: It cannot be made.
        DiskFull: There is no room.
    """
    try:
        # 0711: users of a system pool reach its socket by name and cannot list the directory.
        os.makedirs(state_dir, mode=0o711 if os.getuid() == 0 else 0o700, exist_ok=True)
        descriptor = os.open(
            os.path.join(state_dir, "server.log"),
            # O_APPEND: the server and its jobs' supervisors write to the same file.
            os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW,
            0o600,
        )
    except OSError as error:
        raise state_error(state_dir, error) from None
    return os.fdopen(descriptor, "ab", closefd=True)


def is_kept(pid: int, proc: str = "/proc") -> bool:
    """Return whether the server's parent is a `gpupool up` that waits for it."""
    try:
        with open(f"{proc}/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The second field after the name, which may hold brackets itself; proc(5).
            parent = file.read().rpartition(")")[2].split()[1]
        with open(f"{proc}/{parent}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return False
    return b"up" in words and any(b"gpupool" in word for word in words[: words.index(b"up")])


def _parse_answer(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _make_error(said: dict[str, Any]) -> GpupoolError:
    return from_code(
        str(said.get("code", "GP-5900")), str(said.get("message", "")), str(said.get("hint", ""))
    )


def read_facts(state_dir: str) -> dict[str, Any]:
    """Return what this machine has, as the host finds it. Raises InternalError."""
    done = subprocess.run(
        make_host_command(state_dir, "--facts"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        # A driver that hangs hangs in the kernel; a minute is more than any probe takes.
        timeout=60,
        check=False,
    )
    found = _parse_answer(done.stdout)
    if done.returncode or not found:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise InternalError(
            f"looking at this machine failed: {said[-1] if said else done.returncode}"
        )
    return found


def ask_host(state_dir: str, *words: str) -> int:
    """Have the host do one thing and say itself how it went; return its exit code."""
    # The host writes to the same stdout: what stands in our buffer comes first.
    sys.stdout.flush()
    return subprocess.run(
        make_host_command(state_dir, *words), stdin=subprocess.DEVNULL, check=False
    ).returncode


def end_networks(state_dir: str) -> int:
    """End the engine of networks of a stopped pool, if it has one; return the exit code."""
    if not os.path.isdir(os.path.join(state_dir, "agent", "network")):
        return 0
    return ask_host(state_dir, "--end-networks")


def purge_pool(state_dir: str) -> int:
    """End what is left of the pool's jobs and remove everything of it; return the exit code.

    The host says itself, a line each, what was removed (stdout) or why not (stderr).
    """
    return ask_host(state_dir, "--purge")
