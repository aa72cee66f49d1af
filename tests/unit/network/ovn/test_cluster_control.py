"""What ovsdb-server says of its cluster, as ovsdb-server 3.1.0 prints it."""

from __future__ import annotations

from pathlib import Path

from gpupool.network.ovn.cluster_control import (
    ClusterStatus,
    parse_cluster_status,
    read_cluster_status,
)

FOLLOWER = """\
0c3e
Name: OVN_Northbound
Cluster ID: 8b1f (8b1f6bd3-2a30-4b6a-8d0e-2f9f3a8b3d10)
Server ID: 0c3e (0c3e5b0f-5d6c-4b3e-93ec-5a0a9a3c1d11)
Address: ssl:10.0.0.2:6643
Status: cluster member
Role: follower
Term: 4
Leader: 45e1
Vote: 45e1

Election timer: 1000
Log: [2, 9]
Entries not yet committed: 0
Entries not yet applied: 0
Connections: ->45e1 <-45e1
Disconnections: 0
Servers:
    0c3e (0c3e at ssl:10.0.0.2:6643) (self)
    45e1 (45e1 at ssl:10.0.0.1:6643) last msg 12 ms ago
"""


def test_a_follower_names_its_leader_and_all_servers() -> None:
    assert parse_cluster_status(FOLLOWER) == ClusterStatus(
        role="follower",
        term=4,
        leader="45e1",
        is_member=True,
        members=("ssl:10.0.0.1:6643", "ssl:10.0.0.2:6643"),
    )


def test_a_server_that_joins_is_no_member_and_knows_no_leader() -> None:
    text = FOLLOWER.replace("cluster member", "joining cluster").replace(
        "45e1\nVote", "unknown\nVote"
    )
    status = parse_cluster_status(text)
    assert status is not None
    assert not status.is_member
    assert status.leader == ""


def test_a_database_without_a_cluster_has_no_status(tmp_path: Path) -> None:
    assert parse_cluster_status("") is None
    assert parse_cluster_status("OVN_Northbound: not a clustered database") is None
    assert read_cluster_status(tmp_path / "none.ctl", "OVN_Northbound") is None
