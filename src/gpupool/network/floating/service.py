"""Floating IPs as the owners of their networks see them. Thread-safe."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import (
    BadAddress,
    NameTaken,
    TooManyNetworks,
    UnknownNetwork,
    WrongState,
)
from gpupool.base.ids import new_id
from gpupool.model.tenant import Principal
from gpupool.network.engine_row import renew_work, require_ready
from gpupool.network.floating.choices import choose_floating
from gpupool.network.floating.opening import read_floating_prefix
from gpupool.network.floating.reading import (
    choose_inner,
    count_floating,
    describe_floating,
    read_taken,
)
from gpupool.network.floating.tables import floating_ips
from gpupool.network.lookup import FindNetwork
from gpupool.network.model import make_dns_name
from gpupool.network.quotas.check import refuse_above_quota
from gpupool.network.tables import network_ports, subnets
from gpupool.store.database import Store, WriteTransaction
from gpupool.wire.network.floating_ips import FloatingIpIn, FloatingIpOut

#: Floating IPs of one tenant at most.
MOST_FLOATING_IPS = 16


class FloatingIpService:
    """Floating IPs of networks."""

    def __init__(self, store: Store, find_network: FindNetwork) -> None:
        self._store = store
        self._find_network = find_network

    def list_floating(
        self, caller: Principal, name: str, tenant: str | None = None
    ) -> list[FloatingIpOut]:
        """List the floating IPs of a network by address. Raises UnknownNetwork."""
        with self._store.read() as connection:
            network = self._find_network(connection, caller, name, tenant)
            return describe_floating(connection, network)

    def get_floating(
        self, caller: Principal, name: str, floating: str, tenant: str | None = None
    ) -> FloatingIpOut:
        """Return a floating IP, by id, address or target. Raises UnknownNetwork."""
        with self._store.read() as connection:
            network = self._find_network(connection, caller, name, tenant)
            return _find(connection, network, floating)

    def create_floating(
        self, caller: Principal, name: str, body: FloatingIpIn, tenant: str | None = None
    ) -> FloatingIpOut:
        """Give a job an address outside. It may run already, or start later.

        The address stays when the job ends, and is of the next one with its name or address.

        Raises:
            UnknownNetwork: `name` is no network of the caller.
            NetworkingUnavailable: networking is off, or its engine cannot work.
            WrongState: the network has no gateway, the target is several jobs, or the address is
                not for tenants.
            BadAddress: the target's address is of no subnet of the network.
            NameTaken: the address is taken, or the target has one already.
            TooManyNetworks: the tenant has as many as it may, or all are taken.
        """
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            require_ready(write.connection)
            if not network.has_gateway:
                raise WrongState(
                    f"network {network.name} has no gateway, so nothing outside leads to it",
                    hint=f"gpupool network gateway-create {network.name}",
                )
            target = _parse_target(write.connection, network, body.target)
            _refuse_array(write.connection, network, target)
            _refuse_repeated(write.connection, network, target)
            refuse_above_quota(write.connection, network.tenant_id, "floating_ips")
            _refuse_more(write.connection, network.tenant_id)
            prefix = read_floating_prefix(write.connection)
            address = choose_floating(
                IPv4Network(prefix) if prefix else None,
                body.address,
                read_taken(write.connection),
            )
            key = new_id("i")
            write.insert(
                floating_ips,
                public_id=key,
                network_id=network.id,
                address=str(address),
                inner_number=choose_inner(write.connection),
                target=target,
                created_ns=write.now_ns,
                state="starting",
                reason="",
                probed_ns=None,
            )
            out = _find(write.connection, network, key)
            _finish(write, "created", network, out)
            write.answer(201, out.model_dump(mode="json"))
        return out

    def delete_floating(
        self, caller: Principal, name: str, floating: str, tenant: str | None = None
    ) -> None:
        """Release a floating IP; connections through it end. Raises UnknownNetwork."""
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            found = _find(write.connection, network, floating)
            write.execute(floating_ips.delete().where(floating_ips.c.public_id == found.id))
            _finish(write, "deleted", network, found)
            write.answer(204, None)


def _parse_target(connection: sa.Connection, network: Any, text: str) -> str:
    """Return the DNS name or the address of a target in its one form."""
    try:
        address = IPv4Address(text)
    except ValueError:
        name = ".".join(make_dns_name(part) for part in text.split("."))
        if not name.strip("."):
            raise BadAddress(
                f"{text[:60]!r} is neither a job's name nor an address",
                hint=f"gpupool network show {network.name}  lists the jobs in the network",
            ) from None
        return name
    query = sa.select(subnets.c.cidr).where(subnets.c.network_id == network.id)
    prefixes = list(connection.execute(query).scalars())
    if not any(address in IPv4Network(prefix) for prefix in prefixes):
        raise BadAddress(
            f"no job of network {network.name} can have {address}; its subnets are "
            f"{', '.join(prefixes)}",
            hint=f"gpupool network show {network.name}  lists the jobs with their addresses",
        )
    return str(address)


def _refuse_repeated(connection: sa.Connection, network: Any, target: str) -> None:
    """Raise NameTaken where a target has a floating IP, by its name or its address."""
    words = {target}
    for port in _read_ports(connection, network.id):
        if target in (port.name, port.address):
            words |= {port.name, port.address}
    for one in describe_floating(connection, network):
        if one.target in words:
            raise NameTaken(
                f"{target} already has the floating IP {one.address}, of {one.target}",
                hint=f"release it first: gpupool network floating-ip-delete {network.name} "
                f"{one.address}",
            )


def _refuse_array(connection: sa.Connection, network: Any, target: str) -> None:
    """Raise WrongState where a target is the name of several jobs together."""
    names = [port.name for port in _read_ports(connection, network.id)]
    members = [name for name in names if name.partition(".")[2] == target]
    if members and target not in names:
        raise WrongState(
            f"{target} is {len(members)} jobs, and a floating IP is one job's",
            hint=f"name one of them, as {members[0]}, or forward a port to all: "
            f"gpupool network forward-create {network.name} {target} --target-port PORT",
        )


def _read_ports(connection: sa.Connection, network_id: int) -> Sequence[Any]:
    query = sa.select(network_ports.c.name, network_ports.c.address)
    found = query.where(network_ports.c.network_id == network_id).order_by(network_ports.c.id)
    return connection.execute(found).all()


def _refuse_more(connection: sa.Connection, tenant_id: int) -> None:
    count = count_floating(connection, tenant_id)
    if count >= MOST_FLOATING_IPS:
        raise TooManyNetworks(
            f"the tenant has {count} floating IPs; {MOST_FLOATING_IPS} is the most",
            hint="release one: gpupool network floating-ip-delete NETWORK ADDRESS",
            limit=MOST_FLOATING_IPS,
        )


def _find(connection: sa.Connection, network: Any, floating: str) -> FloatingIpOut:
    for found in describe_floating(connection, network):
        if floating in (found.id, found.address, found.target):
            return found
    raise UnknownNetwork(
        f"network {network.name} has no floating IP {floating[:80]!r}",
        hint=f"gpupool network floating-ip-list {network.name}",
    )


def _finish(write: WriteTransaction, what: str, network: Any, floating: FloatingIpOut) -> None:
    data = {"network": network.name, "address": floating.address, "target": floating.target}
    kind = f"network.floating_ip_{what}"
    write.event(kind, floating.id, tenant_id=network.tenant_id, data=data)
    renew_work(write)
    write.announce(("network", network.id))
