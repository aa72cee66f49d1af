"""Ports as they are typed, and the account of a client in the kernel's table."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from gpupool.base.errors import BadInput
from gpupool.cli.workspace.port_forward import find_owner, parse_ports


def test_a_local_port_is_the_remote_one_unless_it_is_named() -> None:
    assert parse_ports("8888") == (8888, 8888)
    assert parse_ports("18888:8888") == (18888, 8888)
    assert parse_ports("0:8888") == (0, 8888)


@pytest.mark.parametrize("text", ["", "a", "0", "80:", ":80", "80:0", "65536", "1:2:3", "-1"])
def test_what_are_no_ports_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="not ports"):
        parse_ports(text)


def test_a_client_of_loopback_has_the_account_that_opened_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", number)) as client:
            table = Path("/proc/net/tcp").read_text()
            own = client.getsockname()[1]
            assert find_owner(table, own, number) == os.geteuid()
            assert find_owner(table, number, 1) is None


def test_a_client_that_has_closed_already_is_not_taken_for_root() -> None:
    # As the kernel writes sockets in FIN_WAIT2 and TIME_WAIT (get_timewait4_sock of tcp_ipv4.c).
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
    row = "   0: 0100007F:9C40 0100007F:1F90 {} 00000000:00000000 03:00001770 00000000 0 0 {} 3 1\n"
    assert find_owner(head + row.format("05", 0), 40000, 8080) is None
    assert find_owner(head + row.format("06", 0), 40000, 8080) is None
    assert find_owner(head + row.format("01", 4711), 40000, 8080) == 0
