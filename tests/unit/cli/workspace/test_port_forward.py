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
