"""The server on real sockets: who the kernel says calls, what an idle one costs, how it stops."""

import asyncio
import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import HTTPConnection

from gpupool.base.errors import PoolAlreadyRunning, PortTaken, StateUnusable
from gpupool.server.http import protocol, refusal, serving, tls
from gpupool.server.http.connections import ConnectionLimits, OpenConnections
from gpupool.server.http.listeners import BoundSocket, Listener, TcpListener, UnixListener
from gpupool.server.http.serving import serve_listeners
from gpupool.tenancy.access import scope_peer
from gpupool.tenancy.turns import wait_idle
from tests.support.supervised import until

ROOT = Path(__file__).parents[4]


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with what it knows of the caller; `/wait` and `/idle` never do, `/stream` goes on for
    ever."""
    if scope["path"] == "/wait":
        await asyncio.Event().wait()
    if scope["path"] == "/idle":
        async with wait_idle(HTTPConnection({**scope})):
            await asyncio.Event().wait()
    if scope["path"] == "/slow":
        await asyncio.sleep(0.3)
    peer = scope_peer(scope)
    body = json.dumps(
        {"peer": None if peer is None else vars(peer), "scheme": scope["scheme"]}
    ).encode()
    if scope["path"] == "/stream":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await asyncio.Event().wait()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Running:
    """A server in a thread."""

    def __init__(
        self,
        listeners: Sequence[Listener],
        app: Any = echo,
        connections: OpenConnections | None = None,
    ) -> None:
        self._connections = connections
        self.bound: list[BoundSocket] = []
        self._listeners, self._app, self._up = listeners, app, threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        self._up.wait(30)
        if self._error is not None:
            self._thread.join()
            raise self._error

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()

        def ready(bound: Sequence[BoundSocket]) -> None:
            self.bound += bound
            self._up.set()

        try:
            await serve_listeners(
                self._app,
                self._listeners,
                stop=self._stop,
                on_ready=ready,
                connections=self._connections,
            )
        except BaseException as error:  # noqa: BLE001  raised again in the test's own thread
            self._error = error
            self._up.set()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error


@contextmanager
def running(
    *listeners: Listener, app: Any = echo, connections: OpenConnections | None = None
) -> Iterator[Running]:
    server = Running(listeners, app, connections)
    try:
        yield server
    finally:
        if server._thread.is_alive():
            server.stop()


def connect(path: Path) -> socket.socket:
    """A connection to a Unix socket whose path may be longer than the kernel takes."""
    fd = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(20)
    try:
        sock.connect(f"/proc/self/fd/{fd}/{path.name}")
    finally:
        os.close(fd)
    return sock


def ask(path: Path, target: str = "/") -> tuple[http.client.HTTPResponse, dict[str, Any]]:
    connection = http.client.HTTPConnection("pool")
    connection.sock = connect(path)
    connection.request("GET", target)
    response = connection.getresponse()
    return response, json.loads(response.read())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gpupool.sock"


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that other accounts may enter; pytest closes its own to them, also while a test
    runs."""
    with tempfile.TemporaryDirectory(prefix="gp-test-") as name:
        os.chmod(name, 0o711)
        yield Path(name)


def test_the_caller_is_known_by_the_kernel(path: Path) -> None:
    with running(UnixListener(path)):
        peer = ask(path)[1]["peer"]
    assert (peer["pid"], peer["uid"], peer["gid"]) == (os.getpid(), os.getuid(), os.getgid())
    assert sorted(peer["groups"]) == sorted(os.getgroups())


@pytest.mark.root
@pytest.mark.parametrize("count", [0, 3, 1000])
def test_another_unix_user_is_known_with_all_its_groups(open_directory: Path, count: int) -> None:
    path = open_directory / "gpupool.sock"
    groups = list(range(5000, 5000 + count))
    script = f"""
    import os, socket
    os.setgroups({groups}); os.setgid(4002); os.setuid(4001)
    s = socket.socket(socket.AF_UNIX); s.connect({str(path)!r})
    s.sendall(b"GET / HTTP/1.1\\r\\nHost: pool\\r\\nConnection: close\\r\\n\\r\\n")
    print(b"".join(iter(lambda: s.recv(65536), b"")).split(b"\\r\\n\\r\\n")[1].decode())
    """
    with running(UnixListener(path, 0o666)):
        command = [sys.executable, "-c", textwrap.dedent(script)]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
    peer = json.loads(said.stdout)["peer"]
    assert (peer["uid"], peer["gid"], sorted(peer["groups"])) == (4001, 4002, groups)


