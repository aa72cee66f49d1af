"""The relay takes whole requests of the right account alone, and passes bytes both ways."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.network import port_relay
from gpupool.agent.network.port_relay import PortRelay, RelayTarget
from gpupool.base.errors import WrongState
from gpupool.cli.network.port_forward import open_relay

#: The namespace of this test: entering it needs root, as the agent of networks does.
HERE = Path("/proc/self/ns/net")
JOBS = {
    "j-mine": RelayTarget(os.geteuid(), HERE),
    "j-bare": RelayTarget(os.geteuid(), None),
}


@pytest.fixture
def path(tmp_path: Path) -> Iterator[str]:
    # Deeper than a socket's name may be long.
    place = tmp_path / ("d" * 120) / "relay.sock"
    place.parent.mkdir()
    relay = PortRelay(place, JOBS.get)
    relay.start()
    yield str(place)
    relay.close()
    relay.close()
    assert not place.exists()


@pytest.fixture
def echo() -> Iterator[int]:
    """A server of one connection, which answers with what it got once that has ended."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        peer, _ = server.accept()
        with peer:
            parts = list[bytes]()
            while part := peer.recv(65536):
                parts.append(part)
            peer.sendall(b"".join(parts).upper())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield server.getsockname()[1]
    thread.join(5)
    server.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="entering a network namespace needs root")
def test_bytes_pass_both_ways_until_both_ends_are_done(path: str, echo: int) -> None:
    with open_relay(path, "j-mine", echo) as channel:
        channel.sendall(b"x" * 300_000)
        channel.shutdown(socket.SHUT_WR)
        got = b""
        while part := channel.recv(65536):
            got += part
    assert got == b"X" * 300_000


def test_a_refusal_has_its_reason(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WrongState, match="no running job j-none of yours"):
        open_relay(path, "j-none", 80)
    with pytest.raises(WrongState, match="job j-bare is in no network"):
        open_relay(path, "j-bare", 80)
    # As if the kernel named another account than the job's.
    monkeypatch.setattr(port_relay, "_read_peer", lambda _client: 4242)
    with pytest.raises(WrongState, match="no running job j-mine of yours"):
        open_relay(path, "j-mine", 80)


@pytest.mark.skipif(os.geteuid() != 0, reason="entering a network namespace needs root")
def test_a_port_on_which_nothing_listens_is_said_to_be_so(path: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        number = free.getsockname()[1]
    with pytest.raises(WrongState, match=f"accepts connections on {number}"):
        open_relay(path, "j-mine", number)


@pytest.mark.parametrize("request_line", [b"\n", b"[]\n", b'{"job": "j-mine"}\n', b"x" * 600])
def test_what_is_no_request_is_refused(path: str, request_line: bytes) -> None:
    directory = os.open(os.path.dirname(path), os.O_PATH)
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect(f"/proc/self/fd/{directory}/relay.sock")
        channel.sendall(request_line)
        assert channel.recv(100) == b"not a request\n"
    os.close(directory)
