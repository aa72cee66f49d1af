"""The row of the engine: how it is, and work that is given to its machines again. Run in a caller's transaction."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.forwarding.open_ports import parse_ports
from gpupool.network.machines import service as machines
from gpupool.network.tables import network_engine, networks
from gpupool.store.write_transaction import WriteTransaction
from gpupool.wire.network.networks import NetworkEngineReport


def renew_work(write: WriteTransaction) -> None:
    """Give the engine's agent its work again, since some of it changed. In the caller's transaction."""
    row = read_engine_row(write.connection)
    if row is not None:
        machines.announce_machines(write, [row.agent])


def renew_machines(write: WriteTransaction) -> None:
    """Give the agents of all machines of the engine their work again. In the caller's transaction."""
    if read_engine_row(write.connection) is not None:
        machines.announce_machines(write)


def read_open_ports(connection: sa.Connection) -> range:
    """Read the ports of the pool's machine that are for tenants."""
    row = read_engine_row(connection)
    return parse_ports(row.forward_ports) if row is not None and row.forward_ports else range(0)


def require_ready(connection: sa.Connection) -> None:
    """Raise NetworkingUnavailable unless networks can take jobs now."""
    row = read_engine_row(connection)
    if row is None:
        raise NetworkingUnavailable(
            "networking is not enabled in this pool",
            hint="an admin enables it: gpupool network enable",
        )
    if row.state != "ready":
        reason = f": {row.reason}" if row.reason else ""
        raise NetworkingUnavailable(
            f"the engine of networks is {row.state}{reason}", hint="gpupool network status"
        )


def read_engine_row(connection: sa.Connection) -> Any:
    """Return the row of an engine that is enabled, or on its way to be or not to be; else None."""
    query = sa.select(network_engine).where(network_engine.c.state != "off")
    return connection.execute(query).one_or_none()


def apply_centre_report(write: WriteTransaction, row: Any, report: NetworkEngineReport) -> None:
    """Apply what the centre says to the engine's own row."""
    values = {
        "state": report.state,
        "reason": report.reason,
        "northbound": report.northbound,
        "uplink": report.uplink,
    }
    if all(getattr(row, name) == value for name, value in values.items()):
        return
    write.execute(network_engine.update().values(**values))
    if row.uplink != report.uplink:
        _announce_gateways(write)
        # The agent learns of the forwards once the addresses of gateways are known.
        renew_work(write)
    write.announce("network-engine")


def _announce_gateways(write: WriteTransaction) -> None:
    """Announce the networks whose rows depend on the uplink."""
    found = write.execute(sa.select(networks.c.id).where(networks.c.has_gateway)).scalars()
    write.announce(*(("network", network_id) for network_id in found))