def test_a_path_of_any_length_can_be_listened_on(tmp_path: Path) -> None:
    long = tmp_path.joinpath(*["d" * 100] * 4) / "gpupool.sock"
    long.parent.mkdir(parents=True)
    with running(UnixListener(long)) as server:
        assert ask(long)[0].status == 200
        assert server.bound[0].address == str(long)
    assert not long.exists()


@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_the_socket_has_the_rights_that_were_asked_for_whatever_the_umask(
    path: Path, mode: int
) -> None:
    umask = os.umask(0o027)
    try:
        with running(UnixListener(path, mode)):
            assert path.stat().st_mode & 0o777 == mode
            assert [one.name for one in path.parent.iterdir()] == [path.name]
    finally:
        os.umask(umask)


def test_the_socket_of_a_dead_server_is_replaced(path: Path) -> None:
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(path))
    dead.close()
    with running(UnixListener(path)):
        assert ask(path)[0].status == 200


def test_the_socket_of_a_living_server_is_left_alone(path: Path) -> None:
    with running(UnixListener(path)):
        inode = path.stat().st_ino
        with pytest.raises(PoolAlreadyRunning):
            Running([UnixListener(path)])
        assert path.stat().st_ino == inode
        assert ask(path)[0].status == 200


def test_a_living_server_that_is_too_busy_to_accept_is_alive(path: Path) -> None:
    busy = socket.socket(socket.AF_UNIX)
    busy.bind(str(path))
    busy.listen(0)
    waiting = [socket.socket(socket.AF_UNIX) for _ in range(3)]
    for one in waiting:
        one.setblocking(False)
        one.connect_ex(str(path))
    with pytest.raises(PoolAlreadyRunning):
        Running([UnixListener(path)])
    for one in (busy, *waiting):
        one.close()


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_something_else_in_the_sockets_place_is_left_alone(path: Path, kind: str) -> None:
    make = {
        "file": path.touch,
        "directory": path.mkdir,
        "link": lambda: path.symlink_to("/etc/passwd"),
    }
    make[kind]()
    before = path.lstat()
    with pytest.raises(StateUnusable, match="is no socket"):
        Running([UnixListener(path)])
    assert path.lstat().st_ino == before.st_ino


def test_a_directory_that_is_not_there_is_unusable(tmp_path: Path) -> None:
    with pytest.raises(StateUnusable, match="No such file"):
        Running([UnixListener(tmp_path / "nowhere" / "gpupool.sock")])


def test_a_socket_that_somebody_else_put_in_its_place_is_not_removed(path: Path) -> None:
    with running(UnixListener(path)):
        path.unlink()
        other = socket.socket(socket.AF_UNIX)
        other.bind(str(path))
    assert path.exists()
    other.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_over_tcp_nobody_is_known_by_the_kernel(host: str) -> None:
    with running(TcpListener(host, 0)) as server:
        address = server.bound[0].socket.getsockname()
        connection = http.client.HTTPConnection(address[0], address[1])
        connection.request("GET", "/")
        assert json.loads(connection.getresponse().read()) == {"peer": None, "scheme": "http"}
        assert server.bound[0].address == (
            f"http://[::1]:{address[1]}" if ":" in host else f"http://{host}:{address[1]}"
        )


