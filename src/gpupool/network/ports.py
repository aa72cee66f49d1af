"""Ports of jobs: an address from the grant of a job to its end.

Everything runs in the caller's transaction, so an address is given and taken back with the
allocation that has it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, Final

import sqlalchemy as sa

from gpupool.base.errors import SubnetFull, UnknownNetwork
from gpupool.base.ids import new_id
from gpupool.network.addresses import (
    choose_address,
    count_port_addresses,
    find_gateway,
    find_offset,
)
from gpupool.network.balancing.proxy_reading import has_proxies
from gpupool.network.balancing.proxy_tables import http_balancers
from gpupool.network.engine_row import renew_machines, renew_work
from gpupool.network.ipv6 import addresses as ipv6
from gpupool.network.ipv6.gateways import list_outside6
from gpupool.network.limiting.reading import read_limits
from gpupool.network.lookup import CountJobs
from gpupool.network.mirroring.reading import delete_port_mirrors
from gpupool.network.model import make_domain, make_port_mac
from gpupool.network.requested_addresses import find_subnet, read_requested, read_requested6
from gpupool.network.security.membership import join_groups, leave_groups
from gpupool.network.tables import network_ports, networks, subnets
from gpupool.store.database import WriteTransaction
from gpupool.wire.network.networks import PortWork

#: What a submission names to join no network, whatever the tenant's default is.
NO_NETWORK: Final = "none"

_WORK = (
    sa.select(
        network_ports,
        subnets.c.cidr,
        subnets.c.cidr6,
        networks.c.public_id.label("network"),
        networks.c.name.label("network_name"),
        networks.c.mtu,
        networks.c.has_gateway,
        networks.c.zone,
    )
    .join(subnets, subnets.c.id == network_ports.c.subnet_id)
    .join(networks, networks.c.id == network_ports.c.network_id)
    .where(network_ports.c.allocation_id.in_(sa.bindparam("allocations", expanding=True)))
)


def find_default(connection: sa.Connection, tenant_id: int) -> str | None:
    """Return the name of the network that jobs of a tenant join when they name none."""
    query = sa.select(networks.c.name).where(
        networks.c.tenant_id == tenant_id, networks.c.is_default
    )
    found: str | None = connection.execute(query).scalar_one_or_none()
    return found


def find_network_id(connection: sa.Connection, tenant_id: int, name: str) -> int:
    """Return the row id of a tenant's network. Raises UnknownNetwork."""
    query = sa.select(networks.c.id).where(
        networks.c.tenant_id == tenant_id, networks.c.name == name
    )
    found = connection.execute(query).scalar_one_or_none()
    if found is None:
        # Another tenant's network and one that does not exist are answered alike.
        raise UnknownNetwork(f"no network {name[:80]!r}", hint="gpupool network list")
    return int(found)


def find_network_name(connection: sa.Connection, network_id: int | None) -> str | None:
    """Return the name of a network by its row id; None where it is gone."""
    query = sa.select(networks.c.name).where(networks.c.id == network_id)
    found: str | None = connection.execute(query).scalar_one_or_none()
    return found


def create_port(
    write: WriteTransaction,
    network_id: int,
    allocation_id: int,
    name: str,
    group_ids: Sequence[int] = (),
    *,
    address: str | None = None,
    address6: str | None = None,
    mac: str | None = None,
) -> None:
    """Give an allocation an address in a network, and an IPv6 address where its subnet has some.

    Args:
        name: DNS name of its job in the network.
        group_ids: row ids of its security groups.
        address, address6: that its submission asked for; None: any that is free.
        mac: MAC address of its port; None: one of the port's own.

    Raises:
        SubnetFull: no subnet of the network has a free address.
    """
    if address is None:
        subnet, chosen = take_address(write, network_id)
    else:
        chosen = IPv4Address(address)
        subnet = find_subnet(write.connection, network_id, chosen)
    chosen6 = IPv6Address(address6) if address6 else _choose_free6(write.connection, subnet, chosen)
    port_id = write.insert(
        network_ports,
        public_id=new_id("n"),
        network_id=network_id,
        subnet_id=subnet.id,
        allocation_id=allocation_id,
        address=str(chosen),
        name=name,
        mac=mac,
        address6=None if chosen6 is None else str(chosen6),
    )
    join_groups(write, port_id, group_ids)
    _announce_change(write, [network_id])


