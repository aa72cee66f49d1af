"""Load balancers as the owners of their networks see them. Thread-safe."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import NameTaken, TooManyNetworks, UnknownNetwork
from gpupool.base.ids import check_name, new_id
from gpupool.model.tenant import Principal
from gpupool.network.balancing.model import make_balancer_name
from gpupool.network.balancing.proxies import (
    StoredRoute,
    check_settings,
    delete_proxies,
    insert_proxy,
    make_routes,
)
from gpupool.network.balancing.proxy_states import ProxyStates
from gpupool.network.balancing.reading import describe_balancers
from gpupool.network.balancing.tables import load_balancers
from gpupool.network.engine_row import renew_work
from gpupool.network.exposing.tables import exposures
from gpupool.network.forwarding.tables import port_forwards
from gpupool.network.lookup import CountJobs, FindNetwork
from gpupool.network.model import make_dns_name
from gpupool.network.ports import choose_probe, refuse_too_few
from gpupool.network.quotas.check import refuse_above_quota
from gpupool.network.tables import subnets
from gpupool.store.database import Store, WriteTransaction
from gpupool.wire.network.load_balancers import LoadBalancerIn, LoadBalancerOut

#: Load balancers of one network, at most.
MOST_BALANCERS = 64


class LoadBalancerService:
    """Load balancers of networks."""

    def __init__(
        self,
        store: Store,
        find_network: FindNetwork,
        states: ProxyStates,
        *,
        count_jobs: CountJobs,
    ) -> None:
        self._store = store
        self._find_network = find_network
        self._states = states
        self._count_jobs = count_jobs

    def list_balancers(
        self, caller: Principal, name: str, tenant: str | None = None
    ) -> list[LoadBalancerOut]:
        """List the load balancers of a network by name. Raises UnknownNetwork."""
        with self._store.read() as connection:
            network = self._find_network(connection, caller, name, tenant)
            return describe_balancers(connection, network, self._states)

    def create_balancer(
        self, caller: Principal, name: str, body: LoadBalancerIn, tenant: str | None = None
    ) -> LoadBalancerOut:
        """Create a load balancer. Its jobs may run already, or start later.

        Raises:
            UnknownNetwork: `name` is no network of the caller.
            NameTaken: the network has a load balancer of that name.
            TooManyNetworks: the network has as many as it may.
            SubnetFull: a subnet has no address left from which backends are probed, or the jobs of
                the network need all of them.
            NetworkingUnavailable: one of HTTP, and networking or HAProxy is not there.
            BadInput: settings that exclude each other, or a certificate that no server can use.
        """
        check_name(body.name, "name of a load balancer")
        check_settings(body)
        backends = sorted({make_dns_name(backend) for backend in body.backends})
        routes = [] if body.http is None else make_routes(body.http)
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            count_jobs = self._count_jobs
            insert_balancer(
                write, self._states, network, body, backends, routes, count_jobs=count_jobs
            )
            shown = describe_balancers(write.connection, network, self._states)
            out = next(one for one in shown if one.name == body.name)
            write.answer(201, out.model_dump(mode="json"))
        return out

    def delete_balancer(
        self, caller: Principal, name: str, balancer: str, tenant: str | None = None
    ) -> None:
        """Delete a load balancer. Its jobs go on. Raises UnknownNetwork."""
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            ours = sa.and_(
                load_balancers.c.network_id == network.id, load_balancers.c.name == balancer
            )
            found = write.execute(sa.select(load_balancers.c.id).where(ours)).scalars().all()
            delete_proxies(write, found)
            _delete_exposed(write, found)
            if not write.execute(load_balancers.delete().where(ours)).rowcount:
                raise UnknownNetwork(
                    f"network {network.name} has no load balancer {balancer[:80]!r}",
                    hint=f"gpupool network lb-list {network.name}",
                )
            _finish(write, "deleted", network, balancer)
            write.answer(204, None)


def insert_balancer(
    write: WriteTransaction,
    states: ProxyStates,
    network: Any,
    body: LoadBalancerIn,
    backends: Sequence[str],
    routes: Sequence[StoredRoute] = (),
    *,
    count_jobs: CountJobs,
) -> int:
    """Insert a load balancer in the caller's transaction; returns its row id.

    Args:
        backends, routes: with DNS names of jobs; they count instead of those of the body.

    Raises as `LoadBalancerService.create_balancer`.
    """
    _refuse_repeated(write.connection, network, body.name)
    refuse_above_quota(write.connection, network.tenant_id, "load_balancers")
    # A proxy probes from its own address.
    is_checked = body.is_checked and body.http is None
    if is_checked:
        reserve_probes(write, network.id)
    balancer_id = write.insert(
        load_balancers,
        public_id=new_id("b"),
        network_id=network.id,
        name=body.name,
        protocol=body.protocol,
        port=body.port,
        target_port=body.target_port,
        backends=list(backends),
        is_checked=is_checked,
        created_ns=write.now_ns,
    )
    if body.http is not None:
        insert_proxy(write, states, network, balancer_id, body.http, routes)
    if is_checked or body.http is not None:
        refuse_too_few(write.connection, network, count_jobs)
    _finish(write, "created", network, body.name)
    return balancer_id


def delete_balancers(write: WriteTransaction, network_id: int) -> None:
    """Delete the load balancers of a network that is deleted, in the caller's transaction."""
    ours = load_balancers.c.network_id == network_id
    found = write.execute(sa.select(load_balancers.c.id).where(ours)).scalars().all()
    delete_proxies(write, found)
    write.execute(load_balancers.delete().where(ours))


