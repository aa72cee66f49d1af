"""The ports of the pool's machine that an admin opens for port forwards of tenants."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.base.errors import BadAddress, StillInUse
from gpupool.network.forwarding.tables import port_forwards


def parse_ports(text: str) -> range:
    """Parse `30000-30099`. Raises BadAddress."""
    first, _, last = text.partition("-")
    ports = range(int(first), int(last) + 1)
    # Below are the services of the machine itself (RFC 6335 section 6).
    if not ports or ports[0] < 1024 or ports[-1] > 65535:
        raise BadAddress(
            f"{text} is no range of ports from 1024 to 65535", hint="write it like 30000-30099"
        )
    return ports


def refuse_closed_ports(connection: sa.Connection, text: str) -> None:
    """Raise StillInUse where a forward has a port outside of the ports that are to be open."""
    ports = parse_ports(text) if text else range(0)
    used = connection.execute(sa.select(port_forwards.c.port)).scalars()
    outside = sorted({port for port in used if port not in ports})
    if outside:
        raise StillInUse(
            f"ports that would be closed are forwarded: {', '.join(map(str, outside[:5]))}",
            hint="gpupool network forward-list NETWORK --tenant TENANT",
            ports=outside,
        )
