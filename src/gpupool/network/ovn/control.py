"""Asks running daemons of OVN, and writes what the databases say of their own service."""

from __future__ import annotations

import errno
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.ovn.session import OvsdbSession

#: By database, the table with the settings of its server (ovn-nb(5), ovn-sb(5)).
_SETTINGS: Final = {"OVN_Northbound": "NB_Global", "OVN_Southbound": "SB_Global"}

#: Seconds in which a daemon answers a command, also one that computes for a large pool.
_ANSWER_SECONDS: Final = 5.0


def is_controller_connected(run: Path) -> bool:
    """Whether ovn-controller is connected to its southbound database; false where it is not up."""
    return ask_controller(run, "connection-status") == "connected"


def ask_controller(run: Path, command: str) -> str:
    """Return what ovn-controller answers to a command of its control socket; empty: nothing."""
    try:
        pid = (run / "ovn-controller.pid").read_text().strip()
    except FileNotFoundError:
        return ""
    return ask_daemon(run / f"ovn-controller.{pid}.ctl", command)


def listen_on(remote: str, database: str, targets: Collection[str]) -> None:
    """Let a database's server listen there and nowhere else. Idempotent.

    Args:
        remote: where the server is reached now.
        targets: as `pssl:6641:10.0.0.1`.

    Raises:
        NetworkingUnavailable: the server does not answer.
    """
    settings = _SETTINGS[database]
    tables = {settings: ("connections",), "Connection": ("target",)}
    session = OvsdbSession(remote, database, tables)

    def write(transaction: Any) -> None:
        row = next(iter(session.get_rows(settings).values()), None)
        if row is None:
            row = transaction.insert(session.get_table(settings))
        elif {one.target for one in row.connections} == set(targets):
            return
        made = []
        for target in targets:
            connection = transaction.insert(session.get_table("Connection"))
            connection.target = target
            made.append(connection)
        row.connections = made

    try:
        session.commit(write)
    finally:
        session.close()


def remove_chassis(remote: str, known: Collection[str]) -> list[str]:
    """Remove the rows of chassis that are not known from a southbound database; return their names.

    Raises NetworkingUnavailable.
    """
    tables = {"Chassis": ("name",), "Chassis_Private": ("name",)}
    session = OvsdbSession(remote, "OVN_Southbound", tables)
    removed = set[str]()

    def write(_transaction: Any) -> None:
        removed.clear()
        for table in tables:
            for row in list(session.get_rows(table).values()):
                if row.name not in known:
                    removed.add(row.name)
                    row.delete()

    try:
        session.commit(write)
    finally:
        session.close()
    return sorted(removed)


def ask_daemon(
    path: Path, command: str, words: Sequence[str] = (), seconds: float = _ANSWER_SECONDS
) -> str:
    """Return what a daemon answers at its control socket; empty where it does not in time.

    One that waits for a database while it ends takes commands and answers none.
    """
    library = _import_library()
    error, stream = library.Stream.open_block(library.Stream.open(f"unix:{path}"))
    if error:
        return ""
    connection = library.Connection(stream)
    try:
        connection.send(library.Message.create_request(command, list(words)))
        return _await_answer(library, connection, time.monotonic() + seconds)
    finally:
        connection.close()


def _await_answer(library: Any, connection: Any, deadline: float) -> str:
    while True:
        connection.run()
        error, message = connection.recv()
        if not error:
            is_answer = message.type == library.Message.T_REPLY
            return str(message.result).strip() if is_answer else ""
        left = deadline - time.monotonic()
        if error != errno.EAGAIN or left <= 0:
            return ""
        poller = library.Poller()
        connection.wait(poller)
        connection.recv_wait(poller)
        poller.timer_wait(left * 1000)
        poller.block()


def _import_library() -> Any:
    try:
        import ovs.jsonrpc
        import ovs.poller
        import ovs.stream
    except ImportError as error:
        raise NetworkingUnavailable(
            f"networks need Open vSwitch's Python library: {error}",
            hint="pip install 'gpupool[network]'",
        ) from error
    return SimpleNamespace(
        Connection=ovs.jsonrpc.Connection,
        Message=ovs.jsonrpc.Message,
        Poller=ovs.poller.Poller,
        Stream=ovs.stream.Stream,
    )
