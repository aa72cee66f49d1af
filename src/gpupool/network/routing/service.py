"""Route tables as the owners of their networks see them. Thread-safe."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import StillInUse, TooManyNetworks, UnknownNetwork
from gpupool.base.ids import new_id
from gpupool.model.tenant import Principal
from gpupool.network.lookup import FindNetwork
from gpupool.network.model import Network
from gpupool.network.reading import read_networks
from gpupool.network.routing.checks import check_subnet, parse_route
from gpupool.network.routing.reading import describe_table
from gpupool.network.routing.tables import network_routes
from gpupool.network.tables import subnets
from gpupool.store.database import Store, WriteTransaction
from gpupool.wire.network.routes import RouteIn, RouteOut

#: Static routes of one network, at most.
MOST_ROUTES = 100


class RouteService:
    """Static routes of networks, and the tables that they are in."""

    def __init__(self, store: Store, find_network: FindNetwork) -> None:
        self._store = store
        self._find_network = find_network

    def list_routes(
        self, caller: Principal, name: str, tenant: str | None = None
    ) -> list[RouteOut]:
        """List all routes of a network, by prefix, with those in force. Raises UnknownNetwork."""
        with self._store.read() as connection:
            row = self._find_network(connection, caller, name, tenant)
            return describe_table(_read_network(connection, row))

    def create_route(
        self, caller: Principal, name: str, body: RouteIn, tenant: str | None = None
    ) -> RouteOut:
        """Lead packets for a prefix to a job, or discard them.

        The job at the next hop may from then on send and receive packets of the prefix, and send
        those of the prefixes that the route names: of its network alone, none of them leave it.

        Raises:
            UnknownNetwork: there is no such network, or no such subnet in it.
            BadAddress, WrongState: of the prefix or the next hop.
            OverlappingSubnets: it would take addresses of a subnet away.
            NameTaken: another route has the prefix.
            TooManyNetworks: the network has as many routes as it may.
        """
        with self._store.write() as write:
            row = self._find_network(write.connection, caller, name, tenant)
            subnet = _find_subnet(write.connection, row, body.subnet)
            network = _read_network(write.connection, row)
            subnet_key = None if subnet is None else subnet.public_id
            route = parse_route(new_id("t"), body, network, subnet_key)
            if len(network.routes) >= MOST_ROUTES:
                raise TooManyNetworks(
                    f"network {row.name} has {len(network.routes)} routes; {MOST_ROUTES} is the "
                    "most",
                    hint=f"gpupool network route-list {row.name}",
                    limit=MOST_ROUTES,
                )
            write.insert(
                network_routes,
                public_id=route.key,
                network_id=row.id,
                subnet_id=None if subnet is None else subnet.id,
                prefix=str(route.prefix),
                via=None if route.via is None else str(route.via),
                forwards=[str(prefix) for prefix in route.forwards],
                created_ns=write.now_ns,
            )
            _finish(write, "created", row, str(route.prefix))
            shown = describe_table(_read_network(write.connection, row))
            out = next(one for one in shown if one.id == route.key)
            write.answer(201, out.model_dump(mode="json"))
        return out

    def delete_route(
        self, caller: Principal, name: str, route: str, tenant: str | None = None
    ) -> None:
        """Delete a static route. Raises UnknownNetwork."""
        with self._store.write() as write:
            row = self._find_network(write.connection, caller, name, tenant)
            ours = sa.and_(
                network_routes.c.network_id == row.id, network_routes.c.public_id == route
            )
            gone = write.execute(
                network_routes.delete().where(ours).returning(network_routes.c.prefix)
            ).scalar_one_or_none()
            if gone is None:
                raise UnknownNetwork(
                    f"network {row.name} has no static route {route[:80]!r}",
                    hint=f"gpupool network route-list {row.name}",
                )
            _finish(write, "deleted", row, gone)
            write.answer(204, None)


def refuse_routed_subnet(connection: sa.Connection, network: Any, subnet: Any) -> None:
    """Raise StillInUse where routes are for a subnet, or lead to a next hop in it."""
    query = sa.select(network_routes).where(network_routes.c.network_id == network.id)
    prefixes = [ip_network(text) for text in (subnet.cidr, subnet.cidr6) if text is not None]
    used = list[str]()
    for row in connection.execute(query):
        hop = None if row.via is None else ip_address(row.via)
        if row.subnet_id == subnet.id or any(hop is not None and hop in one for one in prefixes):
            used.append(row.prefix)
    if used:
        raise StillInUse(
            f"routes of subnet {subnet.name} or through it: {', '.join(used[:5])}",
            hint=f"gpupool network route-list {network.name}",
            routes=used,
        )


def check_new_subnet(
    connection: sa.Connection, network_id: int, cidr: IPv4Network | IPv6Network
) -> None:
    """Raise OverlappingSubnets where a new subnet would take addresses of static routes."""
    query = sa.select(network_routes.c.prefix).where(network_routes.c.network_id == network_id)
    check_subnet(cidr, [ip_network(text) for text in connection.execute(query).scalars()])


def _read_network(connection: sa.Connection, row: Any) -> Network:
    return read_networks(connection, [row.public_id])[row.public_id]


def _find_subnet(connection: sa.Connection, network: Any, name: str | None) -> Any:
    if name is None:
        return None
    query = sa.select(subnets).where(subnets.c.network_id == network.id, subnets.c.name == name)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise UnknownNetwork(
            f"network {network.name} has no subnet {name[:80]!r}",
            hint=f"gpupool network show {network.name}",
        )
    return row


def _finish(write: WriteTransaction, what: str, network: Any, prefix: str) -> None:
    data = {"network": network.public_id, "prefix": prefix}
    write.event(f"network.route_{what}", network.name, tenant_id=network.tenant_id, data=data)
    write.announce(("network", network.id))
