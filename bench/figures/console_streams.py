"""A server that 500 consoles watch: its processor time and memory, and how late events come."""

from __future__ import annotations

import http.client
import json
import os
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from bench.figures.idle import rss_mib
from bench.pool import Pool, gpupool, running_pool
from bench.rows import Row
from gpupool.base.client_settings import ClientSettings
from gpupool.client.transport import Api

NAME = "console-streams"
STREAMS = 500
#: Of one user, which may have 20.
SESSIONS = 20
SECONDS = 30.0
LOGINS_AT_ONCE = 8
#: Commits a second, each with an event that every stream gets.
RATE = 10
CORE_LIMIT = 1.0
RSS_LIMIT_MIB = 400.0
LATENESS_LIMIT_SECONDS = 0.5
COMMAND = (
    f"{STREAMS} sessions of {STREAMS // SESSIONS} users, each with GET /api/v1/watch as text/event-stream; "
    f"{RATE} commits a second for {SECONDS:.0f} s"
)


@dataclass
class Watchers:
    """Open streams of one thread, and what came through them."""

    events: int = 0
    closed: int = 0
    lateness_seconds: list[float] = field(default_factory=list)
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    _rests: dict[int, bytes] = field(default_factory=dict)

    def add(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._selector.register(connection, selectors.EVENT_READ)

    def read(self, seconds: float) -> bool:
        """Read what comes within that time; returns whether anything came."""
        ready = self._selector.select(seconds)
        for key, _ in ready:
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            data = connection.recv(1 << 16)
            if not data:
                self.closed += 1
                self._selector.unregister(connection)
                continue
            *frames, rest = (self._rests.get(key.fd, b"") + data).split(b"\n\n")
            self._rests[key.fd] = rest
            self._count(frames)
        return bool(ready)

    def _count(self, frames: list[bytes]) -> None:
        now_ns = time.time_ns()
        for frame in frames:
            _, found, text = frame.partition(b"event: message\ndata: ")
            event = json.loads(text) if found else {}
            if event.get("kind") == "token.created":
                self.events += 1
                self.lateness_seconds.append((now_ns - event["at_ns"]) / 1e9)


def run(out: Path) -> list[Row]:
    with _pool() as (pool, address):
        watchers = _open_streams(pool, address)
        while watchers.read(1.0):
            pass  # events of the other sessions' logins, which this process reads for seconds
        idle_mib = rss_mib(pool.pid)
        stop = threading.Event()
        commits = [0]
        # A thread of its own process's time: the server's is what is measured.
        writer = threading.Thread(target=_commit, args=(pool, stop, commits))
        began, before = time.monotonic(), _cpu_seconds(pool.pid)
        writer.start()
        while time.monotonic() - began < SECONDS:
            watchers.read(0.5)
        cores = (_cpu_seconds(pool.pid) - before) / (time.monotonic() - began)
        stop.set()
        writer.join()
        _read_rest(watchers, commits[0] * STREAMS)
        rss = rss_mib(pool.pid)
    late = sorted(watchers.lateness_seconds)
    note = f"{idle_mib:.0f} MiB before the commits"
    return [
        Row("console-streams: commits", "", commits[0], COMMAND, note="fewer on a busy machine"),
        Row("console-streams: cores busy", "", cores, COMMAND, limit=CORE_LIMIT),
        Row(
            "console-streams: resident memory", "MiB", rss, COMMAND, limit=RSS_LIMIT_MIB, note=note
        ),
        Row(
            "console-streams: events that did not come",
            "",
            commits[0] * STREAMS - watchers.events,
            COMMAND,
            limit=0,
        ),
        Row("console-streams: streams that ended", "", watchers.closed, COMMAND, limit=0),
        Row(
            "console-streams: commit to browser, 99 %",
            "s",
            late[int(len(late) * 0.99)] if late else SECONDS,
            COMMAND,
            limit=LATENESS_LIMIT_SECONDS,
        ),
    ]


@contextmanager
def _pool() -> Iterator[tuple[Pool, str]]:
    """A pool that listens on loopback too."""
    with running_pool("8xH200") as pool:
        gpupool(pool.env, "down")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        # Every stream comes from this one address.
        env = pool.env | {"GPUPOOL_CONNECTIONS_PER_CALLER": str(4 * STREAMS)}
        gpupool(env, "up", "-d", "--listen", f"127.0.0.1:{port}")
        pid = int(json.loads(gpupool(pool.env, "doctor", "-o", "json"))["server"]["pid"])
        yield Pool(pool.env, pid), f"http://127.0.0.1:{port}"


def _open_streams(pool: Pool, address: str) -> Watchers:
    watchers = Watchers()
    host = urlsplit(address).netloc
    with _api(pool) as api:
        tokens = []
        for number in range(STREAMS // SESSIONS):
            user = f"watcher-{number}"
            api.request("POST", "users", {"name": user, "role": "viewer"})
            tokens.append(api.request("POST", "tokens", {"user": user})["token"])
        after = api.request("GET", "pool")["last_event"]
    with ThreadPoolExecutor(LOGINS_AT_ONCE) as threads:
        opened = [
            threads.submit(_open_session, host, tokens[number % len(tokens)], after)
            for number in range(STREAMS)
        ]
        for stream in opened:
            watchers.add(stream.result())
    return watchers


def _api(pool: Pool) -> Api:
    return Api(ClientSettings(state_dir=pool.env["GPUPOOL_STATE_DIR"]))


def _open_session(host: str, token: str, after: int) -> socket.socket:
    return _open_stream(host, _log_in(host, token), after)


def _log_in(host: str, token: str) -> str:
    connection = http.client.HTTPConnection(host, timeout=60)
    headers = {"Origin": f"http://{host}", "X-Gpupool": "1", "Content-Type": "application/json"}
    connection.request("POST", "/login", json.dumps({"token": token}), headers)
    answer = connection.getresponse()
    assert answer.status == 204, answer.read()
    cookie = answer.headers["Set-Cookie"].partition(";")[0]
    connection.close()
    return cookie


def _open_stream(host: str, cookie: str, after: int) -> socket.socket:
    name, _, port = host.partition(":")
    connection = socket.create_connection((name, int(port)), timeout=60)
    head = (
        f"GET /api/v1/watch?after={after} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n"
        "Accept: text/event-stream\r\n\r\n"
    )
    connection.sendall(head.encode())
    found = b""
    while b"event: log" not in found:
        piece = connection.recv(4096)
        assert piece, found
        found += piece
    return connection


def _commit(pool: Pool, stop: threading.Event, commits: list[int]) -> None:
    began = time.monotonic()
    with _api(pool) as api:
        while not stop.wait(max(0.0, began + commits[0] / RATE - time.monotonic())):
            api.request("POST", "tokens", {"label": f"commit {commits[0]}"})
            commits[0] += 1


def _read_rest(watchers: Watchers, expected: int) -> None:
    deadline = time.monotonic() + 30
    while watchers.events < expected and time.monotonic() < deadline:
        watchers.read(0.5)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
