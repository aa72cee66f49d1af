"""Compiles port forwards to rows of an OVN northbound database (ovn-nb(5)). Pure.

A forward is a load balancer of the network's router, on the address of its gateway. One whose
target is a load balancer has the same jobs as that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpupool.network.balancing.model import LoadBalancer
from gpupool.network.balancing.pair_rows import pair_row
from gpupool.network.balancing.proxy_model import ProxyPort
from gpupool.network.balancing.rows import BalancedPort
from gpupool.network.forwarding.model import PortForward
from gpupool.network.model import Gateway
from gpupool.network.rows import NorthboundRow


def compile_forward(
    forward: PortForward,
    gateway: Gateway,
    ports: Iterable[BalancedPort],
    balancers: Sequence[LoadBalancer],
) -> NorthboundRow:
    """Compile a forward to its row.

    Args:
        gateway: that of the network.
        ports, balancers: those of its network.
    """
    balancer = _find_balancer(forward, balancers)
    targets, port = _find_targets(forward, list(ports), balancer)
    leads = [f"{target.address}:{port}" for target in targets]
    vips = {f"{gateway.address}:{forward.port}": ",".join(sorted(leads))}
    if gateway.address6 is not None:
        leads = [f"[{one.address6}]:{port}" for one in targets if one.address6 is not None]
        vips[f"[{gateway.address6}]:{forward.port}"] = ",".join(sorted(leads))
    row = NorthboundRow(
        "Load_Balancer",
        f"forward/{forward.key}",
        {
            "name": f"gpupool-{forward.key}",
            "protocol": (forward.protocol,),
            "vips": vips,
            "ip_port_mappings": {},
            "options": {"reject": "true"},
        },
        {"health_check": frozenset()},
    )
    return pair_row(row, None if balancer is None else balancer.proxy)


def _find_balancer(forward: PortForward, balancers: Iterable[LoadBalancer]) -> LoadBalancer | None:
    """Find the load balancer that is the target of a forward; None: jobs are."""
    for one in balancers:
        if forward.target in (one.name.lower(), one.dns_name):
            return one
    return None


def _find_targets(
    forward: PortForward, ports: Sequence[BalancedPort], balancer: LoadBalancer | None
) -> tuple[Sequence[BalancedPort | ProxyPort], int]:
    """Find what answers behind a forward, and on which port it does."""
    if balancer is None:
        return [port for port in ports if forward.has_target(port.name)], forward.target_port
    if balancer.proxy is None:
        return [port for port in ports if balancer.has_backend(port.name)], balancer.target_port
    asked = forward.target_port
    return [balancer.proxy], asked if asked in balancer.listeners else balancer.port
