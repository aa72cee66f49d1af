"""The interface and the VLANs of the pool's machine that an admin opens for dedicated lines."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import BadAddress, StillInUse
from gpupool.network.lines.tables import network_lines
from gpupool.network.tables import network_engine
from gpupool.store.database import WriteTransaction


def parse_vlans(text: str) -> range:
    """Parse `200-299` or `200`; an empty text is no VLAN. Raises BadAddress."""
    if not text:
        return range(0)
    first, _, last = text.partition("-")
    vlans = range(int(first), int(last or first) + 1)
    if not vlans or vlans[0] < 1 or vlans[-1] > 4094:
        raise BadAddress(
            f"{text} is no range of VLANs from 1 to 4094", hint="write it like 200-299"
        )
    return vlans


def change_opening(
    write: WriteTransaction, row: Any, interface: str | None, vlans: str | None
) -> bool:
    """Open an interface and VLANs for lines; None leaves each as it is.

    Args:
        row: of the engine.

    Returns:
        Whether the agent has to do something.

    Raises:
        BadAddress: `vlans` is no range of VLANs.
        StillInUse: lines use what would be closed.
    """
    opened = parse_vlans(row.line_vlans if vlans is None else vlans)
    chosen = row.line_interface if interface is None else interface
    query = sa.select(network_lines.c.vlan).order_by(network_lines.c.vlan)
    used = list(write.execute(query).scalars())
    closing = (
        used if chosen != row.line_interface else [vlan for vlan in used if vlan not in opened]
    )
    if closing:
        raise StillInUse(
            f"dedicated lines use what would be closed: VLAN {', '.join(map(str, closing[:5]))}",
            hint="gpupool network line-list NETWORK --tenant TENANT",
            vlans=closing,
        )
    values = {"line_interface": chosen}
    if vlans is not None:
        values["line_vlans"] = vlans
    write.execute(network_engine.update().values(**values))
    # Also the same interface again: its agent may lack a package no more.
    return interface is not None


def read_opening(connection: sa.Connection) -> tuple[str, range]:
    """Read the interface for lines and its VLANs; an empty name: none is open."""
    query = sa.select(network_engine.c.line_interface, network_engine.c.line_vlans)
    row = connection.execute(query.where(network_engine.c.state != "off")).one_or_none()
    if row is None or not row.line_interface:
        return "", range(0)
    return row.line_interface, parse_vlans(row.line_vlans)
