"""Load balancers of HTTP: their proxies, certificates, and jobs that get no new requests.

The functions run in the caller's transaction; the service is thread-safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import BadInput, TooManyNetworks, UnknownNetwork, WrongState
from gpupool.base.ids import new_id
from gpupool.model.tenant import Principal
from gpupool.network.balancing.certificates import check_certificate
from gpupool.network.balancing.model import has_name
from gpupool.network.balancing.proxy_model import check_host, check_path
from gpupool.network.balancing.proxy_reading import list_members, read_proxies
from gpupool.network.balancing.proxy_states import ProxyStates
from gpupool.network.balancing.proxy_tables import http_balancers
from gpupool.network.balancing.reading import describe_balancers
from gpupool.network.balancing.standbys import choose_standby
from gpupool.network.balancing.tables import load_balancers
from gpupool.network.engine_row import renew_work, require_ready
from gpupool.network.lookup import FindNetwork
from gpupool.network.model import make_dns_name
from gpupool.network.ports import take_address
from gpupool.store.database import Store, WriteTransaction
from gpupool.wire.network.load_balancers import (
    CertificateIn,
    DrainIn,
    HttpSettingsIn,
    LoadBalancerIn,
    LoadBalancerOut,
)

#: A route as its row has it: host, path, backends by DNS name, target_port.
StoredRoute = dict[str, Any]

#: Load balancers of HTTP of one network, at most: each is a process of some 20 MB.
MOST_PROXIES = 16


def check_settings(body: LoadBalancerIn) -> None:
    """Raise BadInput for what no load balancer can be."""
    http = body.http
    if not body.backends and (http is None or not http.routes):
        raise BadInput("a load balancer needs a backend", hint="name a job: --backend JOB")
    if http is None:
        return
    if body.protocol != "tcp":
        raise BadInput("a load balancer of HTTP listens on TCP", hint="leave --protocol out")
    if http.redirects and http.certificate is None:
        raise BadInput(
            "requests cannot be sent to HTTPS without a certificate", hint="--certificate FILE"
        )
    if http.certificate is not None and http.https_port == body.port:
        raise BadInput(f"HTTP and HTTPS cannot both have port {body.port}", hint="--https-port")


def insert_proxy(
    write: WriteTransaction,
    states: ProxyStates,
    network: Any,
    balancer_id: int,
    http: HttpSettingsIn,
    routes: Sequence[StoredRoute],
) -> None:
    """Give a load balancer its proxy.

    Args:
        routes: those of `make_routes`, which count instead of those of `http`.

    Raises:
        NetworkingUnavailable: networking is not ready, or the machine lacks HAProxy.
        TooManyNetworks: the network has as many as it may.
        SubnetFull: no address is left for the proxy.
        BadInput: a host, a path or the certificate.
    """
    require_ready(write.connection)
    states.require_programs()
    count = len(read_proxies(write.connection, [network.id]))
    if count >= MOST_PROXIES:
        raise TooManyNetworks(
            f"network {network.name} has {count} load balancers of HTTP; {MOST_PROXIES} is the most",
            hint="one takes many hosts and paths: --route",
            limit=MOST_PROXIES,
        )
    subnet, address = take_address(write, network.id)
    certificate = http.certificate
    write.execute(
        http_balancers.insert().values(
            balancer_id=balancer_id,
            public_id=new_id("h"),
            subnet_id=subnet.id,
            address=str(address),
            https_port=None if certificate is None else http.https_port,
            routes=list(routes),
            redirects=http.redirects,
            is_sticky=http.is_sticky,
            check_path=None if http.check_path is None else check_path(http.check_path),
            drain_seconds=http.drain_seconds,
            draining=[],
            certificate=certificate,
            certificate_end_ns=(
                None if certificate is None else check_certificate(certificate, write.now_ns)
            ),
            **choose_standby(write, subnet, address),
        )
    )
    renew_work(write)


def delete_proxies(write: WriteTransaction, balancer_ids: Sequence[int]) -> None:
    """Delete the proxies of load balancers that are deleted."""
    gone = write.execute(
        http_balancers.delete().where(http_balancers.c.balancer_id.in_(balancer_ids))
    )
    if gone.rowcount:
        renew_work(write)


def list_subnet_balancers(connection: sa.Connection, subnet_id: int) -> list[str]:
    """List the names of the load balancers that have their proxies in a subnet."""
    query = (
        sa.select(load_balancers.c.name)
        .join(http_balancers, http_balancers.c.balancer_id == load_balancers.c.id)
        .where(http_balancers.c.subnet_id == subnet_id)
        .order_by(load_balancers.c.name)
    )
    return list(connection.execute(query).scalars())


class ProxyService:
    """What is changed of a load balancer of HTTP while it serves."""

    def __init__(self, store: Store, find_network: FindNetwork, states: ProxyStates) -> None:
        self._store = store
        self._find_network = find_network
        self._states = states

    def get_balancer(
        self, caller: Principal, name: str, balancer: str, tenant: str | None = None
    ) -> LoadBalancerOut:
        """Return a load balancer with the jobs behind it. Raises UnknownNetwork."""
        with self._store.read() as connection:
            network = self._find_network(connection, caller, name, tenant)
            return self._describe(connection, network, balancer)

    def set_certificate(
        self,
        caller: Principal,
        name: str,
        balancer: str,
        body: CertificateIn,
        tenant: str | None = None,
    ) -> LoadBalancerOut:
        """Replace the certificate; connections go on. Raises BadInput, UnknownNetwork, WrongState."""
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            row = self._find_proxy(write.connection, network, balancer)
            if row.https_port is None:
                raise WrongState(
                    f"load balancer {balancer} has no HTTPS",
                    hint="delete it and create it with --certificate FILE",
                )
            end_ns = check_certificate(body.certificate, write.now_ns)
            self._update(write, row, certificate=body.certificate, certificate_end_ns=end_ns)
            return self._finish(write, "certificate_set", network, row)

    def drain(
        self, caller: Principal, name: str, balancer: str, body: DrainIn, tenant: str | None = None
    ) -> LoadBalancerOut:
        """Give a job no new requests; those under way are finished. Idempotent.

        Raises UnknownNetwork where the job does not serve behind it.
        """
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            row = self._find_proxy(write.connection, network, balancer)
            running = {port.public_id for port, _ in list_members(write.connection, row)}
            keys = self._find_members(write.connection, network, row, body.job)
            self._update(write, row, draining=sorted({*row.draining, *keys} & running))
            return self._finish(write, "drained", network, row)

    def end_drain(
        self, caller: Principal, name: str, balancer: str, job: str, tenant: str | None = None
    ) -> LoadBalancerOut:
        """Give a job new requests again. Idempotent. Raises as `drain`."""
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            row = self._find_proxy(write.connection, network, balancer)
            keys = self._find_members(write.connection, network, row, job)
            self._update(write, row, draining=sorted(set(row.draining) - set(keys)))
            return self._finish(write, "drain_ended", network, row)

    @staticmethod
    def _find_proxy(connection: sa.Connection, network: Any, balancer: str) -> Any:
        for row in read_proxies(connection, [network.id]):
            if row.name == balancer:
                return row
        query = sa.select(load_balancers.c.id).where(
            load_balancers.c.network_id == network.id, load_balancers.c.name == balancer
        )
        if connection.execute(query).first() is not None:
            raise WrongState(
                f"load balancer {balancer} passes connections on and knows no requests",
                hint="one of HTTP does: gpupool network lb-create --http",
            )
        raise _make_unknown(network, balancer)

    @staticmethod
    def _find_members(connection: sa.Connection, network: Any, row: Any, job: str) -> list[str]:
        """Find the keys of the ports that a job, an array or one of its members has."""
        label = make_dns_name(job)
        members = [port for port, _ in list_members(connection, row)]
        found = [
            port.public_id
            for port in members
            if has_name((label, job), port.name) or port.name.partition(".")[0] == label
        ]
        if not found:
            names = ", ".join(port.name for port in members[:5]) or "none"
            raise UnknownNetwork(
                f"no job {job[:80]!r} serves behind load balancer {row.name}; running: {names}",
                hint=f"gpupool network lb-show {network.name} {row.name}",
            )
        return found

    @staticmethod
    def _update(write: WriteTransaction, row: Any, **values: Any) -> None:
        changed = http_balancers.update().where(http_balancers.c.balancer_id == row.balancer_id)
        write.execute(changed.values(**values))
        renew_work(write)

    def _finish(
        self, write: WriteTransaction, what: str, network: Any, row: Any
    ) -> LoadBalancerOut:
        data = {"network": network.public_id, "load_balancer": row.name}
        write.event(f"network.lb_{what}", network.name, tenant_id=network.tenant_id, data=data)
        out = self._describe(write.connection, network, row.name)
        write.answer(200, out.model_dump(mode="json"))
        return out

    def _describe(self, connection: sa.Connection, network: Any, balancer: str) -> LoadBalancerOut:
        for one in describe_balancers(connection, network, self._states):
            if one.name == balancer:
                return one
        raise _make_unknown(network, balancer)


def _make_unknown(network: Any, balancer: str) -> UnknownNetwork:
    return UnknownNetwork(
        f"network {network.name} has no load balancer {balancer[:80]!r}",
        hint=f"gpupool network lb-list {network.name}",
    )


def make_routes(http: HttpSettingsIn) -> list[StoredRoute]:
    """Return routes as they are stored. Raises BadInput for a bad one, or one that is there twice."""
    routes = list[StoredRoute]()
    for route in http.routes:
        host = None if route.host is None else check_host(route.host)
        path = check_path(route.path)
        if any((one["host"], one["path"]) == (host, path) for one in routes):
            raise BadInput(f"two routes of {host or 'any host'}{path}", hint="name each once")
        backends = sorted({make_dns_name(backend) for backend in route.backends})
        routes.append(
            {"host": host, "path": path, "backends": backends, "target_port": route.target_port}
        )
    return routes
