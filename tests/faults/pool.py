"""A real pool that can be killed: its server and agent as processes, and everything they start on
this machine.

The server is the one that `gpupool up -d` starts; with `separate_agent` the agent is a process of
its own. Looks at the machine with its own eyes (/proc, cgroups, the database file), never through
what is under test.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from gpupool.base.client_settings import ClientSettings
from gpupool.base.errors import ServiceUnavailable
from gpupool.base.settings import PoolPaths
from gpupool.client.transport import Api
from tests.support.processes import die_with_owner

SECONDS = 60.0
GPUPOOL = str(Path(sys.executable).with_name("gpupool"))
Answer = TypeVar("Answer")


def until(look: Callable[[], Answer], what: str, seconds: float = SECONDS) -> Answer:
    """The first true answer; looks again and again, and fails when the time is over."""
    deadline = time.monotonic() + seconds
    while not (answer := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {seconds:g} s")
        time.sleep(0.02)
    return answer


def environment(**more: str) -> dict[str, str]:
    """This process's, without anything that would choose another pool."""
    return {
        key: value for key, value in os.environ.items() if not key.startswith("GPUPOOL_")
    } | more


@dataclass(frozen=True)
class Supervisor:
    """A process of the supervisor's program: one that starts a job, or the one that keeps it."""

    pid: int
    job: str


