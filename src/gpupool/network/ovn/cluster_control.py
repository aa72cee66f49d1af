"""Asks the server of a clustered database how it is, and lets it remove others.

Speaks over the control socket of the server (ovsdb-server(1), "Cluster Commands").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpupool.network.ovn.control import ask_daemon

_FACT: Final = re.compile(r"^(Status|Role|Term|Leader): (.*)$", re.MULTILINE)
#: A line of `Servers:`, as `45e1 (45e1 at ssl:10.0.0.1:6643) (self)`.
_MEMBER: Final = re.compile(r"^ +[0-9a-f]{4} \([0-9a-f]{4} at ([^)]+)\)", re.MULTILINE)
_ROLES: Final = ("leader", "follower", "candidate")


@dataclass(frozen=True)
class ClusterStatus:
    """What a server says of its cluster.

    Attributes:
        role: `leader`, `follower` or `candidate`.
        leader: first digits of the leader's id, or `self`; empty where the server knows none.
        is_member: whether it has joined.
        members: addresses of all servers, by its own account.
    """

    role: str
    term: int
    leader: str
    is_member: bool
    members: tuple[str, ...]


def parse_cluster_status(text: str) -> ClusterStatus | None:
    """Parse the answer to `cluster/status`; None where the server has no such database."""
    facts = dict(_FACT.findall(text))
    if facts.get("Role") not in _ROLES:
        return None
    leader = facts.get("Leader", "")
    return ClusterStatus(
        role=facts["Role"],
        term=int(facts.get("Term", "0")),
        leader="" if leader == "unknown" else leader,
        is_member=facts.get("Status") == "cluster member",
        members=tuple(sorted(set(_MEMBER.findall(text)))),
    )


def read_cluster_status(socket: Path, database: str) -> ClusterStatus | None:
    """Ask a server; None where it does not answer or has no such database."""
    return parse_cluster_status(ask_daemon(socket, "cluster/status", [database]))


def expel_servers(socket: Path, database: str, addresses: Sequence[str]) -> None:
    """Remove servers from the cluster of the leader that is asked. Idempotent.

    The removal is done some milliseconds later, and `read_cluster_status` shows it.
    """
    for address in addresses:
        ask_daemon(socket, "cluster/kick", [database, address])
