"""A session with a real server: it comes back soon after its server does, and asks every server."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

import pytest

from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.ovn import session as module
from gpupool.network.ovn.session import OvsdbSession
from tests.support.ovsdb import find_missing_part, northbound_server

pytestmark = pytest.mark.skipif(bool(find_missing_part()), reason=find_missing_part())
TABLES = {"Logical_Switch": ("name",)}


def add_switch(session: OvsdbSession, name: str) -> None:
    def write(transaction: Any) -> None:
        transaction.insert(session.get_table("Logical_Switch")).name = name

    session.commit(write)


def test_a_session_is_back_soon_after_a_server_that_was_away() -> None:
    with northbound_server() as server:
        session = OvsdbSession(server.remote, "OVN_Northbound", TABLES)
        waits = list[float]()
        # The machine may be busy at one of them.
        while min(waits, default=1.0) >= 0.7 and len(waits) < 4:
            server.kill()
            # With the library's own waits the next attempt is 0.9 to 1.9 s later.
            assert not session.wait_for(lambda: False, 1.05)
            server.start()
            began = time.monotonic()
            add_switch(session, f"switch-{len(waits)}")
            waits.append(time.monotonic() - began)
        session.close()
        assert min(waits) < 0.7
        added = server.command("--bare", "--columns=name", "list", "Logical_Switch").split()
        assert sorted(added) == [f"switch-{number}" for number in range(len(waits))]


def test_the_first_server_that_answers_is_used() -> None:
    with northbound_server() as server:
        remote = f"unix:/nowhere/nb.sock,{server.remote}"
        session = OvsdbSession(remote, "OVN_Northbound", TABLES)
        add_switch(session, "a")
        session.close()
    with pytest.raises(NetworkingUnavailable, match="/nowhere"):
        OvsdbSession("unix:/nowhere/nb.sock,unix:/nowhere/sb.sock", "OVN_Northbound", TABLES)


def test_a_server_that_accepts_and_says_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        remote = f"tcp:127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(NetworkingUnavailable, match=f"{remote} does not answer within 5 s"):
            OvsdbSession(remote, "OVN_Northbound", TABLES)


def test_a_closed_session_is_woken_without_harm() -> None:
    with northbound_server() as server:
        session = OvsdbSession(server.remote, "OVN_Northbound", TABLES)
        session.wake()
        session.wait(60)
        session.close()
        # Whoever commits meanwhile has the session still in hand. Others have its descriptors now.
        others = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(4)]
        session.wake()
        session.close()
        for other in others:
            with pytest.raises(BlockingIOError):
                os.eventfd_read(other)
            os.close(other)
