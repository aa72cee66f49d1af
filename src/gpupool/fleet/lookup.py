"""Find nodes and cards by the names that people and agents use. Reads only.

A card is named by uuid, by `node:index`, or by its index where the pool has one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import BadOption, NotFound
from gpupool.fleet.tables import devices, nodes
from gpupool.fleet.views import device_name
from gpupool.model.device import DeviceState

#: The most of a page: a larger one holds a thread of the server for long.
MAX_LIMIT = 1000
#: The largest value of the column; PostgreSQL refuses to compare with more.
_MAX_INDEX = 2**31 - 1


def find_device(connection: sa.Connection, text: str) -> Any:
    """Return the row (with `node_name`) of the card that `text` names.

    Raises:
        NotFound: No card has that name; the hint says how cards are named.
    """
    row = connection.execute(
        select_cards().where(devices.c.uuid == _check_printable(text))
    ).one_or_none()
    if row is None:
        node_id, index = _split_name(connection, text)
        row = connection.execute(
            select_cards().where(devices.c.node_id == node_id, devices.c.idx == index)
        ).one_or_none()
    if row is None:
        raise _no_card(text)
    return row


def select_cards() -> sa.Select[Any]:
    mark = nodes.c.cluster_generation.is_not(None).label("of_cluster")
    return sa.select(devices, nodes.c.name.label("node_name"), mark).join(
        nodes, nodes.c.id == devices.c.node_id
    )


def match_present() -> sa.ColumnElement[bool]:
    return devices.c.state != str(DeviceState.LOST)


def name_of(row: Any) -> str:
    return device_name(row.node_name, row.idx)


def _check_printable(text: str) -> str:
    """Return text that a database can be asked for; what cannot be printed names nothing."""
    if not text.isprintable():
        raise _no_card(text)
    return text


def _no_card(text: str) -> NotFound:
    return NotFound(
        f"no card is named {text[:80]!r}",
        hint="gpupool gpus lists them; write node:index (node-1:3), a uuid, or the index if there "
        "is one node",
    )


def find_node(connection: sa.Connection, name: str) -> Any:
    row = None
    if name.isprintable():
        row = connection.execute(sa.select(nodes).where(nodes.c.name == name)).one_or_none()
    if row is None:
        raise NotFound(
            f"no node is named {name[:80]!r}", hint="gpupool gpus shows every node's cards"
        )
    return row


def _split_name(connection: sa.Connection, text: str) -> tuple[int, int]:
    """Return (node id, index) of `node:index`, or of a bare index in a pool of one node."""
    # From the right: a node's name never has a colon, an index is last.
    node, colon, index = text.rpartition(":")
    if not (index.isascii() and index.isdigit()) or len(index) > 10 or int(index) > _MAX_INDEX:
        raise _no_card(text)
    if colon:
        return find_node(connection, node).id, int(index)
    known = connection.execute(sa.select(nodes.c.id).limit(2)).scalars().all()
    if len(known) > 1:
        raise NotFound(
            f"card {text}: the pool has several nodes, each with cards of its own",
            hint=f"write node:index, as node-1:{text}",
        )
    if not known:
        raise _no_card(text)
    return known[0], int(index)


def find_page_position(connection: sa.Connection, text: str) -> tuple[int, int]:
    """Return where a page goes on.

    A card that is gone since still has its place if it is named `node:index`.
    """
    row = connection.execute(
        select_cards().where(devices.c.uuid == _check_printable(text))
    ).one_or_none()
    return (row.node_id, row.idx) if row is not None else _split_name(connection, text)


def find_all(connection: sa.Connection, names: Sequence[str]) -> list[Any]:
    """Return the rows of all the names, each once, in the order named."""
    rows = {}
    for name in names:
        row = find_device(connection, name)
        rows[row.id] = row  # a card may be named by uuid and by index
    return list(rows.values())


def read_served_nodes(connection: sa.Connection, agent: str) -> Sequence[Any]:
    """Return the nodes that an agent serves."""
    query = sa.select(nodes).where(nodes.c.agent == agent).order_by(nodes.c.id)
    return connection.execute(query).all() if agent.isprintable() else ()


def agent_cards(connection: sa.Connection, agent: str, uuids: Sequence[str]) -> dict[str, Any]:
    ours = sa.select(nodes.c.id).where(nodes.c.agent == agent)
    query = select_cards().where(devices.c.node_id.in_(ours), devices.c.uuid.in_(uuids))
    return {row.uuid: row for row in connection.execute(query)}


def check_limit(limit: int) -> int:
    """Return the size of a page as asked. Raises BadOption where it is out of range."""
    if not 1 <= limit <= MAX_LIMIT:
        raise BadOption(
            f"limit {limit} is not between 1 and {MAX_LIMIT}",
            hint=f"ask for at most {MAX_LIMIT} a page",
        )
    return limit


def list_agents(connection: sa.Connection) -> list[str]:
    """List the agents of the pool's own nodes, not of clusters; the first registered first."""
    query = sa.select(nodes.c.agent).where(nodes.c.cluster_born_ns.is_(None))
    query = query.group_by(nodes.c.agent).order_by(sa.func.min(nodes.c.id))
    return list(connection.execute(query).scalars())
