"""Ports of the machine are reached only where the job's own user listens on them."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from gpupool.agent.relay.ports import connect_port, find_own_address
from gpupool.agent.relay.refusal import StreamRefusal

ME = os.geteuid()


@pytest.mark.parametrize(
    ("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
def test_connect_port_reaches_a_listener_of_the_user(family: int, host: str) -> None:
    with (
        socket.create_server((host, 0), family=family) as server,
        connect_port(server.getsockname()[1], None, ME) as connection,
        server.accept()[0] as peer,
    ):
        peer.sendall(b"x")
        assert connection.recv(1) == b"x"


@pytest.mark.parametrize("host", ["::ffff:127.0.0.1", "::ffff:0.0.0.0", "::"])
def test_connect_port_reaches_an_ipv6_socket_that_listens_for_ipv4(host: str) -> None:
    with socket.socket(socket.AF_INET6) as server:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind((host, 0))
        server.listen()
        with connect_port(server.getsockname()[1], None, ME) as here, server.accept()[0] as peer:
            peer.sendall(b"x")
            assert here.recv(1) == b"x"


def test_connect_port_of_another_user_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(StreamRefusal, match="another user's"):
            connect_port(port, None, ME + 1)
    with pytest.raises(StreamRefusal, match="nothing in the job accepts"):
        connect_port(port, None, ME)


def test_find_own_address_passes_over_other_addresses(tmp_path: Path) -> None:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
    row = "   0: {} 00000000:0000 {} 00000000:00000000 00:00000000 00000000  1000 0 1\n"
    # 10.0.0.1:80 listens, and a connection of 127.0.0.1:80 that does not.
    rows = row.format("0100000A:0050", "0A") + row.format("0100007F:0050", "01")
    (tmp_path / "tcp").write_text(head + rows)
    with pytest.raises(StreamRefusal, match="nothing"):
        find_own_address(80, 1000, tmp_path)
    (tmp_path / "tcp").write_text(head + rows + row.format("00000000:0050", "0A"))
    assert find_own_address(80, 1000, tmp_path) == "127.0.0.1"
