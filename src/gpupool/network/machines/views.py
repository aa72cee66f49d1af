"""Describes the engine and its machines, as the API shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.network.external.membership import describe_ovn, read_ovn
from gpupool.network.floating.opening import read_floating_prefix
from gpupool.network.gateways.reading import describe_pair
from gpupool.network.machines.database_servers import read_servers
from gpupool.network.machines.database_views import (
    describe_danger,
    describe_servers,
    has_lost_majority,
)
from gpupool.network.machines.service import read_machines
from gpupool.network.tables import network_ports, networks
from gpupool.network.zones.reports import describe_zones
from gpupool.wire.network.networks import NetworkEngineOut, NetworkMachineOut


def describe_engine(
    connection: sa.Connection, row: Any, is_silent: Callable[[str], bool]
) -> NetworkEngineOut:
    """Describe the engine by its row; None where it is off."""
    counts = {
        "networks": count_rows(connection, networks),
        "jobs": count_rows(connection, network_ports),
    }
    if row is None:
        return NetworkEngineOut(state="off", **counts)
    state = row.state
    reason = row.reason
    if state == "stopping":
        ovn = read_ovn(connection)
        reason = reason if ovn is None else ovn.reason
    databases = describe_servers(read_servers(connection), is_silent)
    if has_lost_majority(databases):
        state = "failed"
        reason = describe_danger(databases)
    elif databases and is_silent(row.agent):
        reason = (
            f"the agent of {row.agent}, the centre, does not answer: changes go on, gateways stay "
            "as they are; for another centre: gpupool network enable --node NODE"
        )
    elif state == "ready" and is_silent(row.agent):
        state = "failed"
        reason = (
            f"the agent of {row.agent}, the centre, does not answer: traffic goes on, changes wait; "
            "for another centre: gpupool network enable --node NODE"
        )
    return NetworkEngineOut(
        state=state,
        reason=reason,
        node=row.agent,
        forward_ports=row.forward_ports,
        floating_ips=read_floating_prefix(connection),
        gateway_ipv6=row.gateway_ipv6,
        line_interface=row.line_interface,
        line_vlans=row.line_vlans,
        machines=_describe_machines(connection, row.agent, is_silent),
        databases=databases,
        gateways=describe_pair(connection, is_silent),
        zone_size=row.zone_size,
        zones=describe_zones(connection, row),
        ovn=describe_ovn(connection),
        **counts,
    )


def describe_waiting(
    machines: Sequence[NetworkMachineOut], waiting: Sequence[NetworkMachineOut]
) -> str:
    """Say how many machines take no jobs with a network, and why the first of them does not."""
    first = waiting[0]
    reason = f": {first.reason}" if first.reason else ""
    return (
        f"{len(waiting)} of {len(machines)} machines take no jobs with a network; {first.node} is "
        f"{first.state}{reason}"
    )


def count_rows(connection: sa.Connection, table: sa.Table) -> int:
    """Count the rows of a table."""
    return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def _describe_machines(
    connection: sa.Connection, centre: str, is_silent: Callable[[str], bool]
) -> list[NetworkMachineOut]:
    """Describe the machines, the centre first."""
    rows = sorted(read_machines(connection), key=lambda row: (row.agent != centre, row.id))
    found = list[NetworkMachineOut]()
    for row in rows:
        silent = is_silent(row.agent)
        found.append(
            NetworkMachineOut(
                node=row.agent,
                role="centre" if row.agent == centre else "member",
                state="silent" if silent else row.state,
                reason="its agent does not answer" if silent else row.reason,
                tunnel_address=row.tunnel or None,
                mtu=row.mtu or None,
                datapath=row.datapath,
                version=row.version,
            )
        )
    return found
