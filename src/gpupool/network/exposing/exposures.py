"""Creates, describes and deletes exposures. Everything runs in the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import BadInput, StillInUse, UnknownNetwork, WrongState
from gpupool.base.ids import check_name
from gpupool.network.balancing.proxies import StoredRoute, delete_proxies
from gpupool.network.balancing.proxy_model import check_host
from gpupool.network.balancing.proxy_states import ProxyStates
from gpupool.network.balancing.reading import describe_balancers
from gpupool.network.balancing.service import insert_balancer
from gpupool.network.balancing.tables import load_balancers
from gpupool.network.engine_row import read_open_ports, renew_work
from gpupool.network.exposing.tables import exposures
from gpupool.network.forwarding.service import find_free_port, insert_forward
from gpupool.network.forwarding.tables import port_forwards
from gpupool.network.lookup import CountJobs
from gpupool.network.tables import network_ports, networks
from gpupool.store.database import WriteTransaction
from gpupool.wire.network.load_balancers import (
    ExposureIn,
    ExposureOut,
    HttpSettingsIn,
    LoadBalancerIn,
)

_EXPOSURES = (
    sa.select(
        exposures,
        load_balancers.c.name,
        load_balancers.c.network_id,
        load_balancers.c.port.label("listen_port"),
        port_forwards.c.port.label("machine_port"),
    )
    .join(load_balancers, load_balancers.c.id == exposures.c.balancer_id)
    .outerjoin(port_forwards, port_forwards.c.id == exposures.c.forward_id)
    .order_by(exposures.c.port)
)
#: Port on which load balancers of HTTP listen.
_HTTP_PORT = 80
#: Characters of a job's name that the name of its load balancer has.
_NAME_LENGTH = 50
#: Of them, those that tell long names apart.
_MARK_LENGTH = 8


def create_exposure(
    write: WriteTransaction,
    states: ProxyStates,
    job: str,
    allocation_id: int | None,
    body: ExposureIn,
    *,
    count_jobs: CountJobs,
) -> ExposureOut:
    """Publish a port of a job. Idempotent: the same once more changes nothing.

    Args:
        job: its id.
        allocation_id: row id of the allocation of a job that runs; None: it does not.

    Raises:
        WrongState: the job has no address, or is in no network.
        StillInUse: the port is exposed in another way.
        NameTaken, TooManyNetworks, NetworkingUnavailable, BadInput: as for a load balancer.
    """
    if body.host is not None and not body.is_http:
        raise BadInput("a host is for HTTP", hint="add --http")
    port = _find_port(write.connection, job, allocation_id)
    network = write.execute(sa.select(networks).where(networks.c.id == port.network_id)).one()
    for row in _read_rows(write.connection, job):
        if row.port == body.port:
            out = _describe(write.connection, states, row)
            _refuse_other(out, body)
            return out
    name = body.name or _make_name(port.name.partition(".")[0], body.port)
    check_name(name, "name of a load balancer")
    request = _make_balancer(name, body)
    routes = _make_routes(port.name, body)
    backends = [] if routes else [port.name]
    balancer_id = insert_balancer(
        write, states, network, request, backends, routes, count_jobs=count_jobs
    )
    exposure_id = write.insert(
        exposures,
        job=job,
        port=body.port,
        host=None if body.host is None else body.host.lower(),
        balancer_id=balancer_id,
        forward_id=_publish_outside(write, network, name, request.port),
        created_ns=write.now_ns,
    )
    data = {"network": network.public_id, "load_balancer": name, "port": body.port}
    write.event("network.exposed", job, tenant_id=network.tenant_id, data=data)
    row = write.execute(_EXPOSURES.where(exposures.c.id == exposure_id)).one()
    return _describe(write.connection, states, row)


def describe_exposures(
    connection: sa.Connection, states: ProxyStates, job: str
) -> list[ExposureOut]:
    """Describe the exposures of a job, by port."""
    return [_describe(connection, states, row) for row in _read_rows(connection, job)]


def delete_exposure(write: WriteTransaction, job: str, port: str) -> None:
    """Publish a port of a job no more. Raises UnknownNetwork where it is not published."""
    rows = [row for row in _read_rows(write.connection, job) if str(row.port) == port]
    if not rows:
        raise UnknownNetwork(
            f"port {port[:20]} of job {job} is not exposed", hint=f"gpupool expose {job} PORT"
        )
    _delete_rows(write, rows)


def delete_exposures(write: WriteTransaction, jobs: Sequence[str]) -> None:
    """Delete the exposures of jobs that have ended."""
    _delete_rows(write, write.execute(_EXPOSURES.where(exposures.c.job.in_(jobs))).all())


def _delete_rows(write: WriteTransaction, rows: Sequence[Any]) -> None:
    if not rows:
        return
    balancers = [row.balancer_id for row in rows]
    write.execute(exposures.delete().where(exposures.c.id.in_([row.id for row in rows])))
    forwards = [row.forward_id for row in rows if row.forward_id is not None]
    write.execute(port_forwards.delete().where(port_forwards.c.id.in_(forwards)))
    delete_proxies(write, balancers)
    write.execute(load_balancers.delete().where(load_balancers.c.id.in_(balancers)))
    network_ids = {row.network_id for row in rows}
    write.announce(*(("network", network_id) for network_id in network_ids))
    renew_work(write)


def _find_port(connection: sa.Connection, job: str, allocation_id: int | None) -> Any:
    query = sa.select(network_ports).where(network_ports.c.allocation_id == allocation_id)
    port = None if allocation_id is None else connection.execute(query).one_or_none()
    if port is not None:
        return port
    if allocation_id is None:
        raise WrongState(f"job {job} does not run, so it has no address", hint="gpupool ps")
    raise WrongState(
        f"job {job} is in no network, so its ports are the machine's own",
        hint="start it in one: gpupool submit --network NAME",
    )


def _make_name(job: str, port: int) -> str:
    """Make the name of a job's load balancer. Two long names that begin alike give two."""
    if len(job) > _NAME_LENGTH:
        mark = sha256(job.encode()).hexdigest()[:_MARK_LENGTH]
        job = f"{job[: _NAME_LENGTH - _MARK_LENGTH - 1]}-{mark}"
    return f"{job}-{port}"


