"""Asks running daemons of OVN, and writes what the databases say of their own service."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.ovn.session import OvsdbSession

#: By database, the table with the settings of its server (ovn-nb(5), ovn-sb(5)).
_SETTINGS: Final = {"OVN_Northbound": "NB_Global", "OVN_Southbound": "SB_Global"}


def is_controller_connected(run: Path) -> bool:
    """Whether ovn-controller is connected to its southbound database; false where it is not up."""
    try:
        pid = (run / "ovn-controller.pid").read_text().strip()
    except FileNotFoundError:
        return False
    return _ask(run / f"ovn-controller.{pid}.ctl", "connection-status") == "connected"


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


def _ask(path: Path, command: str) -> str:
    """Return what a daemon answers at its control socket; empty where it does not."""
    try:
        import ovs.unixctl.client
    except ImportError as error:
        raise NetworkingUnavailable(
            f"networks need Open vSwitch's Python library: {error}",
            hint="pip install 'gpupool[network]'",
        ) from error
    error_number, client = ovs.unixctl.client.UnixctlClient.create(os.fspath(path))
    if error_number:
        return ""
    try:
        error_number, failure, answer = client.transact(command, [])
    finally:
        client.close()
    return "" if error_number or failure else str(answer).strip()