def test_a_port_that_is_taken_is_said_and_nothing_is_left_listening(path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {port} on 127.0.0.1 is taken"):
            Running([UnixListener(path), TcpListener("127.0.0.1", port)])
    assert not path.exists()


def test_tls_is_spoken_where_a_certificate_is_given(certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    with running(TcpListener("127.0.0.1", 0, cert, key)) as server:
        port = server.bound[0].socket.getsockname()[1]
        context = ssl.create_default_context(cafile=str(cert))
        connection = http.client.HTTPSConnection("localhost", port, context=context)
        connection.request("GET", "/")
        assert json.loads(connection.getresponse().read()) == {"peer": None, "scheme": "https"}
        assert server.bound[0].address.startswith("https://127.0.0.1:")


def connected(port: int, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(source, 0))


def test_handshakes_that_never_begin_are_bounded_by_address(
    certificate: tuple[Path, Path], path: Path
) -> None:
    """Sockets that stay silent: one address has its part, another address and the Unix socket are
    served."""
    connections = OpenConnections(ConnectionLimits(handshakes=3))
    with running(
        TcpListener("127.0.0.1", 0, *certificate), UnixListener(path), connections=connections
    ) as server:
        port = server.bound[0].socket.getsockname()[1]
        silent = [connected(port) for _ in range(3)]
        until(lambda: connections.shaking == 3, "three handshakes")
        with connected(port) as fourth:
            assert fourth.recv(1) == b""
        context = ssl.create_default_context(cafile=str(certificate[0]))
        with context.wrap_socket(
            connected(port, "127.0.0.2"), server_hostname="localhost"
        ) as other:
            other.sendall(b"GET / HTTP/1.1\r\nHost: pool\r\n\r\n")
            assert other.recv(15).startswith(b"HTTP/1.1 200")
            assert connections.shaking == 3
        assert ask(path, "/")[0].status == 200
        assert "3 in a TLS handshake" in connections.check().text
        for one in silent:
            one.close()
        until(lambda: connections.shaking == 0, "the end of the handshakes")
        with context.wrap_socket(connected(port), server_hostname="localhost") as again:
            again.sendall(b"GET / HTTP/1.1\r\nHost: pool\r\n\r\n")
            assert again.recv(15).startswith(b"HTTP/1.1 200")


def test_a_handshake_that_is_never_finished_is_given_up(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "HANDSHAKE_SECONDS", 0.2)
    connections = OpenConnections()
    with running(TcpListener("127.0.0.1", 0, *certificate), connections=connections) as server:
        port = server.bound[0].socket.getsockname()[1]
        with connected(port) as silent, connected(port) as half:
            half.sendall(b"\x16\x03\x01\x02\x00\x01")
            assert (silent.recv(1), half.recv(1)) == (b"", b"")
        until(lambda: connections.shaking == 0, "the end of the handshakes")


def test_a_server_stops_while_handshakes_are_under_way(certificate: tuple[Path, Path]) -> None:
    connections = OpenConnections()
    with running(TcpListener("127.0.0.1", 0, *certificate), connections=connections) as server:
        silent = connected(server.bound[0].socket.getsockname()[1])
        until(lambda: connections.shaking == 1, "the handshake")
    assert silent.recv(1) == b""
    silent.close()


def test_one_connection_serves_many_requests_and_says_nothing_needless(path: Path) -> None:
    with running(UnixListener(path)):
        connection = http.client.HTTPConnection("pool")
        connection.sock = connect(path)
        for _ in range(3):
            connection.request("GET", "/")
            response = connection.getresponse()
            response.read()
            assert {name.lower() for name, _ in response.getheaders()} == {"content-length"}


def test_a_head_without_end_is_cut_off(path: Path) -> None:
    with running(UnixListener(path)), connect(path) as caller:
        caller.sendall(b"GET / HTTP/1.1\r\n")
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            _send_for_ever(caller, b"X-More: " + b"x" * 1000 + b"\r\n")


def _send_for_ever(caller: socket.socket, piece: bytes) -> None:
    for _ in range(100_000):
        caller.sendall(piece)


def test_a_caller_that_never_finishes_its_head_is_let_go(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    with running(UnixListener(path)), connect(path) as silent, connect(path) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nX-Slow: ")
        assert (silent.recv(1), slow.recv(1)) == (b"", b"")


def test_a_stop_waits_two_seconds_at_most_for_others() -> None:
    assert serving.GRACE_SECONDS + serving.CANCEL_SECONDS <= 2


def test_a_stop_lets_a_short_answer_finish_and_then_waits_no_longer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "GRACE_SECONDS", 3600)
    with running(UnixListener(path)) as server:
        found: list[int] = []
        caller = threading.Thread(target=lambda: found.append(ask(path, "/slow")[0].status))
        caller.start()
        while under_way(server) < 1:
            time.sleep(0.01)
        server.stop()
        caller.join()
    assert found == [200]


def test_a_stop_ends_a_poll_that_only_waits_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "GRACE_SECONDS", 3600)
    with running(UnixListener(path)) as server:
        poll = connect(path)
        poll.sendall(b"GET /idle HTTP/1.1\r\nHost: pool\r\n\r\n")
        while under_way(server) < 1:
            time.sleep(0.01)
        server.stop()
    answer = b"".join(iter(lambda: poll.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 503 ")


def under_way(server: Running) -> int:
    """How many requests the server is working on: their tasks."""
    done: threading.Event = threading.Event()
    count: list[int] = []

    def look() -> None:
        count.append(
            sum("run_asgi" in repr(task.get_coro()) for task in asyncio.all_tasks(server._loop))
        )
        done.set()

    server._loop.call_soon_threadsafe(look)
    assert done.wait(60)
    return count[0]


def test_a_stop_does_not_wait_for_long_polls_and_streams(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "CANCEL_SECONDS", 3600)
    with running(UnixListener(path)) as server:
        stream = connect(path)
        stream.sendall(b"GET /stream HTTP/1.1\r\nHost: pool\r\n\r\n")
        assert stream.recv(65536)
        poll = connect(path)
        poll.sendall(b"GET /wait HTTP/1.1\r\nHost: pool\r\n\r\n")
        idle = connect(path)
        while under_way(server) < 2:
            time.sleep(0.01)
        server.stop()
    answer = b"".join(iter(lambda: poll.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"GP-5000" in answer
    rest = b"".join(iter(lambda: stream.recv(65536), b""))
    assert b"0\r\n\r\n" not in rest, "a stream that was cut off must not look complete"
    assert idle.recv(1) == b""
    assert not path.exists()


IDLE = """
import asyncio, sys
from pathlib import Path
from gpupool.server.http.listeners import UnixListener, TcpListener
from gpupool.server.http.serving import serve_listeners
async def main():
    listeners = [UnixListener(Path(sys.argv[1])), TcpListener("127.0.0.1", 0)]
    await serve_listeners(lambda *_: None, listeners, stop=asyncio.Event(),
                          on_ready=lambda bound: print("ready", flush=True))
asyncio.run(main())
"""


def test_an_idle_server_does_not_wake_up(path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", IDLE, str(path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        descriptors = count_descriptors(process.pid)
        with connect(path):  # also with a caller that says nothing
            until(lambda: count_descriptors(process.pid) > descriptors, "an accepted caller")
            until(lambda: is_asleep(process.pid), "an idle server")
            before = wake_ups(process.pid)
            time.sleep(2)
            assert wake_ups(process.pid) - before <= 1
    finally:
        process.kill()
        process.communicate()


def count_descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def is_asleep(pid: int) -> bool:
    """Whether every thread waits."""
    stats = [stat.read_text() for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(stat.rpartition(")")[2].split()[0] == "S" for stat in stats)


def wake_ups(pid: int) -> int:
    """How often any thread of the process gave up the processor to wait: it must have woken to do
    so again."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        lines = (task / "status").read_text().splitlines()
        total += sum(
            int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches")
        )
    return total


def test_a_connection_too_many_is_told_so_with_the_number_and_when_to_come_back() -> None:
    limits = ConnectionLimits(total=100, per_source=16, reserve=30, of_agent=10)
    with running(TcpListener("127.0.0.1", 0), connections=OpenConnections(limits)) as server:
        address = server.bound[0].socket.getsockname()[:2]
        held = [socket.create_connection(address, 20) for _ in range(16)]
        for one in held:
            one.sendall(b"GET /wait HTTP/1.1\r\nHost: pool\r\n\r\n")
        while server_has(server) < 16:
            time.sleep(0.01)  # between two looks
        refused = http.client.HTTPConnection(*address, timeout=20)
        refused.request("GET", "/")
        answer = refused.getresponse()
        problem = json.loads(answer.read())
        assert (answer.status, problem["code"]) == (429, "GP-5032")
        assert (
            answer.headers["Retry-After"],
            problem["numbers"]["open"],
            problem["numbers"]["most"],
        ) == ("5", 16, 16)
        held.pop().close()
        while server_has(server) == 16:
            time.sleep(0.01)
        again = http.client.HTTPConnection(*address, timeout=20)
        again.request("GET", "/")
        assert again.getresponse().status == 200
        for one in held:
            one.close()


def test_many_refused_connections_are_closed_without_a_word_and_leave_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        refusal, "SECONDS", 0.1
    )  # else the few that are told wait 2 s for their request
    connections = OpenConnections(
        ConnectionLimits(total=100, per_source=16, reserve=30, of_agent=10)
    )
    with running(TcpListener("127.0.0.1", 0), connections=connections) as server:
        address = server.bound[0].socket.getsockname()[:2]
        opened = [socket.create_connection(address, 20) for _ in range(300)]
        for one in opened[16:]:
            assert is_closed(one)
        assert (connections.open, connections.refused) == (16, 300 - 16)
        for one in opened:
            one.close()
    assert refusal.RefusedConnection.told_now == 0


def is_closed(connection: socket.socket) -> bool:
    """Waits for the other side's end."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def server_has(server: Running) -> int:
    assert server._connections is not None
    return server._connections.open
