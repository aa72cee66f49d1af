"""Two servers on one PostgreSQL database, each in a network namespace of its own, and an agent
apart from both.

A server has one link to the database and one to its clients, so that it can be cut off from the
database alone. Needs root and ip(8). Nothing is left: `with two_servers(directory) as pair`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import sqlalchemy as sa

from gpupool.agent.cleanup import end_every_job
from gpupool.base.client_settings import ClientSettings
from gpupool.base.errors import GpupoolError
from gpupool.base.settings import PoolPaths
from gpupool.client.transport import Api
from gpupool.host.state.backup import copy_rows
from gpupool.store.database import sqlite_url
from tests.support.claims import claim_port, claimed
from tests.support.postgres import running_postgres, session_directory
from tests.support.processes import die_with_owner, stop_surely

SECONDS = 60.0
LOOK_SECONDS = 0.02
CLIENT_PORT = 8470
NETWORKS = range(100, 220)
"""Second numbers of the addresses 10.N.0.0 that two servers have for themselves."""
ROLE_SECONDS = 2.0
"""For one answer: on a machine where a server gets a thirtieth of a processor, shorter ones were
never answered."""
Found = TypeVar("Found")


def until(look: Callable[[], Found], what: str, seconds: float = SECONDS) -> Found:
    """The first true answer; fails when the time is over."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"{what} did not come true within {seconds:g} s"
        time.sleep(LOOK_SECONDS)
    return found