def take_address(write: WriteTransaction, network_id: int) -> tuple[Any, IPv4Address]:
    """Choose a free address of a network for what is inserted next; returns its subnet's row too.

    Raises SubnetFull.
    """
    subnet, chosen = _choose_free(write.connection, network_id)
    offset = find_offset(IPv4Network(subnet.cidr), chosen)
    write.execute(subnets.update().where(subnets.c.id == subnet.id).values(next_offset=offset + 1))
    return subnet, chosen


def delete_ports(write: WriteTransaction, allocation_ids: Sequence[int]) -> None:
    """Take back the addresses of allocations that are released. Idempotent."""
    query = sa.select(network_ports.c.id, network_ports.c.network_id).where(
        network_ports.c.allocation_id.in_(allocation_ids)
    )
    gone = write.execute(query).all()
    if not gone:
        # Most jobs are in no network, and each one is released.
        return
    port_ids = [port.id for port in gone]
    leave_groups(write, port_ids)
    if delete_port_mirrors(write, port_ids):
        renew_machines(write)
    write.execute(network_ports.delete().where(network_ports.c.id.in_(port_ids)))
    _announce_change(write, sorted({port.network_id for port in gone}))


def _announce_change(write: WriteTransaction, network_ids: Sequence[int]) -> None:
    """Announce that jobs came to networks or left them."""
    write.announce(*(("network", network_id) for network_id in network_ids))
    if any(has_proxies(write.connection, network_id) for network_id in network_ids):
        renew_work(write)
    if network_ids and read_limits(write.connection, network_ids):
        # The agents read back the limits of the ports that they are sent.
        renew_machines(write)


def count_addresses(connection: sa.Connection, network_id: int) -> int:
    """Count the addresses that all ports of a network can have together."""
    query = sa.select(subnets).where(subnets.c.network_id == network_id)
    return sum(count_subnet_addresses(connection, row) for row in connection.execute(query).all())


def count_subnet_addresses(connection: sa.Connection, subnet: Any) -> int:
    """Count the addresses that jobs can have in a subnet, a row of `subnets`."""
    reserved = 0 if subnet.probe_address is None else 1
    proxies = len(_read_proxy_addresses(connection, subnet.id))
    return count_port_addresses(IPv4Network(subnet.cidr)) - reserved - proxies


def count_free_addresses(connection: sa.Connection, network_id: int) -> int:
    """Count the addresses of a network that a job gets that asked for none."""
    query = sa.select(network_ports.c.address).where(network_ports.c.network_id == network_id)
    taken = {IPv4Address(address) for address in connection.execute(query).scalars()}
    taken |= read_requested(connection, network_id).keys()
    return count_addresses(connection, network_id) - len(taken)


def refuse_too_few(connection: sa.Connection, network: Any, count_jobs: CountJobs) -> None:
    """Raise SubnetFull where a network has fewer addresses than jobs, those that wait too.

    For whatever takes addresses beside jobs: a grant never waits for an address.

    Args:
        network: a row of `networks`.
    """
    addresses = count_addresses(connection, network.id)
    present = count_jobs(connection, network.id)
    if present > addresses:
        raise SubnetFull(
            f"network {network.name} would have {addresses} addresses for jobs, and {present} jobs "
            "have one or wait for one",
            hint=f"add a subnet: gpupool network subnet-create {network.name} --cidr PREFIX",
            addresses=addresses,
            jobs=present,
        )


def choose_probe(connection: sa.Connection, subnet_id: int, cidr: IPv4Network) -> IPv4Address:
    """Choose a free address of a subnet for probes: the last one. Raises SubnetFull."""
    query = sa.select(subnets).where(subnets.c.id == subnet_id)
    taken = _read_taken(connection, connection.execute(query).one())
    return choose_address(cidr, taken, cidr.num_addresses - 2)