def _make_balancer(name: str, body: ExposureIn) -> LoadBalancerIn:
    if not body.is_http:
        return LoadBalancerIn(
            name=name, port=body.port, target_port=body.port, backends=[], is_checked=True
        )
    return LoadBalancerIn(
        name=name, port=_HTTP_PORT, target_port=body.port, backends=[], http=HttpSettingsIn()
    )


def _make_routes(name: str, body: ExposureIn) -> list[StoredRoute]:
    """Make the only route of a balancer that answers one host; none where it answers any."""
    if body.host is None:
        return []
    host = check_host(body.host)
    return [{"host": host, "path": "/", "backends": [name], "target_port": body.port}]


def _publish_outside(write: WriteTransaction, network: Any, balancer: str, port: int) -> int | None:
    """Let a free port of the machine lead to a load balancer, where that is possible."""
    if not network.has_gateway:
        return None
    free = find_free_port(write.connection, "tcp")
    return None if free is None else insert_forward(write, network, balancer.lower(), free, port)


def _read_rows(connection: sa.Connection, job: str) -> list[Any]:
    return list(connection.execute(_EXPOSURES.where(exposures.c.job == job)).all())


def _describe(connection: sa.Connection, states: ProxyStates, row: Any) -> ExposureOut:
    network = connection.execute(sa.select(networks).where(networks.c.id == row.network_id)).one()
    shown = describe_balancers(connection, network, states)
    balancer = next(one for one in shown if one.name == row.name)
    reason = ""
    if row.machine_port is None:
        reason = _explain_inside(connection, network)
    return ExposureOut(
        job=row.job,
        port=row.port,
        is_http=balancer.http is not None,
        host=row.host,
        network=network.name,
        load_balancer=balancer,
        machine_port=row.machine_port,
        inside_reason=reason,
        created_ns=row.created_ns,
    )


def _explain_inside(connection: sa.Connection, network: Any) -> str:
    if not read_open_ports(connection):
        return "no port of the machine is for tenants: gpupool network enable --forward-ports"
    if not network.has_gateway:
        return f"the network has no gateway: gpupool network gateway-create {network.name}"
    return "every port of the machine for tenants was taken when it was exposed"


def _refuse_other(present: ExposureOut, body: ExposureIn) -> None:
    """Raise StillInUse where a port is exposed in another way than is asked for."""
    name = body.name or present.load_balancer.name
    host = None if body.host is None else body.host.lower()
    wanted = (body.is_http, host, name)
    if wanted != (present.is_http, present.host, present.load_balancer.name):
        raise StillInUse(
            f"port {body.port} of job {present.job} is exposed already, as load balancer "
            f"{present.load_balancer.name} of {'HTTP' if present.is_http else 'TCP'}",
            hint=f"gpupool unexpose {present.job} {body.port}",
        )
