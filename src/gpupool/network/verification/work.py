"""What an agent has to verify, and what it reports. Everything runs in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import sqlalchemy as sa

from gpupool.network.limiting.tables import bandwidth_readings
from gpupool.network.model import Network, Port
from gpupool.network.reading import read_networks
from gpupool.network.tables import networks
from gpupool.network.verification.probed_balancers import list_probed_balancers
from gpupool.network.verification.tables import network_verifications
from gpupool.network.verification.twins import make_twins
from gpupool.store.write_transaction import WriteTransaction
from gpupool.wire.network.promises import (
    LimitMeasurement,
    NetworkVerificationReport,
    NetworkVerificationWork,
    ProbedGateway,
    ProbePort,
)

#: Ports of jobs that one verification probes, at most.
_MOST_JOBS: Final = 32


def read_verification_work(connection: sa.Connection) -> NetworkVerificationWork | None:
    """Read the verification that runs, as the engine's agent serves it."""
    query = sa.select(network_verifications).where(network_verifications.c.state == "running")
    row = connection.execute(query.order_by(network_verifications.c.id)).first()
    if row is None:
        return None
    first, second = make_twins(row)
    sender, control = _list_ports(first)
    (outsider,) = _list_ports(second)
    found = _read_scope(connection, row)
    jobs = [port for network in found for port in _list_ports(network)]
    gateways = {one.name: str(one.gateway.address) for one in found if one.gateway is not None}
    return NetworkVerificationWork(
        id=row.public_id,
        sender=sender,
        control=control,
        outsider=outsider,
        jobs=jobs[:_MOST_JOBS],
        gateways=gateways,
        balancers=[one for network in found for one in list_probed_balancers(network)],
        limited_gateways=_list_limited_gateways(found),
        zone=_find_zone(connection, row),
    )


def _find_zone(connection: sa.Connection, row: Any) -> int:
    """Find where the networks of a verification are: with what is verified, if it is one network."""
    query = sa.select(networks.c.zone).where(networks.c.id == row.network_id)
    return int(connection.execute(query).scalar() or 0)


def _list_limited_gateways(found: Iterable[Network]) -> list[ProbedGateway]:
    gateways = list[ProbedGateway]()
    for network in found:
        gateway = network.gateway
        if gateway is not None and gateway.bandwidth:
            gateways.append(
                ProbedGateway(
                    key=network.key,
                    network=network.name,
                    address=str(gateway.address),
                    next_hop=str(gateway.next_hop),
                    in_kbit=gateway.bandwidth.in_kbit,
                    out_kbit=gateway.bandwidth.out_kbit,
                )
            )
    return gateways


def apply_verification(write: WriteTransaction, report: NetworkVerificationReport) -> None:
    """Keep what an agent found. Idempotent; a report of a verification that has ended is dropped."""
    query = sa.select(network_verifications).where(
        network_verifications.c.public_id == report.id,
        network_verifications.c.state == "running",
    )
    row = write.execute(query).one_or_none()
    if row is None:
        return
    checks = [*row.checks, *(check.model_dump() for check in report.checks)]
    ours = network_verifications.c.id == row.id
    values = {"state": "done", "checks": checks, "finished_ns": write.now_ns}
    write.execute(network_verifications.update().where(ours).values(**values))
    _keep_measurements(write, report.measurements)
    kept = all(check["kept"] is not False for check in checks)
    write.event("network.verified", row.public_id, tenant_id=row.tenant_id, data={"kept": kept})
    write.announce(("network", -row.id))


def _keep_measurements(write: WriteTransaction, measurements: Sequence[LimitMeasurement]) -> None:
    for one in measurements:
        values = {
            f"{one.direction}_measured_kbit": one.measured_kbit,
            f"{one.direction}_measured_at": one.limit_kbit,
        }
        ours = bandwidth_readings.c.key == one.key
        write.execute(bandwidth_readings.update().where(ours).values(**values))


def _read_scope(connection: sa.Connection, row: Any) -> Iterable[Network]:
    query = sa.select(networks.c.public_id)
    if row.network_id is not None:
        query = query.where(networks.c.id == row.network_id)
    elif row.tenant_id is not None:
        query = query.where(networks.c.tenant_id == row.tenant_id)
    keys = list(connection.execute(query).scalars())
    return list(read_networks(connection, keys).values()) if keys else []


def _list_ports(network: Network) -> list[ProbePort]:
    subnets = {subnet.key: subnet for subnet in network.subnets}
    return [_make_port(network, port, subnets[port.subnet]) for port in network.ports]


def _make_port(network: Network, port: Port, subnet: Any) -> ProbePort:
    return ProbePort(
        key=port.key,
        network=network.name,
        name=port.name,
        address=str(port.address),
        prefix=subnet.cidr.prefixlen,
        gateway=str(subnet.gateway),
        mac=port.mac,
        mtu=network.mtu,
        domain=network.domain,
        in_kbit=port.bandwidth.in_kbit,
        out_kbit=port.bandwidth.out_kbit,
        address6=str(port.address6) if port.address6 else None,
        gateway6=str(subnet.gateway6) if port.address6 else None,
    )