def _delete_exposed(write: WriteTransaction, balancer_ids: Sequence[int]) -> None:
    """Delete the ports of the machine that exposures of load balancers have, and the exposures.

    Else such a port would lead to the next load balancer or job of the same name.
    """
    ours = exposures.c.balancer_id.in_(balancer_ids)
    query = sa.select(exposures.c.forward_id).where(ours, exposures.c.forward_id.is_not(None))
    forwards = write.execute(query).scalars().all()
    write.execute(exposures.delete().where(ours))
    if forwards:
        write.execute(port_forwards.delete().where(port_forwards.c.id.in_(forwards)))
        renew_work(write)


def renew_probes(write: WriteTransaction, network_id: int) -> None:
    """Reserve the address of a new subnet, where backends of its network are probed."""
    query = sa.select(load_balancers.c.id).where(
        load_balancers.c.network_id == network_id, load_balancers.c.is_checked
    )
    if write.execute(query).first() is not None:
        reserve_probes(write, network_id)


def reserve_probes(write: WriteTransaction, network_id: int) -> None:
    """Reserve an address in each subnet from which backends are probed. Idempotent.

    Raises SubnetFull.
    """
    query = sa.select(subnets).where(
        subnets.c.network_id == network_id, subnets.c.probe_address.is_(None)
    )
    for row in write.execute(query).all():
        address = choose_probe(write.connection, row.id, IPv4Network(row.cidr))
        changed = subnets.update().where(subnets.c.id == row.id)
        write.execute(changed.values(probe_address=str(address)))


def _refuse_repeated(connection: sa.Connection, network: Any, name: str) -> None:
    query = sa.select(load_balancers.c.name).where(load_balancers.c.network_id == network.id)
    names = connection.execute(query).scalars().all()
    # Two with one DNS name would be found as one of them.
    same = next((one for one in names if make_balancer_name(one) == make_balancer_name(name)), None)
    if same is not None:
        raise NameTaken(
            f"network {network.name} already has a load balancer {same!r}",
            hint=f"gpupool network lb-list {network.name}",
        )
    if len(names) >= MOST_BALANCERS:
        raise TooManyNetworks(
            f"network {network.name} has {len(names)} load balancers; {MOST_BALANCERS} is the most",
            limit=MOST_BALANCERS,
        )


def _finish(write: WriteTransaction, what: str, network: Any, balancer: str) -> None:
    data = {"network": network.public_id, "load_balancer": balancer}
    write.event(f"network.lb_{what}", network.name, tenant_id=network.tenant_id, data=data)
    write.announce(("network", network.id))
