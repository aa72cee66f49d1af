"""Reads bandwidth limits for the engine, for agents and for tenants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Literal

import sqlalchemy as sa

from gpupool.network.limiting.model import (
    UNLIMITED,
    Bandwidth,
    BandwidthLimit,
    LimitSubject,
    NetworkLimits,
)
from gpupool.network.limiting.tables import bandwidth_caps, bandwidth_limits, bandwidth_readings
from gpupool.network.tables import network_ports, networks
from gpupool.wire.network.promises import (
    BandwidthIn,
    BandwidthLimitOut,
    BandwidthLimitsOut,
    DirectionOut,
    LimitedPortOut,
    LimitWork,
)

_ZONES = sa.select(networks.c.id, networks.c.zone)


def read_limits(
    connection: sa.Connection, network_ids: Sequence[int] | None
) -> dict[int, NetworkLimits]:
    """Read the limits of networks, or of all of them, by the network's row id."""
    query = sa.select(bandwidth_limits).order_by(bandwidth_limits.c.id)
    owners = sa.select(networks.c.id, networks.c.tenant_id)
    if network_ids is not None:
        query = query.where(bandwidth_limits.c.network_id.in_(network_ids))
        owners = owners.where(networks.c.id.in_(network_ids))
    limits: dict[int, list[BandwidthLimit]] = defaultdict(list)
    for row in connection.execute(query):
        limit = BandwidthLimit(row.subject, row.target, _make_bandwidth(row))
        limits[row.network_id].append(limit)
    caps = read_caps(connection)
    found: dict[int, NetworkLimits] = defaultdict(NetworkLimits)
    for row in connection.execute(owners):
        port = caps.get((row.tenant_id, "port"), UNLIMITED)
        gateway = caps.get((row.tenant_id, "gateway"), UNLIMITED)
        if limits[row.id] or port or gateway:
            found[row.id] = NetworkLimits(limits[row.id], port, gateway)
    return found


def read_caps(connection: sa.Connection) -> dict[tuple[int, str], Bandwidth]:
    """Read what admins allow, by tenant and subject."""
    rows = connection.execute(sa.select(bandwidth_caps))
    return {(row.tenant_id, row.subject): _make_bandwidth(row) for row in rows}


def read_limit_work(connection: sa.Connection, *, gateways: bool = True) -> list[LimitWork]:
    """Read every port and gateway for which a limit holds, as agents enforce it.

    An agent enforces the limits of the ports that its own switch has.

    Args:
        gateways: also those of gateways, which the centre has.
    """
    limits = read_limits(connection, None)
    zones = {row.id: row.zone for row in connection.execute(_ZONES)} if limits else {}
    work = list[LimitWork]()
    leading = sa.select(networks).where(networks.c.has_gateway).order_by(networks.c.id)
    for row in connection.execute(leading) if limits and gateways else ():
        bandwidth = limits[row.id].find_gateway()
        if bandwidth:
            work.append(_make_work(row.public_id, "gateway", bandwidth, row.zone))
    ports = sa.select(network_ports).where(network_ports.c.network_id.in_(list(limits)))
    for row in connection.execute(ports.order_by(network_ports.c.id)) if limits else ():
        bandwidth = limits[row.network_id].find_port(row.name)
        if bandwidth:
            zone = zones[row.network_id]
            work.append(_make_work(row.public_id, "port", bandwidth, zone))
    return work


def describe_limits(connection: sa.Connection, network: Any) -> BandwidthLimitsOut:
    """Describe the limits of a network, and how its ports and its gateway stand."""
    found = read_limits(connection, [network.id])[network.id]
    query = sa.select(bandwidth_limits).where(bandwidth_limits.c.network_id == network.id)
    limits = [
        BandwidthLimitOut(
            id=row.public_id,
            network=network.name,
            subject=row.subject,
            target=row.target or None,
            in_kbit=row.in_kbit,
            out_kbit=row.out_kbit,
            created_ns=row.created_ns,
        )
        for row in connection.execute(query.order_by(bandwidth_limits.c.id))
    ]
    return BandwidthLimitsOut(
        limits=limits,
        port_cap=make_bandwidth_in(found.port_cap),
        gateway_cap=make_bandwidth_in(found.gateway_cap),
        states=_describe_states(connection, network, found),
    )


def make_bandwidth_in(bandwidth: Bandwidth) -> BandwidthIn:
    return BandwidthIn(in_kbit=bandwidth.in_kbit, out_kbit=bandwidth.out_kbit)


def _describe_states(
    connection: sa.Connection, network: Any, limits: NetworkLimits
) -> list[LimitedPortOut]:
    query = sa.select(network_ports).where(network_ports.c.network_id == network.id)
    ports = connection.execute(query.order_by(network_ports.c.id)).all()
    keys = [network.public_id, *(port.public_id for port in ports)]
    readings = {
        row.key: row
        for row in connection.execute(
            sa.select(bandwidth_readings).where(bandwidth_readings.c.key.in_(keys))
        )
    }
    states = list[LimitedPortOut]()
    gateway = limits.find_gateway()
    if network.has_gateway and gateway:
        reading = readings.get(network.public_id)
        states.append(_describe_state("gateway", "", "", gateway, reading))
    for port in ports:
        bandwidth = limits.find_port(port.name)
        if bandwidth:
            reading = readings.get(port.public_id)
            states.append(_describe_state("port", port.name, port.address, bandwidth, reading))
    return states


def _describe_state(
    subject: LimitSubject, name: str, address: str, bandwidth: Bandwidth, reading: Any
) -> LimitedPortOut:
    return LimitedPortOut(
        subject=subject,
        name=name,
        address=address,
        inward=_describe_direction(bandwidth.in_kbit, reading, "in"),
        outward=_describe_direction(bandwidth.out_kbit, reading, "out"),
    )


def _describe_direction(
    kbit: int | None, reading: Any, direction: Literal["in", "out"]
) -> DirectionOut:
    """Compare what is wanted with what was read back."""
    if kbit is None:
        return DirectionOut(kbit=None, state="none")
    if reading is None:
        return DirectionOut(
            kbit=kbit, state="not enforced", reason="the machine has not confirmed it yet"
        )
    # By the columns' names: in_kbit or out_kbit.
    facts = reading._mapping
    if facts[f"{direction}_kbit"] != kbit:
        reason = facts[f"{direction}_reason"] or "the machine has not confirmed it yet"
        return DirectionOut(kbit=kbit, state="not enforced", reason=reason)
    if facts[f"{direction}_measured_at"] == kbit:
        measured = facts[f"{direction}_measured_kbit"]
        return DirectionOut(kbit=kbit, state="verified", measured_kbit=measured)
    return DirectionOut(kbit=kbit, state="set")


def _make_bandwidth(row: Any) -> Bandwidth:
    return Bandwidth(row.in_kbit, row.out_kbit)


def _make_work(key: str, subject: LimitSubject, bandwidth: Bandwidth, zone: int) -> LimitWork:
    return LimitWork(
        key=key, subject=subject, in_kbit=bandwidth.in_kbit, out_kbit=bandwidth.out_kbit, zone=zone
    )
