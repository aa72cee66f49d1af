"""The row of the engine: how it is, and work that is given to its machines again. Run in a caller's transaction."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.forwarding.open_ports import parse_ports
from gpupool.network.gateways.reading import list_gateway_agents, read_pair_row
from gpupool.network.gateways.reports import apply_gateway_uplink
from gpupool.network.machines import service as machines
from gpupool.network.tables import network_engine, networks
from gpupool.network.zones.placement import USUAL_SIZE
from gpupool.store.write_transaction import WriteTransaction
from gpupool.wire.network.engine import NetworkEngineReport


def renew_work(write: WriteTransaction) -> None:
    """Give the centre and the machines of gateways their work again. In the caller's transaction."""
    row = read_engine_row(write.connection)
    if row is not None:
        others = list_gateway_agents(write.connection, row.agent)
        machines.announce_machines(write, dict.fromkeys([row.agent, *others]))


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


def write_engine_row(write: WriteTransaction, agent: str) -> None:
    """Write the row of an engine that starts, in place of the one before; its settings stay.

    Args:
        agent: the centre.
    """
    before = write.execute(sa.select(network_engine)).one_or_none()
    write.execute(network_engine.delete())
    write.insert(
        network_engine,
        id=1,
        agent=agent,
        state="starting",
        reason="",
        northbound="",
        work_seq=write.touch_ledger(),
        forward_ports="" if before is None else before.forward_ports,
        line_interface="" if before is None else before.line_interface,
        line_vlans="" if before is None else before.line_vlans,
        zone_size=USUAL_SIZE if before is None else before.zone_size,
        gateway_ipv6=before is not None and before.gateway_ipv6,
    )


def apply_centre_report(write: WriteTransaction, row: Any, report: NetworkEngineReport) -> None:
    """Apply what the centre says to the engine's own row."""
    values = {
        "state": report.state,
        "reason": report.reason,
        "northbound": report.northbound,
    }
    if all(getattr(row, name) == value for name, value in values.items()):
        return
    write.execute(network_engine.update().values(**values))
    write.announce("network-engine")


def apply_uplink(write: WriteTransaction, row: Any, agent: str, prefix: str) -> None:
    """Keep the prefix of the uplink that a machine of gateways reports."""
    if read_pair_row(write.connection) is not None:
        has_changed = apply_gateway_uplink(write, row, agent, prefix)
    else:
        has_changed = row.agent == agent and row.uplink != prefix
        if has_changed:
            write.execute(network_engine.update().values(uplink=prefix))
    if has_changed:
        _announce_gateways(write)
        # Agents learn of the forwards once the addresses of gateways are known.
        renew_work(write)
        write.announce("network-engine")


def change_gateways(write: WriteTransaction, row: Any, wanted: bool | None) -> None:
    """Let gateways carry IPv6 too, or IPv4 alone; None leaves it as it is."""
    if wanted is None or wanted == row.gateway_ipv6:
        return
    write.execute(network_engine.update().values(gateway_ipv6=wanted))
    write.event("network.gateway_ipv6_set", row.agent, data={"gateway_ipv6": wanted})
    _announce_gateways(write)
    renew_work(write)


def _announce_gateways(write: WriteTransaction) -> None:
    """Announce the networks whose rows depend on the uplink."""
    found = write.execute(sa.select(networks.c.id).where(networks.c.has_gateway)).scalars()
    write.announce(*(("network", network_id) for network_id in found))
