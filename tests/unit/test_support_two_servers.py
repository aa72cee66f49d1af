"""The networks of two servers: made anew over what a killed run left, and removed whole."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.claims import claimed
from tests.support.two_servers import NETWORKS, Server, impossible_here

pytestmark = pytest.mark.root


def links_of(server: Server) -> int:
    told = subprocess.run(
        ["ip", "-brief", "link"], capture_output=True, text=True, check=True
    ).stdout
    return sum(line.startswith(server.space) for line in told.splitlines())


def test_networks_that_a_killed_run_left_are_made_anew_and_go(tmp_path: Path) -> None:
    if why := impossible_here():
        pytest.skip(why)
    with claimed("network", NETWORKS) as network:
        of_a_killed_run, server = (Server(tmp_path, 1, "books", 1, network) for _ in range(2))
        try:
            of_a_killed_run.plug_in()
            server.plug_in()
            assert links_of(server) == 2
        finally:
            server.unplug()
        assert links_of(server) == 0
        server.unplug()
