"""Networks as their tenants see them, and the engine as admins do. Thread-safe."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import BadName, NameTaken, StillInUse, TooManyNetworks, UnknownNetwork
from gpupool.base.ids import check_name, new_id
from gpupool.model.tenant import Principal
from gpupool.network.addresses import check_overlap, parse_cidr
from gpupool.network.balancing.proxies import list_subnet_balancers
from gpupool.network.balancing.service import renew_probes
from gpupool.network.engine_row import renew_work, require_ready
from gpupool.network.floating.reading import refuse_floating
from gpupool.network.forwarding.reading import refuse_forwarded
from gpupool.network.gateways.reading import choose_gateway
from gpupool.network.ipv6.subnets import find_subnet_prefix
from gpupool.network.lines.service import note_subnet
from gpupool.network.machines.service import check_mtu
from gpupool.network.parts import delete_parts
from gpupool.network.peerings import list_peered_prefixes
from gpupool.network.ports import NO_NETWORK, count_addresses, count_subnet_addresses
from gpupool.network.quotas.check import refuse_above_quota
from gpupool.network.requested_addresses import read_requested
from gpupool.network.routing.peered_prefixes import list_peers, refuse_second_way
from gpupool.network.routing.service import check_new_subnet, refuse_routed_subnet
from gpupool.network.tables import network_ports, networks, subnets
from gpupool.network.views import describe_networks
from gpupool.network.zones.service import place_network, renew_without
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.access import match_visible
from gpupool.tenancy.tenants import find_tenant
from gpupool.wire.common import Page
from gpupool.wire.network.networks import NetworkIn, NetworkOut, SubnetIn

#: Networks of one tenant, and subnets of one network, at most.
MOST_NETWORKS = 64
MOST_SUBNETS = 16


class NetworkService:
    """Networks and their subnets."""

    def __init__(self, store: Store, count_jobs: Callable[[sa.Connection, int], int]) -> None:
        """Make the service.

        Args:
            count_jobs: counts the jobs that are in a network or wait for it, by its row id.
        """
        self._store = store
        self._count_jobs = count_jobs

    def list_networks(self, caller: Principal, after: str | None, limit: int) -> Page[NetworkOut]:
        """Return networks by id: all of them for an admin, else those of the caller's tenant."""
        query = (
            sa.select(networks)
            .where(match_visible(caller, networks.c.tenant_id))
            .order_by(networks.c.public_id)
            .limit(limit + 1)
        )
        if after:
            query = query.where(networks.c.public_id > after)
        with self._store.read() as connection:
            rows = connection.execute(query).all()
            items = describe_networks(connection, rows[:limit])
        return Page[NetworkOut](items=items, next=items[-1].id if len(rows) > limit else None)

    def get_network(self, caller: Principal, name: str, tenant: str | None = None) -> NetworkOut:
        """Return a network with the jobs in it. Raises UnknownNetwork."""
        with self._store.read() as connection:
            row = self.find_network(connection, caller, name, tenant)
            return describe_networks(connection, [row], with_ports=True)[0]

    def create_network(self, caller: Principal, body: NetworkIn) -> NetworkOut:
        """Create a network with its subnets.

        Raises:
            BadName, BadAddress: of a name or a prefix.
            OverlappingSubnets: two of its subnets share addresses.
            NameTaken: the tenant has a network of that name.
            TooManyNetworks: the tenant, or the zone that is asked for, has as many as it may.
            BadQuantity: its packets do not fit into tunnels between the machines.
            UnknownNetwork, NetworkingUnavailable: of the zone that is asked for.
        """
        check_name(body.name, "network name")
        if body.name == NO_NETWORK:
            raise BadName(
                f"{NO_NETWORK!r} is no name for a network: --network {NO_NETWORK} joins none",
                hint="take another name",
            )
        with self._store.write() as write:
            tenant = find_tenant(write.connection, caller, body.tenant or caller.tenant)
            _refuse_repeated(write.connection, tenant, body.name)
            refuse_above_quota(write.connection, tenant.id, "networks")
            check_mtu(write.connection, body.mtu)
            network_id = write.insert(
                networks,
                public_id=new_id("v"),
                tenant_id=tenant.id,
                name=body.name,
                mtu=body.mtu,
                zone=place_network(write, body.zone),
                created_ns=write.now_ns,
            )
            for subnet in body.subnets:
                _insert_subnet(write, network_id, subnet)
            row = _read_row(write.connection, network_id)
            out = describe_networks(write.connection, [row])[0]
            data = {"network": row.public_id, "subnets": [one.cidr for one in out.subnets]}
            write.event("network.created", body.name, tenant_id=tenant.id, data=data)
            write.announce(("network", network_id))
            write.answer(201, out.model_dump(mode="json"))
        return out

    def create_subnet(
        self, caller: Principal, name: str, body: SubnetIn, tenant: str | None = None
    ) -> NetworkOut:
        """Add a subnet to a network. Raises as `create_network`."""
        with self._store.write() as write:
            row = self.find_network(write.connection, caller, name, tenant)
            subnet = _insert_subnet(write, row.id, body)
            peered = list_peered_prefixes(write.connection, row)
            check_new_subnet(write.connection, row.id, subnet)
            check_overlap(subnet, peered, "a peered network")
            refuse_second_way(write.connection, row.id, subnet)
            note_subnet(write, row, subnet)
            renew_probes(write, row.id)
            out = describe_networks(write.connection, [row])[0]
            data = {"network": row.public_id, "cidr": str(subnet)}
            write.event("network.subnet_created", row.name, tenant_id=row.tenant_id, data=data)
            _announce_with_peers(write, row)
            write.answer(201, out.model_dump(mode="json"))
        return out

    def delete_subnet(
        self, caller: Principal, name: str, subnet: str, tenant: str | None = None
    ) -> None:
        """Delete a subnet. Raises StillInUse while jobs are in it, or where it is the last one."""
        with self._store.write() as write:
            row = self.find_network(write.connection, caller, name, tenant)
            query = sa.select(subnets).where(subnets.c.network_id == row.id)
            others = {each.name: each for each in write.execute(query)}
            found = others.pop(subnet, None)
            if found is None:
                raise UnknownNetwork(
                    f"network {row.name} has no subnet {subnet[:80]!r}",
                    hint=f"gpupool network show {row.name}",
                )
            if not others:
                raise StillInUse(
                    f"{subnet} is the only subnet of network {row.name}",
                    hint=f"gpupool network delete {row.name}  deletes both",
                )
            self._refuse_used_subnet(write.connection, row, found)
            write.execute(subnets.delete().where(subnets.c.id == found.id))
            note_subnet(write, row)
            data = {"network": row.public_id, "cidr": found.cidr}
            write.event("network.subnet_deleted", row.name, tenant_id=row.tenant_id, data=data)
            _announce_with_peers(write, row)
            write.answer(204, None)

    def delete_network(self, caller: Principal, name: str, tenant: str | None = None) -> None:
        """Delete a network with its subnets. Raises StillInUse while jobs are in it."""
        with self._store.write() as write:
            row = self.find_network(write.connection, caller, name, tenant)
            count = self._count_jobs(write.connection, row.id)
            if count:
                raise StillInUse(
                    f"{_count_noun(count)} in network {row.name}, or waiting for it",
                    hint=f"gpupool ps; gpupool network show {row.name}",
                    jobs=count,
                )
            delete_parts(write, row)
            write.execute(networks.delete().where(networks.c.id == row.id))
            data = {"network": row.public_id}
            renew_without(write, row)
            write.event("network.deleted", row.name, tenant_id=row.tenant_id, data=data)
            write.announce(("network", row.id))
            write.answer(204, None)

    def create_gateway(self, caller: Principal, name: str, tenant: str | None = None) -> NetworkOut:
        """Let the jobs of a network reach what lies outside of the pool. Idempotent.

        Their packets leave with the address of the machine. Jobs that run already keep the name
        servers that they started with.

        Raises:
            UnknownNetwork: the tenant has no such network.
            NetworkingUnavailable: networking is off, or its engine cannot work.
        """
        return self._set_gateway(caller, name, tenant, wanted=True)

    def delete_gateway(self, caller: Principal, name: str, tenant: str | None = None) -> NetworkOut:
        """Cut the jobs of a network off from what lies outside of the pool. Idempotent."""
        return self._set_gateway(caller, name, tenant, wanted=False)

    def set_default(
        self, caller: Principal, name: str, tenant: str | None = None, *, wanted: bool
    ) -> NetworkOut:
        """Let jobs of the tenant that name no network join this one, or none. Idempotent."""
        with self._store.write() as write:
            row = self.find_network(write.connection, caller, name, tenant)
            if row.is_default != wanted:
                ours = networks.update().where(networks.c.tenant_id == row.tenant_id)
                write.execute(ours.values(is_default=networks.c.id == row.id if wanted else False))
                data = {"network": row.public_id, "is_default": wanted}
                write.event("network.default_set", row.name, tenant_id=row.tenant_id, data=data)
                write.announce("fleet")  # for the Ethernet plane of the tenant
            out = describe_networks(write.connection, [_read_row(write.connection, row.id)])[0]
            write.answer(200, out.model_dump(mode="json"))
        return out

    def _set_gateway(
        self, caller: Principal, name: str, tenant: str | None, *, wanted: bool
    ) -> NetworkOut:
        with self._store.write() as write:
            row = self.find_network(write.connection, caller, name, tenant)
            if wanted:
                require_ready(write.connection)
            else:
                refuse_forwarded(write.connection, row)
                refuse_floating(write.connection, row)
            if row.has_gateway != wanted:
                number: int | None = None
                if wanted:
                    refuse_above_quota(write.connection, row.tenant_id, "gateways")
                    number = choose_gateway(write.connection)
                changed = networks.update().where(networks.c.id == row.id)
                write.execute(changed.values(has_gateway=wanted, gateway_number=number))
                kind = "network.gateway_created" if wanted else "network.gateway_deleted"
                data = {"network": row.public_id}
                write.event(kind, row.name, tenant_id=row.tenant_id, data=data)
                renew_work(write)
                write.announce(("network", row.id))
            out = describe_networks(write.connection, [_read_row(write.connection, row.id)])[0]
            write.answer(200, out.model_dump(mode="json"))
        return out

    def _refuse_used_subnet(self, connection: sa.Connection, row: Any, subnet: Any) -> None:
        """Raise StillInUse while jobs have addresses of a subnet, or wait for them."""
        query = sa.select(sa.func.count()).where(network_ports.c.subnet_id == subnet.id)
        used = int(connection.execute(query).scalar_one())
        prefix = IPv4Network(subnet.cidr)
        requested = read_requested(connection, row.id)
        waiting = sorted(job for address, job in requested.items() if address in prefix)
        if waiting and not used:
            raise StillInUse(
                f"job {waiting[0]} asked for an address of subnet {subnet.name}",
                hint=f"wait for it or stop it: gpupool show {waiting[0]}",
                jobs=len(waiting),
            )
        if used:
            raise StillInUse(
                f"{_count_noun(used)} in subnet {subnet.name}",
                hint=f"gpupool network show {row.name}  lists them",
                jobs=used,
            )
        refuse_routed_subnet(connection, row, subnet)
        balancers = list_subnet_balancers(connection, subnet.id)
        if balancers:
            raise StillInUse(
                f"load balancers have their proxies in subnet {subnet.name}: {', '.join(balancers)}",
                hint=f"gpupool network lb-list {row.name}",
                load_balancers=balancers,
            )
        left = count_addresses(connection, row.id) - count_subnet_addresses(connection, subnet)
        wanted = self._count_jobs(connection, row.id)
        if wanted > left:
            raise StillInUse(
                f"{_count_noun(wanted)} in network {row.name} or waiting for it, and "
                f"{left} addresses would be left",
                hint="add another subnet first: gpupool network subnet-create",
                jobs=wanted,
                addresses=left,
            )

    def find_network(
        self, connection: sa.Connection, caller: Principal, name: str, tenant: str | None = None
    ) -> Any:
        """Return the row of a network, by name in the caller's or the named tenant, or by id.

        Raises UnknownNetwork.
        """
        owner = find_tenant(connection, caller, tenant or caller.tenant)
        by_name = sa.and_(networks.c.tenant_id == owner.id, networks.c.name == name)
        by_id = sa.and_(match_visible(caller, networks.c.tenant_id), networks.c.public_id == name)
        row = connection.execute(sa.select(networks).where(sa.or_(by_name, by_id))).one_or_none()
        if row is None:
            # Another tenant's network and one that does not exist are answered alike.
            raise UnknownNetwork(f"no network {name[:80]!r}", hint="gpupool network list")
        return row