def read_port_work(connection: sa.Connection, allocation_ids: Sequence[int]) -> dict[int, PortWork]:
    """Read what a node needs to attach allocations to networks, by the allocation's row id."""
    found = dict[int, PortWork]()
    rows = connection.execute(_WORK, {"allocations": list(allocation_ids)}).all()
    limits = read_limits(connection, [row.network_id for row in rows])
    outside6 = list_outside6(connection) if rows else frozenset[int]()
    for row in rows:
        cidr = IPv4Network(row.cidr)
        bandwidth = limits[row.network_id].find_port(row.name)
        found[row.allocation_id] = PortWork(
            id=row.public_id,
            network=row.network,
            address=row.address,
            prefix=cidr.prefixlen,
            gateway=str(find_gateway(cidr)),
            mac=make_port_mac(row.id, row.mac),
            mtu=row.mtu,
            domain=make_domain(row.network_name),
            dns_name=row.name,
            has_gateway=row.has_gateway,
            in_kbit=bandwidth.in_kbit,
            out_kbit=bandwidth.out_kbit,
            address6=row.address6,
            gateway6=str(ipv6.find_gateway(IPv6Network(row.cidr6))) if row.address6 else None,
            zone=row.zone,
            has_outside6=row.address6 is not None and row.network_id in outside6,
        )
    return found


def choose_beside(
    connection: sa.Connection, subnet: Any, taken: Collection[IPv4Address] = ()
) -> IPv4Address:
    """Choose a free IPv4 address of a subnet, for what has to be in that one.

    Args:
        subnet: a row of `subnets`.
        taken: addresses that are not free, besides those in the database.

    Raises SubnetFull.
    """
    others = _read_taken(connection, subnet).union(taken)
    return choose_address(IPv4Network(subnet.cidr), others, subnet.next_offset)


def _choose_free6(
    connection: sa.Connection, subnet: Any, address: IPv4Address
) -> IPv6Address | None:
    """Choose an IPv6 address of a subnet for a port with that IPv4 address; None: it has none."""
    if subnet.cidr6 is None:
        return None
    cidr6 = IPv6Network(subnet.cidr6)
    query = sa.select(network_ports.c.address6).where(
        network_ports.c.subnet_id == subnet.id, network_ports.c.address6.is_not(None)
    )
    taken = {IPv6Address(one) for one in connection.execute(query).scalars()}
    taken |= read_requested6(connection, subnet.network_id).keys()
    taken |= ipv6.list_reserved(cidr6).keys()
    return ipv6.choose_address(cidr6, taken, find_offset(IPv4Network(subnet.cidr), address))


def _choose_free(connection: sa.Connection, network_id: int) -> tuple[Any, IPv4Address]:
    """Choose an address of the first subnet that has a free one."""
    query = sa.select(subnets).where(subnets.c.network_id == network_id).order_by(subnets.c.id)
    rows = connection.execute(query).all()
    for row in rows[:-1]:
        try:
            taken = _read_taken(connection, row)
            return row, choose_address(IPv4Network(row.cidr), taken, row.next_offset)
        except SubnetFull:
            continue
    last = rows[-1]
    taken = _read_taken(connection, last)
    return last, choose_address(IPv4Network(last.cidr), taken, last.next_offset)


def _read_taken(connection: sa.Connection, subnet: Any) -> set[IPv4Address]:
    """Read what no other job may have of a subnet, a row of `subnets`."""
    query = sa.select(network_ports.c.address).where(network_ports.c.subnet_id == subnet.id)
    taken = {IPv4Address(address) for address in connection.execute(query).scalars()}
    taken |= _read_proxy_addresses(connection, subnet.id)
    taken |= read_requested(connection, subnet.network_id).keys()
    if subnet.probe_address is not None:
        taken.add(IPv4Address(subnet.probe_address))
    return taken


def _read_proxy_addresses(connection: sa.Connection, subnet_id: int) -> set[IPv4Address]:
    query = sa.select(http_balancers.c.address, http_balancers.c.standby_address).where(
        http_balancers.c.subnet_id == subnet_id
    )
    found = [address for row in connection.execute(query) for address in row]
    return {IPv4Address(address) for address in found if address is not None}
