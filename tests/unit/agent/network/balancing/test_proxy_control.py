"""What HAProxy's master answers is parsed as HAProxy 2.6.12 writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.agent.network.balancing.proxy_control import (
    ProxyControl,
    ProxyUnavailable,
    ServerCounts,
    parse_servers,
    parse_workers,
)

PROCESSES = """#<PID>          <type>          <reloads>       <uptime>        <version>
11406           master          2               0d00h00m09s     2.6.12-1+deb12u4
# workers
11457           worker          0               0d00h00m05s     2.6.12-1+deb12u4
# old workers
11427           worker          1               0d00h00m08s     2.6.12-1+deb12u4
11410           worker          2               0d00h00m09s     2.6.12-1+deb12u4
# programs

"""
STATS = """# pxname,svname,scur,stot,status,check_status,check_code,
route0,n-1,2,17,UP,L7OK,200,
route0,n-2,0,3,UP 1/2,* L4CON,,
route0,n-3,0,0,DOWN,L7STS,503,
route1,n-4,1,9,MAINT,L4OK,,
"""


def test_workers_are_the_one_that_takes_connections_and_the_old_ones() -> None:
    found = parse_workers(PROCESSES)
    assert (found.current, found.old) == (11457, (11427, 11410))
    assert parse_workers("").pids == ()


def test_servers_have_their_state_probe_and_counts() -> None:
    assert parse_servers(STATS) == [
        ServerCounts("n-1", "up", "L7OK 200", 2, 17),
        ServerCounts("n-2", "unknown", "L4CON", 0, 3),
        ServerCounts("n-3", "down", "L7STS 503", 0, 0),
        ServerCounts("n-4", "draining", "L4OK", 1, 9),
    ]


def test_a_master_that_is_not_there_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(ProxyUnavailable, match="does not answer"):
        ProxyControl(tmp_path / "master.sock").list_workers()