def _read_row(connection: sa.Connection, network_id: int) -> Any:
    return connection.execute(sa.select(networks).where(networks.c.id == network_id)).one()


def _refuse_repeated(connection: sa.Connection, tenant: Any, name: str) -> None:
    query = sa.select(networks.c.name).where(networks.c.tenant_id == tenant.id)
    names = set(connection.execute(query).scalars())
    if name in names:
        raise NameTaken(
            f"tenant {tenant.name} already has a network {name!r}", hint="gpupool network list"
        )
    if len(names) >= MOST_NETWORKS:
        raise TooManyNetworks(
            f"tenant {tenant.name} has {len(names)} networks; {MOST_NETWORKS} is the most",
            hint="delete one that no job needs: gpupool network list",
            limit=MOST_NETWORKS,
        )


def _insert_subnet(write: WriteTransaction, network_id: int, body: SubnetIn) -> IPv4Network:
    check_name(body.name, "subnet name")
    cidr = parse_cidr(body.cidr)
    query = sa.select(subnets).where(subnets.c.network_id == network_id)
    present = write.execute(query).all()
    if len(present) >= MOST_SUBNETS:
        raise TooManyNetworks(
            f"the network has {len(present)} subnets; {MOST_SUBNETS} is the most",
            limit=MOST_SUBNETS,
        )
    if body.name in {row.name for row in present}:
        raise NameTaken(
            f"the network already has a subnet {body.name!r}", hint="give it another: --name"
        )
    check_overlap(cidr, (IPv4Network(row.cidr) for row in present))
    cidr6 = find_subnet_prefix(write.connection, network_id, body.cidr6, present)
    values = {"network_id": network_id, "name": body.name, "cidr": str(cidr), "cidr6": cidr6}
    write.insert(subnets, public_id=new_id("s"), **values)
    return cidr


def _announce_with_peers(write: WriteTransaction, row: Any) -> None:
    """Announce a network whose prefixes changed, and those that have routes to it."""
    others = list_peers(write.connection, row.id)
    write.announce(*(("network", network_id) for network_id in {row.id, *others}))


def _count_noun(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"
