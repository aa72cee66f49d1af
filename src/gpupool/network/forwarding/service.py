"""Port forwards as the owners of their networks see them. Thread-safe."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import NameTaken, TooManyNetworks, UnknownNetwork, WrongState
from gpupool.base.ids import new_id
from gpupool.model.tenant import Principal
from gpupool.network.balancing.model import make_balancer_name
from gpupool.network.balancing.tables import load_balancers
from gpupool.network.engine_row import read_open_ports, renew_work
from gpupool.network.forwarding.reading import describe_forwards
from gpupool.network.forwarding.tables import port_forwards
from gpupool.network.lookup import FindNetwork
from gpupool.network.model import make_dns_name
from gpupool.network.quotas.check import refuse_above_quota
from gpupool.store.database import Store, WriteTransaction
from gpupool.wire.network.port_forwards import PortForwardIn, PortForwardOut


class PortForwardService:
    """Port forwards of networks."""

    def __init__(self, store: Store, find_network: FindNetwork) -> None:
        self._store = store
        self._find_network = find_network

    def list_forwards(
        self, caller: Principal, name: str, tenant: str | None = None
    ) -> list[PortForwardOut]:
        """List the forwards of a network by port. Raises UnknownNetwork."""
        with self._store.read() as connection:
            return describe_forwards(
                connection, self._find_network(connection, caller, name, tenant)
            )

    def create_forward(
        self, caller: Principal, name: str, body: PortForwardIn, tenant: str | None = None
    ) -> PortForwardOut:
        """Let a port of the machine lead to jobs. They may run already, or start later.

        Raises:
            UnknownNetwork: `name` is no network of the caller.
            WrongState: the network has no gateway, or no port of the machine is for tenants.
            NameTaken: another forward has the port.
            TooManyNetworks: every port for tenants is taken.
        """
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            if not network.has_gateway:
                raise WrongState(
                    f"network {network.name} has no gateway, so nothing outside leads to it",
                    hint=f"gpupool network gateway-create {network.name}",
                )
            port = _choose_port(write.connection, body)
            target = _find_target(write.connection, network, body.target)
            insert_forward(write, network, target, port, body.target_port, protocol=body.protocol)
            shown = describe_forwards(write.connection, network)
            out = next(one for one in shown if (one.port, one.protocol) == (port, body.protocol))
            write.answer(201, out.model_dump(mode="json"))
        return out

    def delete_forward(
        self, caller: Principal, name: str, forward: str, tenant: str | None = None
    ) -> None:
        """Delete a forward; connections through it end. Raises UnknownNetwork."""
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            ours = sa.and_(
                port_forwards.c.network_id == network.id, port_forwards.c.public_id == forward
            )
            gone = write.execute(
                port_forwards.delete().where(ours).returning(port_forwards.c.port)
            ).scalar_one_or_none()
            if gone is None:
                raise UnknownNetwork(
                    f"network {network.name} has no port forward {forward[:80]!r}",
                    hint=f"gpupool network forward-list {network.name}",
                )
            _finish(write, "deleted", network, gone)
            write.answer(204, None)


def insert_forward(
    write: WriteTransaction,
    network: Any,
    target: str,
    port: int,
    target_port: int,
    *,
    protocol: str = "tcp",
) -> int:
    """Insert a forward in the caller's transaction; returns its row id.

    Args:
        target: a DNS name in the network.
        port: a free one of the machine.
    """
    refuse_above_quota(write.connection, network.tenant_id, "port_forwards")
    forward_id = write.insert(
        port_forwards,
        public_id=new_id("f"),
        network_id=network.id,
        protocol=protocol,
        port=port,
        target=target,
        target_port=target_port,
        created_ns=write.now_ns,
    )
    _finish(write, "created", network, port)
    return forward_id


def find_free_port(connection: sa.Connection, protocol: str) -> int | None:
    """Find a port of the machine that is for tenants and free; None: there is none."""
    taken = _read_taken(connection, protocol)
    return next((port for port in read_open_ports(connection) if port not in taken), None)


def _find_target(connection: sa.Connection, network: Any, text: str) -> str:
    """Find the DNS name of a target: a load balancer's keeps its dots, a job's has none."""
    query = sa.select(load_balancers.c.name).where(load_balancers.c.network_id == network.id)
    present = {make_balancer_name(name) for name in connection.execute(query).scalars()}
    name = make_balancer_name(text)
    return name if name in present else make_dns_name(text)


def _read_taken(connection: sa.Connection, protocol: str) -> set[int]:
    query = sa.select(port_forwards.c.port).where(port_forwards.c.protocol == protocol)
    return set(connection.execute(query).scalars())


def _choose_port(connection: sa.Connection, body: PortForwardIn) -> int:
    ports = read_open_ports(connection)
    if not ports:
        raise WrongState(
            "no port of the pool's machine is for tenants",
            hint="an admin opens some: gpupool network enable --forward-ports 30000-30099",
        )
    taken = _read_taken(connection, body.protocol)
    span = f"{ports[0]}-{ports[-1]}"
    if body.port is None:
        free = find_free_port(connection, body.protocol)
        if free is None:
            raise TooManyNetworks(
                f"all {len(ports)} ports {span} are taken",
                hint="an admin opens more: gpupool network enable --forward-ports FIRST-LAST",
                limit=len(ports),
            )
        return free
    if body.port not in ports:
        raise WrongState(
            f"port {body.port} is not for tenants; {span} are",
            hint="leave --port out to get a free one",
        )
    if body.port in taken:
        raise NameTaken(
            f"port {body.port} is taken by another forward",
            hint="leave --port out to get a free one",
        )
    return body.port


def _finish(write: WriteTransaction, what: str, network: Any, port: int) -> None:
    data = {"network": network.public_id, "port": port}
    write.event(f"network.forward_{what}", network.name, tenant_id=network.tenant_id, data=data)
    renew_work(write)
    write.announce(("network", network.id))
