"""DNS records as the owners of their networks see them. Thread-safe."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address
from typing import Any, Final

import sqlalchemy as sa

from gpupool.base.errors import BadAddress, BadName, NameTaken, TooManyNetworks, UnknownNetwork
from gpupool.model.tenant import Principal
from gpupool.network.ipv6 import addresses as ipv6
from gpupool.network.lookup import FindNetwork
from gpupool.network.model import make_domain
from gpupool.network.naming.reading import describe_records
from gpupool.network.naming.tables import dns_records
from gpupool.network.resolver_rows import is_host_name
from gpupool.store.database import Store, WriteTransaction
from gpupool.wire.network.dns_records import DnsRecordIn, DnsRecordOut

#: Records of one network, at most.
MOST_RECORDS: Final = 256


class DnsRecordService:
    """DNS records of networks."""

    def __init__(self, store: Store, find_network: FindNetwork) -> None:
        self._store = store
        self._find_network = find_network

    def list_records(
        self, caller: Principal, name: str, tenant: str | None = None
    ) -> list[DnsRecordOut]:
        """List the records of a network by name. Raises UnknownNetwork."""
        with self._store.read() as connection:
            return describe_records(
                connection, self._find_network(connection, caller, name, tenant)
            )

    def create_record(
        self, caller: Principal, name: str, body: DnsRecordIn, tenant: str | None = None
    ) -> DnsRecordOut:
        """Let a name of a network have an address. Several give a name several addresses.

        Raises:
            UnknownNetwork: `name` is no network of the caller.
            BadName, BadAddress: no host name, or no address that a program can connect to.
            NameTaken: the name has that address already.
            TooManyNetworks: the network has as many records as it may.
        """
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            host = _parse_name(body.name, network)
            address = _parse_address(body.address)
            shown = describe_records(write.connection, network)
            if (host, str(address)) in {(one.name, one.address) for one in shown}:
                raise NameTaken(
                    f"{host} of network {network.name} has the address {address} already",
                    hint=f"gpupool network dns-list {network.name}",
                )
            if len(shown) >= MOST_RECORDS:
                raise TooManyNetworks(
                    f"network {network.name} has {len(shown)} DNS records; "
                    f"{MOST_RECORDS} is the most",
                    hint=f"delete one: gpupool network dns-delete {network.name} NAME ADDRESS",
                    limit=MOST_RECORDS,
                )
            write.insert(
                dns_records,
                network_id=network.id,
                name=host,
                address=str(address),
                created_ns=write.now_ns,
            )
            shown = describe_records(write.connection, network)
            out = next(one for one in shown if (one.name, one.address) == (host, str(address)))
            _finish(write, "created", network, host, str(address))
            write.answer(201, out.model_dump(mode="json"))
        return out

    def delete_record(
        self, caller: Principal, name: str, host: str, address: str, tenant: str | None = None
    ) -> None:
        """Delete a record. Names of jobs are none. Raises UnknownNetwork."""
        address = _spell_address(address)
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            ours = sa.and_(
                dns_records.c.network_id == network.id,
                dns_records.c.name == host.lower(),
                dns_records.c.address == address,
            )
            if not write.execute(dns_records.delete().where(ours)).rowcount:
                raise UnknownNetwork(
                    f"network {network.name} has no DNS record {host[:80]!r} {address[:40]!r}",
                    hint=f"gpupool network dns-list {network.name}",
                )
            _finish(write, "deleted", network, host.lower(), address)
            write.answer(204, None)


def delete_records(write: WriteTransaction, network_id: int) -> None:
    """Delete the records of a network that is deleted, in the caller's transaction."""
    write.execute(dns_records.delete().where(dns_records.c.network_id == network_id))


def _parse_name(text: str, network: Any) -> str:
    domain = make_domain(network.name)
    host = text.lower()
    if not is_host_name(host, domain):
        raise BadName(
            f"not a host name in the domain {domain}: {text[:80]!r}",
            hint="a host name has letters, digits and hyphens, and dots between its parts: db.store",
        )
    return host


def _parse_address(text: str) -> IPv4Address | IPv6Address:
    address = ipv6.parse_address(text) if ":" in text else _parse_ipv4(text)
    if address.is_unspecified or address.is_multicast or address.is_reserved:
        raise BadAddress(
            f"{address} is an address that no program can connect to",
            hint="take the address of a job, a load balancer or a machine outside",
        )
    return address


def _spell_address(text: str) -> str:
    """Return an address as records have it: IPv6 has several spellings. What is none stays."""
    try:
        return str(ip_address(text))
    except ValueError:
        return text


def _parse_ipv4(text: str) -> IPv4Address:
    try:
        return IPv4Address(text)
    except AddressValueError as error:
        raise BadAddress(
            f"not an IPv4 address: {text[:60]!r}", hint="write it like 10.0.0.20"
        ) from error


def _finish(write: WriteTransaction, what: str, network: Any, host: str, address: str) -> None:
    data = {"network": network.public_id, "name": host, "address": address}
    write.event(f"network.dns_{what}", network.name, tenant_id=network.tenant_id, data=data)
    write.announce(("network", network.id))
