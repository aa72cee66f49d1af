"""Addresses that submissions ask for: checked once, and kept free for their job until its end.

A job has the address that it asked for from its submission on, so its grant never waits for it.
Everything runs in the caller's transaction.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import AddressTaken, BadAddress
from gpupool.model.job import LIVE
from gpupool.network.addresses import find_gateway
from gpupool.network.balancing.proxy_tables import http_balancers
from gpupool.network.balancing.tables import load_balancers
from gpupool.network.ipv6 import addresses as ipv6
from gpupool.network.tables import network_ports, subnets

# Jobs belong to a package above this one, so their tables are named and not imported.
_CLAIMS = sa.table(
    "claims",
    sa.column("id"),
    sa.column("network_id"),
    sa.column("network_address"),
    sa.column("network_address6"),
)
_JOBS = sa.table(
    "jobs", sa.column("id"), sa.column("claim_id"), sa.column("name"), sa.column("state")
)
_ALLOCATIONS = sa.table("allocations", sa.column("id"), sa.column("job_id"))
_LIVE_STATES = [str(state) for state in sorted(LIVE)]


def read_requested(connection: sa.Connection, network_id: int) -> dict[IPv4Address, str]:
    """Read the addresses that live jobs of a network asked for, with the name of each job."""
    rows = _read_claimed(connection, network_id, _CLAIMS.c.network_address)
    return {IPv4Address(address): job for address, job in rows}


def read_requested6(connection: sa.Connection, network_id: int) -> dict[IPv6Address, str]:
    """Read the IPv6 addresses that live jobs of a network asked for, with the name of each job."""
    rows = _read_claimed(connection, network_id, _CLAIMS.c.network_address6)
    return {IPv6Address(address): job for address, job in rows}


def _read_claimed(
    connection: sa.Connection, network_id: int, column: sa.ColumnClause[Any]
) -> list[tuple[str, str]]:
    query = (
        sa.select(column, _JOBS.c.name)
        .select_from(_CLAIMS.join(_JOBS, _JOBS.c.claim_id == _CLAIMS.c.id))
        .where(
            _CLAIMS.c.network_id == network_id,
            column.is_not(None),
            _JOBS.c.state.in_(_LIVE_STATES),
        )
    )
    return [(row[0], row[1]) for row in connection.execute(query)]


def check_requested(connection: sa.Connection, network_id: int, text: str) -> IPv4Address:
    """Parse an address that a submission asks for, and check that its job may have it.

    Raises:
        BadAddress: no address of the network's subnets, or one that no job may have.
        AddressTaken: another job has it or asked for it before.
    """
    try:
        address = IPv4Address(text)
    except ValueError as error:
        raise BadAddress(
            f"not an IPv4 address: {text[:60]!r}", hint="write it like 10.0.0.20"
        ) from error
    subnet = find_subnet(connection, network_id, address)
    _refuse_reserved(subnet, address)
    _refuse_balancers(connection, subnet.id, address)
    owner = _find_owner(connection, subnet.id, network_ports.c.address, str(address))
    _refuse_taken(address, owner or read_requested(connection, network_id).get(address))
    return address


def check_requested6(
    connection: sa.Connection, network_id: int, text: str
) -> tuple[IPv6Address, Any]:
    """Parse an IPv6 address that a submission asks for, and check that its job may have it.

    Returns:
        The address, and the row of its subnet.

    Raises as `check_requested`.
    """
    address = ipv6.parse_address(text)
    subnet = _find_subnet6(connection, network_id, address)
    cidr6 = IPv6Network(subnet.cidr6)
    reservation = ipv6.find_reservation(cidr6, address)
    if reservation is not None:
        raise BadAddress(
            f"{address} of {cidr6} is {reservation}",
            hint=f"jobs have addresses from {cidr6[2]} on",
        )
    owner = _find_owner(connection, subnet.id, network_ports.c.address6, str(address))
    _refuse_taken(address, owner or read_requested6(connection, network_id).get(address))
    return address, subnet


def _refuse_taken(address: IPv4Address | IPv6Address, owner: str | None) -> None:
    if owner is None:
        return
    # All jobs of a network are its tenant's own.
    raise AddressTaken(
        f"job {owner[:80]} has the address {address}",
        hint=f"wait for it or stop it: gpupool show {owner[:80]}; or ask for another address",
        address=str(address),
        job=owner,
    )


def _find_subnet6(connection: sa.Connection, network_id: int, address: IPv6Address) -> Any:
    query = sa.select(subnets).where(
        subnets.c.network_id == network_id, subnets.c.cidr6.is_not(None)
    )
    rows = connection.execute(query.order_by(subnets.c.id)).all()
    for row in rows:
        if address in IPv6Network(row.cidr6):
            return row
    if not rows:
        raise BadAddress(
            f"{address} is an IPv6 address, and no subnet of the network has IPv6",
            hint="add one: gpupool network subnet-create NAME --cidr PREFIX --cidr6 auto",
        )
    raise BadAddress(
        f"{address} is outside of the network's subnets: {', '.join(row.cidr6 for row in rows)}",
        hint="ask for an address of one of them, or leave out --address",
    )


def find_subnet(connection: sa.Connection, network_id: int, address: IPv4Address) -> Any:
    """Return the row of a network's subnet that has an address. Raises BadAddress."""
    query = sa.select(subnets).where(subnets.c.network_id == network_id).order_by(subnets.c.id)
    rows = connection.execute(query).all()
    for row in rows:
        if address in IPv4Network(row.cidr):
            return row
    raise BadAddress(
        f"{address} is outside of the network's subnets: {', '.join(row.cidr for row in rows)}",
        hint="ask for an address of one of them, or leave out --address",
    )


def _refuse_reserved(subnet: Any, address: IPv4Address) -> None:
    cidr = IPv4Network(subnet.cidr)
    probe = subnet.probe_address
    owners = {
        cidr.network_address: "the subnet's own address",
        find_gateway(cidr): "the router's",
        cidr.broadcast_address: "the broadcast address",
    }
    if probe is not None:
        owners[IPv4Address(probe)] = "the one that probes of load balancers come from"
    if address in owners:
        raise BadAddress(
            f"{address} of {cidr} is {owners[address]}",
            hint=f"jobs have addresses from {cidr[2]} to {cidr[-2]}",
        )


def _refuse_balancers(connection: sa.Connection, subnet_id: int, address: IPv4Address) -> None:
    query = (
        sa.select(load_balancers.c.name)
        .join(http_balancers, http_balancers.c.balancer_id == load_balancers.c.id)
        .where(
            http_balancers.c.subnet_id == subnet_id,
            sa.or_(
                http_balancers.c.address == str(address),
                http_balancers.c.standby_address == str(address),
            ),
        )
    )
    found = connection.execute(query).scalar_one_or_none()
    if found is not None:
        raise BadAddress(
            f"load balancer {found} has the address {address}", hint="ask for another address"
        )


def _find_owner(
    connection: sa.Connection, subnet_id: int, column: sa.Column[Any], address: str
) -> str | None:
    query = (
        sa.select(_JOBS.c.name)
        .select_from(network_ports)
        .join(_ALLOCATIONS, _ALLOCATIONS.c.id == network_ports.c.allocation_id)
        .join(_JOBS, _JOBS.c.id == _ALLOCATIONS.c.job_id)
        .where(network_ports.c.subnet_id == subnet_id, column == address)
    )
    found: str | None = connection.execute(query).scalar_one_or_none()
    return found