class FaultPool:
    """One state directory and whatever serves it now. `sim` names one simulated machine, or
    several; `options` are more words for `gpupool up`.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        sim: str = "2x4xL40S",
        separate_agent: bool = False,
        options: Sequence[str] = (),
    ) -> None:
        self.paths, self.sim, self.separate_agent = PoolPaths(state_dir), sim, separate_agent
        self._options = tuple(options)
        self.settings = ClientSettings(state_dir=str(state_dir))
        self._agent: subprocess.Popen[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None

    # Life ----------------------------------------------------------------------------------------------

    def up(self, **faults: str) -> None:
        """Start what does not run; returns when the pool answers and knows what became of its
        jobs."""
        if not self.server_pid():
            self._up_server(faults)
        if self.separate_agent:
            self._up_agent()
            until(self.nodes_ready, "the nodes' readiness")

    def _up_server(self, faults: Mapping[str, str]) -> None:
        if self.separate_agent:
            self._up_without_agent(faults)
            return
        done = subprocess.run(
            [GPUPOOL, "up", "-d", "--state-dir", str(self.paths.root), "--sim", self.sim, *self._options],
            env=environment(**faults), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, (
            f"gpupool up -d: {done.returncode}: {done.stderr}{self.log_tail()}"
        )

    def _up_without_agent(self, faults: Mapping[str, str]) -> None:
        read, write = os.pipe()
        self.paths.root.mkdir(mode=0o711, exist_ok=True)
        command = [
            sys.executable,
            "-m",
            "gpupool.host",
            "--state-dir",
            str(self.paths.root),
            "--sim",
            self.sim,
        ]
        with open(self.paths.server_log, "ab") as log, os.fdopen(read, "rb") as said:
            self._server = subprocess.Popen(
                [*command, "--no-agent", "--ready-fd", str(write)],
                env=environment(**faults), stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[write],
                cwd="/", preexec_fn=die_with_owner(signal.SIGTERM),
            )  # fmt: skip
            os.close(write)
            answer = said.readline()
        assert json.loads(answer or b"{}").get("ready"), f"the server: {answer!r}{self.log_tail()}"

    def _up_agent(self) -> None:
        if self._agent is not None and self._agent.poll() is None:
            return
        pool_id = json.loads(self.paths.marker.read_text())["pool_id"]
        command = [
            sys.executable,
            "-m",
            "gpupool.agent",
            "--state-dir",
            str(self.paths.root),
            "--name",
            "sim-0",
        ]
        with open(self.paths.server_log, "ab") as log:
            self._agent = subprocess.Popen(
                [*command, "--sim", self.sim, "--pool-id", pool_id],
                env=environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd="/", preexec_fn=die_with_owner(signal.SIGTERM),
            )  # fmt: skip

    def down(self) -> None:
        """Everything away: jobs, server, agent, state. What is left afterwards is an error."""
        self.end_agent()
        done = self.cli("down", "--purge", "--yes", "--grace", "0s")
        self._reap_server()
        assert done.returncode == 0, f"gpupool down: {done.returncode}: {done.stdout}{done.stderr}"

    def end_agent(self) -> None:
        if self._agent is not None:
            self._agent.kill()
            self._agent.wait(SECONDS)
            self._agent = None

    def _reap_server(self) -> None:
        if self._server is not None:
            self._server.wait(SECONDS)
            self._server = None

    def destroy(self) -> None:
        """For a `finally`: end every process of this pool, whatever state it is in."""
        self.end_agent()
        self.kill_server()
        for supervisor in self.supervisors():
            kill(supervisor.pid)
        for pid in self.job_processes():
            kill(pid)
        if self.paths.marker.exists():
            until(lambda: not self.job_processes(), "the death of every job")
            self._remove_cgroups()

    def _remove_cgroups(self) -> None:
        for group in [*self.cgroups(), *self.pool_cgroups()]:
            until(partial(_removed, group), f"{group} being empty")

    def __enter__(self) -> FaultPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()

    # Killing -------------------------------------------------------------------------------------------

    def server_pid(self) -> int | None:
        """Whoever holds the state directory's lock."""
        try:
            fd = os.open(self.paths.lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.read(fd, 32).strip()
            return int(text) if text else None
        finally:
            os.close(fd)
        return None

    def kill_server(self) -> bool:
        pid = self.server_pid()
        if pid is None:
            return False
        kill(pid)
        until(lambda: self.server_pid() is None, "the server's death")
        self._reap_server()
        return True

    def await_server_exit(self) -> int:
        """How a server that is our own child ended."""
        assert self._server is not None
        return self._server.wait(SECONDS)

    def kill_agent(self) -> bool:
        if self._agent is None or self._agent.poll() is not None:
            return False
        self.end_agent()
        return True

    def agent_pid(self) -> int | None:
        """Of whoever starts jobs: the agent apart, or the server with its own."""
        if not self.separate_agent:
            return self.server_pid()
        return self._agent.pid if self._agent is not None and self._agent.poll() is None else None

    def agent_runs(self) -> bool:
        """Whether the agent apart runs; one inside the server has no word of its own."""
        return not self.separate_agent or (self._agent is not None and self._agent.poll() is None)

    # Looking -------------------------------------------------------------------------------------------

    def api(self) -> Api:
        return Api(self.settings)

    def cli(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [GPUPOOL, words[0], "--state-dir", str(self.paths.root), *words[1:]]
        return subprocess.run(
            command,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def nodes_ready(self) -> bool:
        try:
            with self.api() as api:
                nodes = api.request("GET", "nodes")["items"]
        except ServiceUnavailable:
            return False
        return bool(nodes) and all(node["ready"] for node in nodes)

    @contextlib.contextmanager
    def database(self) -> Iterator[sqlite3.Connection]:
        """The database at one instant, without asking the server."""
        connection = sqlite3.connect(f"file:{self.paths.database}?mode=ro", uri=True, timeout=30)
        connection.row_factory = sqlite3.Row
        try:
            connection.execute("BEGIN")
            yield connection
        finally:
            connection.close()

    def rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        with self.database() as connection:
            return connection.execute(query, values).fetchall()

    def supervisors(self) -> list[Supervisor]:
        """Every process of the supervisor's program that works below this state directory."""
        jobs = os.fsencode(self.paths.jobs) + b"/"
        found = []
        for pid in processes():
            words = _read(f"/proc/{pid}/cmdline").split(b"\0")
            if words[0].endswith(b"gpupool-shim") and len(words) > 1 and words[1].startswith(jobs):
                found.append(Supervisor(pid, words[1].removeprefix(jobs).decode()))
        return found

    def job_processes(self) -> dict[int, str]:
        """Job ids of every process that was started by a job of this pool, by its environment."""
        mine = f"FAULT_POOL={self.paths.root}".encode()
        found = {}
        for pid in processes():
            words = _read(f"/proc/{pid}/environ").split(b"\0")
            if mine in words:
                found[pid] = next(
                    (w[12:].decode() for w in words if w.startswith(b"GPUPOOL_JOB=")), ""
                )
        return found

    def command_pid(self, job: str) -> int | None:
        """The command of a running job, as its supervisor noted it; None when it is not there any
        more."""
        for line in _read(str(self.paths.jobs / job / "started")).splitlines():
            if line.startswith(b"pid="):
                pid = int(line[4:])
                return (
                    pid
                    if f"GPUPOOL_JOB={job}".encode() in _read(f"/proc/{pid}/environ").split(b"\0")
                    else None
                )
        return None

    def cgroups(self) -> list[Path]:
        """Cgroups of single jobs of this pool, in every hierarchy."""
        return [job for group in self.pool_cgroups() for job in group.iterdir() if job.is_dir()]

    def pool_cgroups(self) -> list[Path]:
        """The pool's own, one in each hierarchy; none of a pool whose marker is gone."""
        pool_id = json.loads(self.paths.marker.read_text())["pool_id"]
        return [
            Path(folder) / name
            for folder, names, _files in os.walk("/sys/fs/cgroup")
            for name in names
            if name.startswith(f"gpupool-{pool_id}")
        ]

    def log_tail(self) -> str:
        text = _read(str(self.paths.server_log)).decode(errors="replace")
        lines = [
            line
            for line in text.splitlines()
            if "no pool is running" not in line and "gpupool up" not in line
        ]
        return f"\n--- {self.paths.server_log}\n" + "\n".join(lines[-20:])


def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def kill(pid: int) -> bool:
    """SIGKILL; False when it was gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _removed(group: Path) -> bool:
    """A v1 group is busy for a moment after the death of its last process."""
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def answer_of(api: Api, method: str, path: str, body: Any = None, **options: Any) -> Any:
    """The pool's answer, asked for again for as long as the pool is away. Only for what may be
    repeated."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return api.request(method, path, body, **options)
        except ServiceUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
