"""Keeps the IPv6 routes outside of the ports on this machine as their networks lead them.

So jobs that run get a way outside with the gateway or a static route, and fail at once without it.
The southbound database says which networks have one. Needs the extra `network`.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.namespaces import JobNamespaces, enter_namespace, import_pyroute2
from gpupool.network.ipv6.addresses import UNIQUE_LOCAL
from gpupool.network.northbound import name_port

#: What the names of ports begin with.
_BEGIN = name_port("")

log = logging.getLogger(__name__)


class OutsideRoutes:
    """The routes of one machine. One thread at a time."""

    def __init__(self, files: EngineFiles) -> None:
        self._namespaces = JobNamespaces(files)
        #: What is in force, by port.
        self._done = dict[str, bool]()

    def follow(self, wanted: Iterable[tuple[str, bool]]) -> None:
        """Make the routes as they are wanted. Idempotent; call it again for what is not there yet.

        Args:
            wanted: ports of networks with IPv6 by their names in OVN, and whether the network leads
                IPv6 outside. Others are forgotten.
        """
        done = dict[str, bool]()
        for name, has_route in wanted:
            port = name.removeprefix(_BEGIN)
            namespace = self._namespaces.locate(port)
            if self._done.get(port) == has_route or _try_route(namespace, wanted=has_route):
                done[port] = has_route
        self._done = done


def _try_route(namespace: Path, *, wanted: bool) -> bool:
    """Do as `route_outside`; what one port refuses keeps no other one waiting."""
    try:
        return route_outside(namespace, wanted=wanted)
    except OSError as error:
        # Its job ends, or has changed its routes.
        log.debug("the IPv6 route outside in %s: %s", namespace.name, error)
        return False


def route_outside(namespace: Path, *, wanted: bool) -> bool:
    """Let a port with IPv6 reach what lies outside over IPv6, or fail at once. Idempotent.

    Returns:
        Whether it is done; else the port has no namespace or no IPv6, or is not set up yet.

    Raises OSError where the namespace has gone, or its kernel takes no such route.
    """
    if not namespace.exists():
        return False
    library = import_pyroute2()
    with enter_namespace(namespace), library.IPRoute() as inside:
        routes = list(inside.get_routes(family=socket.AF_INET6))
        gateway = _find_hop(routes, UNIQUE_LOCAL.prefixlen, str(UNIQUE_LOCAL[0]))
        if gateway is None:
            return False
        if (_find_hop(routes, 0, None) is not None) != wanted:
            verb = "add" if wanted else "del"
            try:
                inside.route(verb, dst="::/0", gateway=gateway, family=socket.AF_INET6)
            except library.NetlinkError as error:
                raise OSError(error.code, str(error)) from error
    return True


def _find_hop(routes: Iterable[Any], length: int, address: str | None) -> str | None:
    """Find the next hop to a prefix among routes as pyroute2 returns them; None: no such route."""
    for route in routes:
        if route["dst_len"] == length and route.get_attr("RTA_DST") == address:
            hop: str | None = route.get_attr("RTA_GATEWAY")
            if hop is not None:
                return hop
    return None
