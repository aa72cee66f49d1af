"""What the agent reports of zones, and how zones are shown. In the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.tables import networks
from gpupool.network.zones.service import count_networks, list_zones
from gpupool.network.zones.tables import network_zones
from gpupool.store.write_transaction import WriteTransaction
from gpupool.wire.network.networks import NetworkEngineOut
from gpupool.wire.network.zones import NetworkZoneOut, NetworkZoneReport


def apply_zone_reports(write: WriteTransaction, reports: Sequence[NetworkZoneReport]) -> None:
    """Keep what the agent says of each zone that is wanted, and of no others. Idempotent.

    Of zone 0 it says something where there are others. A zone of which it says nothing yet, as after
    a restart, is where it was.
    """
    wanted = {0, *list_zones(write.connection)}
    before = {row.number: row._mapping for row in write.execute(sa.select(network_zones))}
    now = {number: dict(values) for number, values in before.items() if number in wanted}
    now |= {one.number: one.model_dump() for one in reports if one.number in wanted}
    if now == {number: dict(values) for number, values in before.items()}:
        return
    write.execute(network_zones.delete())
    for number, values in now.items():
        write.execute(network_zones.insert().values(**values))
        known = before.get(number)
        if number and (known is None or known["state"] != values["state"]):
            data = {"zone": number, "reason": values["reason"]}
            write.event(f"network.zone_{values['state']}", str(number), data=data)
    write.announce("network-engine")


def forget_zones(write: WriteTransaction) -> None:
    """Forget what the agent said of zones: its engine ends or starts. Idempotent."""
    write.execute(network_zones.delete())


def list_reported(connection: sa.Connection) -> list[int]:
    """List the zones above 0 of which the agent has said where their databases are."""
    query = sa.select(network_zones.c.number).where(
        network_zones.c.number > 0, network_zones.c.northbound != ""
    )
    return sorted(connection.execute(query).scalars())


def read_zone_northbound(connection: sa.Connection, zone: int) -> str | None:
    """Read where the northbound database of a zone above 0 is; None while it is not ready."""
    query = sa.select(network_zones.c.northbound).where(
        network_zones.c.number == zone, network_zones.c.state == "ready"
    )
    found: str | None = connection.execute(query).scalar()
    return found or None


def require_zone(connection: sa.Connection, network_id: int) -> None:
    """Raise NetworkingUnavailable where the zone of a network has failed.

    One that starts is waited for by the agent.
    """
    query = (
        sa.select(network_zones)
        .join(networks, networks.c.zone == network_zones.c.number)
        .where(
            networks.c.id == network_id,
            networks.c.zone > 0,
            network_zones.c.state == "failed",
        )
    )
    row = connection.execute(query).one_or_none()
    if row is not None:
        raise NetworkingUnavailable(
            f"zone {row.number} of networks failed: {row.reason}", hint="gpupool network status"
        )


def add_refused(engine: NetworkEngineOut, agents: Sequence[str]) -> NetworkEngineOut:
    """Say which agents are no machines of the engine because it has zones.

    Args:
        agents: of the pool.
    """
    refused = [agent for agent in agents if agent != engine.node]
    if engine.reason or not refused or len(engine.zones) < 2:
        return engine
    reason = (
        f"jobs with a network do not run on {', '.join(refused[:5])}: networks are in "
        f"{len(engine.zones)} zones, which need one machine; without jobs in networks: "
        "gpupool network disable, then enable"
    )
    return engine.model_copy(update={"reason": reason})


def describe_zones(connection: sa.Connection, engine: Any) -> list[NetworkZoneOut]:
    """Describe all zones, zone 0 first.

    Args:
        engine: the row of the engine.
    """
    counts = count_networks(connection)
    reported = {row.number: row for row in connection.execute(sa.select(network_zones))}
    found = list[NetworkZoneOut]()
    for number in (0, *list_zones(connection)):
        row = reported.get(number)
        # The server knows more of zone 0, such as that its agent does not answer.
        source = row if number else engine
        found.append(
            NetworkZoneOut(
                number=number,
                networks=counts[number],
                state="starting" if source is None else source.state,
                reason="" if source is None else source.reason,
                daemons=None if row is None else row.daemons,
            )
        )
    return found
