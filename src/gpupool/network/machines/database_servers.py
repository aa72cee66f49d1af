"""The servers of the databases: which machines they are, and what each of them does next.

Without rows the centre alone has the databases. With rows they are a cluster, and a change of its
servers is a sequence of steps that agents report. A server never joins before its addresses are
written here, so an address that is a member there and unknown here is to be removed.

Runs in the transactions of `engine_service`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.machines.service import read_machines
from gpupool.network.machines.tables import network_database_servers
from gpupool.store.database import WriteTransaction
from gpupool.wire.network.databases import (
    DatabaseAddresses,
    DatabaseReplica,
    DatabaseServerReport,
    DatabaseServerWork,
    ServerStep,
)

_DATABASES: Final = ("northbound", "southbound")
#: Numbers of servers that have a majority after one of them ends, and not more than a log needs.
_SIZES: Final = (1, 3, 5)
#: States of servers that are members of the cluster.
_MEMBERS: Final = ("joined", "leaving")

#: By agent, its work about databases, and where its controller connects.
ServerParts = Mapping[str, tuple[DatabaseServerWork | None, str]]


def read_servers(connection: sa.Connection) -> Sequence[Any]:
    """Read the servers, in the order of their choice; none where there is no cluster."""
    query = sa.select(network_database_servers).order_by(network_database_servers.c.id)
    return connection.execute(query).all()


def find_cluster(connection: sa.Connection) -> int:
    """Find the number of the cluster; 0 where there is none."""
    rows = read_servers(connection)
    return int(rows[0].cluster) if rows else 0


def choose_servers(
    write: WriteTransaction,
    agents: Sequence[str],
    centre: str,
    is_silent: Callable[[str], bool],
) -> bool:
    """Make machines the servers of the databases; whether that changes something. Idempotent.

    One machine, the centre, ends the cluster.

    Raises:
        NetworkingUnavailable: the number or the centre does not do, or the cluster has no majority.
    """
    wanted = list(dict.fromkeys(agents))
    if len(wanted) not in _SIZES:
        raise NetworkingUnavailable(
            f"{len(wanted)} machines for the databases; a cluster has 3 or 5, and 1 is none: an "
            "even number survives no more failures than the odd one below it",
            hint="gpupool network enable --databases NODE,NODE,NODE",
        )
    rows = read_servers(write.connection)
    has_members = any(row.state in _MEMBERS for row in rows)
    if centre not in wanted and (len(wanted) == 1 or not has_members):
        raise NetworkingUnavailable(
            f"the databases are on {centre}, the centre, from which they are taken",
            hint=f"name {centre} too, or first: gpupool network enable --node {wanted[0]}",
        )
    if len(wanted) == 1:
        end_servers(write)
        return bool(rows)
    if {row.agent for row in rows if row.state != "leaving"} == set(wanted):
        return False
    _require_majority(rows, centre, is_silent)
    cluster = rows[0].cluster if rows else write.touch_ledger()
    known = {row.agent: row for row in rows}
    for agent in wanted:
        if agent not in known:
            _insert(write, agent, cluster)
        elif known[agent].state == "leaving":
            _update(write, agent, {"state": "joined"})
    for row in rows:
        if row.agent in wanted:
            continue
        if row.state in _MEMBERS or (has_members and row.northbound_peer):
            # One that was asked to join may be a member whose report is still to come.
            _update(write, row.agent, {"state": "leaving"})
        else:
            _delete(write, row.agent)
    write.event("network.databases", ",".join(wanted))
    return True


def end_servers(write: WriteTransaction) -> None:
    """End the cluster: the centre goes on with its content. Idempotent."""
    write.execute(network_database_servers.delete())


def end_unformed(write: WriteTransaction) -> None:
    """End a cluster that no server has reported yet: another machine becomes the centre."""
    if not any(row.state in _MEMBERS for row in read_servers(write.connection)):
        end_servers(write)


def read_parts(connection: sa.Connection, centre: str) -> ServerParts:
    """Read, by agent, what each server does next; the empty name has what other machines do."""
    rows = read_servers(connection)
    parts = dict[str, tuple[DatabaseServerWork | None, str]]()
    southbound = join_remotes(rows, "southbound")
    for row in rows:
        parts[row.agent] = (_make_work(row, rows, centre), southbound)
    parts[""] = (None, southbound)
    return parts


def find_part(parts: ServerParts, agent: str) -> tuple[DatabaseServerWork | None, str]:
    """Return the part of a machine."""
    return parts.get(agent, parts[""])


def join_remotes(rows: Sequence[Any], database: str) -> str:
    """Return where clients connect, every server; empty where no server has joined."""
    if not any(row.state in _MEMBERS for row in rows):
        return ""
    remotes = [getattr(row, f"{database}_remote") for row in _list_permanent(rows)]
    return ",".join(remote for remote in remotes if remote)


def apply_server_report(
    write: WriteTransaction, centre: str, agent: str, report: DatabaseServerReport | None
) -> list[str]:
    """Apply what an agent says of its databases, and take the steps that follow from it.

    Returns:
        The agents that have other work by that.
    """
    before = read_parts(write.connection, centre)
    _note_report(write, agent, report)
    after = read_parts(write.connection, centre)
    if before == after:
        return []
    write.announce("network-engine")
    return [
        row.agent
        for row in read_machines(write.connection)
        if find_part(before, row.agent) != find_part(after, row.agent)
    ]


def _note_report(write: WriteTransaction, agent: str, report: DatabaseServerReport | None) -> None:
    rows = {row.agent: row for row in read_servers(write.connection)}
    row = rows.get(agent)
    if row is None or report is None or report.cluster != row.cluster:
        return
    if report.is_lost:
        _note_loss(write, row, rows)
    else:
        values = _read_values(report)
        is_member = report.northbound.is_member and report.southbound.is_member
        if row.state == "joining" and is_member:
            values["state"] = "joined"
        elif row.state == "joined" and not is_member and _is_expelled(list(rows.values()), row):
            # It was to leave, and then to stay after all: too late.
            values["state"] = "lost"
        if any(getattr(row, name) != value for name, value in values.items()):
            _update(write, agent, values)
    _settle(write)


def _read_values(report: DatabaseServerReport) -> dict[str, Any]:
    values = dict[str, Any]()
    for database in _DATABASES:
        replica: DatabaseReplica = getattr(report, database)
        values[f"{database}_remote"] = getattr(report, f"{database}_remote")
        values[f"{database}_peer"] = replica.address
        values[f"{database}_role"] = replica.role
        values[f"{database}_term"] = replica.term
        values[f"{database}_members"] = replica.members
    return values


def _note_loss(write: WriteTransaction, row: Any, rows: Mapping[str, Any]) -> None:
    """Let a server whose files are gone be removed, and join again after that."""
    if row.state not in _MEMBERS:
        return
    roles = {f"{database}_role": "none" for database in _DATABASES}
    # One that leaves is removed anyway.
    state = "lost" if row.state == "joined" else row.state
    _update(write, row.agent, {"state": state, **roles})
    others = [one for one in rows.values() if one.agent != row.agent and one.state in _MEMBERS]
    if not others:
        # Nothing is left of it: its servers begin the next one.
        agents = [one.agent for one in rows.values()]
        end_servers(write)
        cluster = write.touch_ledger()
        for agent in agents:
            _insert(write, agent, cluster)


def _settle(write: WriteTransaction) -> None:
    """Take the steps that follow from what leaders say of their members."""
    rows = read_servers(write.connection)
    has_all = all(row.state in _MEMBERS for row in rows)
    for row in rows:
        is_member = any(
            _is_listed(rows, database, getattr(row, f"{database}_peer")) for database in _DATABASES
        )
        if is_member:
            continue
        if row.state == "lost":
            _update(write, row.agent, {"state": "joining", **_EMPTY})
        elif row.state == "leaving" and has_all:
            _delete(write, row.agent)


def _is_expelled(rows: Sequence[Any], row: Any) -> bool:
    """Whether a leader has removed a server from its members."""
    return not all(
        _is_listed(rows, database, getattr(row, f"{database}_peer")) for database in _DATABASES
    )


def _is_listed(rows: Sequence[Any], database: str, peer: str) -> bool:
    """Whether the leader of a database has a member of that address; true where none leads."""
    leading = [row for row in rows if getattr(row, f"{database}_role") == "leader"]
    if not leading:
        return True
    leader = max(leading, key=lambda row: int(getattr(row, f"{database}_term")))
    return peer in getattr(leader, f"{database}_members")


def _list_permanent(rows: Sequence[Any]) -> list[Any]:
    """List the servers that are members until further notice: those that leave go last."""
    has_all = all(row.state in _MEMBERS for row in rows)
    stay = ("joining", "joined") if has_all else ("joining", "joined", "leaving")
    return [row for row in rows if row.state in stay]


def _make_work(row: Any, rows: Sequence[Any], centre: str) -> DatabaseServerWork:
    members = [one for one in rows if one.state in _MEMBERS]
    peers = dict[str, list[str]]()
    expelled = dict[str, list[str]]()
    for database in _DATABASES:
        peers[database] = [getattr(one, f"{database}_peer") for one in members]
        expelled[database] = []
        if getattr(row, f"{database}_role") == "leader":
            stay = {getattr(one, f"{database}_peer") for one in _list_permanent(rows)}
            found = getattr(row, f"{database}_members")
            expelled[database] = [peer for peer in found if peer not in stay]
    step = _choose_step(row, bool(members), centre)
    return DatabaseServerWork(
        cluster=row.cluster,
        step=step,
        northbound=join_remotes(rows, "northbound"),
        peers=DatabaseAddresses(**peers) if step == "join" else DatabaseAddresses(),
        expelled=DatabaseAddresses(**expelled),
    )


def _choose_step(row: Any, has_members: bool, centre: str) -> ServerStep:
    if row.state != "joining":
        return "serve"
    if not row.northbound_peer:
        return "prepare"
    if has_members:
        return "join"
    return "create" if row.agent == centre else "prepare"


def _require_majority(rows: Sequence[Any], centre: str, is_silent: Callable[[str], bool]) -> None:
    members = [row for row in rows if row.state in ("joined", "lost")]
    # Without a term it leaves before it has joined.
    members += [row for row in rows if row.state == "leaving" and row.northbound_term]
    away = list_away(members, is_silent)
    if members and 2 * (len(members) - len(away)) <= len(members):
        raise NetworkingUnavailable(
            f"{len(away)} of {len(members)} servers of the databases are away "
            f"({', '.join(away)}), and a cluster without a majority takes no change",
            hint=f"gpupool network enable --databases {centre}  then name three machines again",
        )


def list_away(rows: Collection[Any], is_silent: Callable[[str], bool]) -> list[str]:
    """List the servers that do not answer, or do not serve both databases."""
    away = list[str]()
    for row in rows:
        roles = {getattr(row, f"{database}_role") for database in _DATABASES}
        if is_silent(row.agent) or "none" in roles:
            away.append(row.agent)
    return away


#: How a server is before it has reported.
_EMPTY: Final[Mapping[str, Any]] = {
    **{f"{database}_remote": "" for database in _DATABASES},
    **{f"{database}_peer": "" for database in _DATABASES},
    **{f"{database}_role": "none" for database in _DATABASES},
    **{f"{database}_term": 0 for database in _DATABASES},
    **{f"{database}_members": [] for database in _DATABASES},
}


def _insert(write: WriteTransaction, agent: str, cluster: int) -> None:
    write.insert(network_database_servers, agent=agent, cluster=cluster, state="joining", **_EMPTY)


def _update(write: WriteTransaction, agent: str, values: dict[str, Any]) -> None:
    chosen = network_database_servers.c.agent == agent
    write.execute(network_database_servers.update().where(chosen).values(**values))


def _delete(write: WriteTransaction, agent: str) -> None:
    write.execute(
        network_database_servers.delete().where(network_database_servers.c.agent == agent)
    )