def impossible_here() -> str:
    """Why two servers in namespaces cannot be made here; empty: they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    done = subprocess.run(
        ["ip", "netns", "add", f"gp{os.getpid()}try"], capture_output=True, check=False
    )
    if done.returncode:
        return f"ip netns add: {done.stderr.decode().strip()}"
    _ip("netns", "delete", f"gp{os.getpid()}try")
    return ""


class Server:
    """One of the two: `python -m gpupool.host --standby`, started again like a supervised service.

    `network` is the second number of its addresses, claimed for these two.
    """

    def __init__(self, root: Path, number: int, database: str, port: int, network: int) -> None:
        self.number, self.state_dir = number, root / f"server-{number}"
        self.space = f"gp{network}s{number}"
        self._links = {"p": f"10.{network}.{number * 2}", "c": f"10.{network}.{number * 2 + 1}"}
        self.store = f"postgresql://gpupool@{self._links['p']}.1:{port}/{database}"
        self.address = f"http://{self._links['c']}.2:{CLIENT_PORT}"
        self.process: subprocess.Popen[bytes] | None = None

    def plug_in(self) -> None:
        self.unplug()  # a run that was killed left its own
        _ip("netns", "add", self.space)
        _ip("-n", self.space, "link", "set", "lo", "up")
        for kind, network in self._links.items():
            ours, theirs = self._link(kind), f"{kind}0"
            _ip("link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", self.space)
            _ip("address", "add", f"{network}.1/24", "dev", ours)
            _ip("link", "set", ours, "up")
            _ip("-n", self.space, "address", "add", f"{network}.2/24", "dev", theirs)
            _ip("-n", self.space, "link", "set", theirs, "up")

    def unplug(self) -> None:
        """Remove both links and the namespace; a process that is still in it would keep the links.
        Idempotent."""
        for kind in self._links:
            subprocess.run(
                ["ip", "link", "delete", self._link(kind)], capture_output=True, check=False
            )
        subprocess.run(["ip", "netns", "delete", self.space], capture_output=True, check=False)

    def _link(self, kind: str) -> str:
        return f"{self.space}{kind}"

    def cut(self) -> None:
        """No packet passes between this server and the database; its clients still reach it."""
        _ip("link", "set", self._link("p"), "down")

    def mend(self) -> None:
        _ip("link", "set", self._link("p"), "up")

    def start(self) -> None:
        """Start it; returns when it leads or stands by."""
        self.state_dir.mkdir(mode=0o700, exist_ok=True)
        listen = self.address.removeprefix("http://")
        read, write = os.pipe()
        words = [
            "--state-dir",
            str(self.state_dir),
            "--store",
            self.store,
            "--standby",
            "--ready-fd",
            str(write),
        ]
        words += ["--insecure-http"]
        with open(self.state_dir / "server.log", "ab") as log, os.fdopen(read, "rb") as said:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.space, sys.executable, "-m", "gpupool.host", *words, "--listen", listen],
                env=_environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[write], cwd="/",
                preexec_fn=die_with_owner(signal.SIGTERM),
            )  # fmt: skip
            os.close(write)
            answer = said.readline()
        assert json.loads(answer or b"{}").get("ready"), (
            f"server {self.number}: {answer!r}{self.log_tail()}"
        )

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait(SECONDS)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            stop_surely(self.process, (signal.SIGTERM,))

    def role(self) -> str:
        """What it says that it is; empty while it does not answer."""
        return str(self.health().get("role", ""))

    def health(self) -> dict[str, Any]:
        """What it says of itself; nothing while it does not answer."""
        try:
            with socket.create_connection(
                (self.address[7:].rpartition(":")[0], CLIENT_PORT), ROLE_SECONDS
            ) as made:
                made.settimeout(ROLE_SECONDS)
                made.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                answer = b"".join(iter(lambda: made.recv(65536), b""))
            found: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])
        except (OSError, ValueError):
            return {}
        return found

    def doctor(self) -> list[dict[str, Any]]:
        """What the command finds wrong at its own socket."""
        command = [
            sys.executable,
            "-c",
            "from gpupool.cli.main import entry; entry()",
            "doctor",
            "-o",
            "json",
        ]
        done = subprocess.run(
            [*command, "--state-dir", str(self.state_dir)],
            env=_environment(), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return [one for one in json.loads(done.stdout)["checks"] if one["state"] == "fail"]

    def api(self, token: str) -> Api:
        """Requests to this server alone."""
        return Api(ClientSettings(url=self.address, token=token))

    def cli(self, *words: str) -> str:
        """A command at its own socket, which must succeed; its stdout."""
        command = [sys.executable, "-c", "from gpupool.cli.main import entry; entry()"]
        done = subprocess.run(
            [*command, *words, "--state-dir", str(self.state_dir)],
            env=_environment(), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, (
            f"gpupool {' '.join(words)}: {done.stdout}{done.stderr}{self.log_tail()}"
        )
        return done.stdout

    def last_words(self, beginning: str) -> str:
        """What followed these words in the log when they were last written; waits until they are
        there."""
        log = self.state_dir / "server.log"
        return until(
            lambda: log.read_text(errors="replace").rpartition(beginning)[2].partition("\n")[0],
            beginning,
        )

    def log_tail(self) -> str:
        lines = (self.state_dir / "server.log").read_text(errors="replace").splitlines()
        return "\n".join(["", f"--- server {self.number}", *lines[-25:]])


class Pair:
    """The two servers, their database and their agent."""

    def __init__(self, root: Path, servers: tuple[Server, Server], database: str) -> None:
        self.root, self.servers, self.database_url = root, servers, database
        self.token = ""
        self._pool_id = ""
        self._agent: subprocess.Popen[bytes] | None = None

    @property
    def urls(self) -> str:
        return ",".join(server.address for server in self.servers)

    def api(self) -> Api:
        """What a client that is given both addresses uses."""
        return Api(ClientSettings(url=self.urls, token=self.token))

    def leader(self) -> Server:
        found = until(lambda: [one for one in self.servers if one.role() == "leader"], "a leader")
        return found[0]

    def other(self, server: Server) -> Server:
        return self.servers[1 - self.servers.index(server)]

    def begin(self, sim: str) -> None:
        """Start the first, make a token, start the standby and the agent."""
        first, second = self.servers
        first.start()
        first.cli("user", "set", "root", "--run-as", "nobody")
        self.token = first.cli("token", "create").strip()
        second.start()
        with self.api() as api:
            self._pool_id = api.request("GET", "pool")["id"]
        work = self.root / "agent"
        words = [
            "--work-dir",
            str(work),
            "--name",
            "sim-0",
            "--sim",
            sim,
            "--pool-id",
            self._pool_id,
        ]
        with open(self.root / "agent.log", "ab") as log:
            self._agent = subprocess.Popen(
                [sys.executable, "-m", "gpupool.agent", "--url", self.urls, *words],
                env=_environment(GPUPOOL_TOKEN=self.token), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                preexec_fn=die_with_owner(signal.SIGTERM),
            )  # fmt: skip
        until(self.nodes_ready, "the nodes' readiness")

    def nodes_ready(self) -> bool:
        with self.api() as api:
            nodes = api.request("GET", "nodes")["items"]
        return bool(nodes) and all(node["ready"] for node in nodes)

    def agent_pid(self) -> int:
        assert self._agent is not None
        assert self._agent.poll() is None, "the agent has ended"
        return self._agent.pid

    def end(self) -> None:
        for server in self.servers:
            server.end()
        if self._agent is not None:
            stop_surely(self._agent, (signal.SIGTERM,))
            end_every_job(PoolPaths(self.root / "agent"), self._pool_id)

    def rows(self, query: str) -> list[Any]:
        """From the database itself, past both servers."""
        with psycopg.connect(
            self.database_url.replace("postgresql+psycopg", "postgresql")
        ) as connection:
            return connection.execute(query.encode()).fetchall()

    @contextmanager
    def database(self) -> Iterator[sqlite3.Connection]:
        """The books at one instant, as an SQLite file: the invariants of tests.faults read that."""
        copy = self.root / f"books-{time.monotonic_ns()}.db"
        copy_rows(self.database_url, sqlite_url(copy), "copy")
        connection = sqlite3.connect(copy)
        connection.row_factory = sqlite3.Row
        try:
            yield connection
        finally:
            connection.close()
            for left in self.root.glob(f"{copy.name}*"):
                left.unlink()


@contextmanager
def two_servers(directory: Path, sim: str = "4xL40S") -> Iterator[Pair]:
    """A leader, a standby and an agent of simulated cards, ready for jobs."""
    port = claim_port()
    with ExitStack() as stack:
        network = stack.enter_context(claimed("network", NETWORKS))
        base = stack.enter_context(session_directory())
        url = stack.enter_context(running_postgres(base, tcp_port=port))
        database = str(sa.make_url(url).database)
        servers = (
            Server(directory, 1, database, port, network),
            Server(directory, 2, database, port, network),
        )
        for server in servers:
            stack.callback(server.unplug)
            server.plug_in()
        pair = Pair(directory, servers, url)
        stack.callback(pair.end)
        pair.begin(sim)
        yield pair


def refusal_of(ask: Callable[[], Any]) -> GpupoolError | None:
    """The error that a request was answered with, None where it was carried out."""
    try:
        ask()
    except GpupoolError as error:
        return error
    return None


def _environment(**more: str) -> dict[str, str]:
    return {
        key: value for key, value in os.environ.items() if not key.startswith("GPUPOOL_")
    } | more


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
