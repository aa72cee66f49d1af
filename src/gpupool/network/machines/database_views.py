"""Describes the cluster of databases, as the API shows it, and says what its state means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpupool.network.machines.database_servers import list_away
from gpupool.wire.network.databases import DatabaseServerOut


def describe_servers(
    rows: Sequence[Any], is_silent: Callable[[str], bool]
) -> list[DatabaseServerOut]:
    """Describe the servers."""
    away = list_away(rows, is_silent)
    found = list[DatabaseServerOut]()
    for row in rows:
        is_away = row.agent in away
        found.append(
            DatabaseServerOut(
                node=row.agent,
                state=row.state,
                is_away=is_away,
                northbound="none" if is_away else row.northbound_role,
                northbound_term=row.northbound_term,
                southbound="none" if is_away else row.southbound_role,
                southbound_term=row.southbound_term,
            )
        )
    return found


def has_lost_majority(servers: Sequence[DatabaseServerOut]) -> bool:
    """Whether changes wait: half of the servers that belong to the cluster, or more, are away."""
    members = _list_members(servers)
    away = sum(one.is_away for one in members)
    return bool(members) and 2 * (len(members) - away) <= len(members)


def describe_danger(servers: Sequence[DatabaseServerOut]) -> str:
    """Say which servers are away, and what that means; empty where one more failure costs nothing."""
    members = _list_members(servers)
    away = [one.node for one in members if one.is_away]
    if not away:
        return ""
    counts = f"{len(away)} of {len(members)} servers of the databases away ({', '.join(away)})"
    if has_lost_majority(servers):
        missing = len(members) // 2 + 1 - (len(members) - len(away))
        return f"{counts}: existing traffic flows, changes wait for {missing} of them"
    if 2 * (len(members) - len(away) - 1) <= len(members):
        return f"{counts}: changes wait if one more fails"
    return ""


def _list_members(servers: Sequence[DatabaseServerOut]) -> list[DatabaseServerOut]:
    found = list[DatabaseServerOut]()
    for one in servers:
        # Without a term it leaves before it has joined.
        has_joined = one.state != "leaving" or one.northbound_term > 0
        if one.state != "joining" and has_joined:
            found.append(one)
    return found
