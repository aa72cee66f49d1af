"""Where the databases of an OVN are, as admins write it. Pure."""

from __future__ import annotations

import re
from ipaddress import ip_address

from gpupool.base.errors import BadAddress

_REMOTE = re.compile(r"(tcp|ssl):(\[[0-9A-Fa-f:.]+\]|[0-9.]+):([0-9]{1,5})")
#: The servers of a cluster are 3 or 5; more are a mistake.
_MOST_SERVERS = 9


def parse_remotes(text: str, database: str) -> tuple[str, ...]:
    """Split `tcp:10.0.0.1:6641,tcp:10.0.0.2:6641`.

    Args:
        database: northbound or southbound, for messages.

    Raises BadAddress for what is no such list.
    """
    servers = tuple(text.split(","))
    if len(servers) > _MOST_SERVERS:
        raise BadAddress(
            f"the {database} database of OVN has {len(servers)} servers; {_MOST_SERVERS} is the most"
        )
    for server in servers:
        match = _REMOTE.fullmatch(server)
        if match is None or not _is_reachable(match[2], int(match[3])):
            raise BadAddress(
                f"{server[:80]!r} is no place of a {database} database of OVN",
                hint="write tcp:ADDRESS:PORT or ssl:ADDRESS:PORT, as tcp:192.0.2.7:6641, several "
                "with commas",
            )
    kinds = {server[:3] for server in servers}
    if len(kinds) > 1:
        raise BadAddress(
            f"the servers of the {database} database are reached by tcp and by ssl",
            hint="name all of them with tcp: or all with ssl:",
        )
    return servers


def find_southbound(northbound: tuple[str, ...]) -> tuple[str, ...]:
    """Return where the southbound database is by custom: the next port of the same servers."""
    found = []
    for server in northbound:
        place, _, port = server.rpartition(":")
        found.append(f"{place}:{int(port) + 1}")
    return tuple(found)


def _is_reachable(address: str, port: int) -> bool:
    try:
        parsed = ip_address(address.strip("[]"))
    except ValueError:
        return False
    # A southbound database by custom has the next port.
    return 1 <= port <= 65534 and not parsed.is_unspecified
