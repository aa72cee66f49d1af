"""Compiles port forwards to rows of an OVN northbound database (ovn-nb(5)). Pure.

A forward is a load balancer of the network's router, on the address of its gateway. One whose
target is a load balancer has the same jobs as that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpupool.network.balancing.model import LoadBalancer
from gpupool.network.balancing.rows import BalancedPort
from gpupool.network.forwarding.model import PortForward
from gpupool.network.rows import NorthboundRow


def compile_forward(
    forward: PortForward,
    gateway: str,
    ports: Iterable[BalancedPort],
    balancers: Iterable[LoadBalancer],
) -> NorthboundRow:
    """Compile a forward to its row.

    Args:
        gateway: address of the network's gateway on the uplink.
        ports, balancers: those of its network.
    """
    targets = _list_targets(forward, list(ports), balancers)
    return NorthboundRow(
        "Load_Balancer",
        key_forward(forward),
        {
            "name": f"gpupool-{forward.key}",
            "protocol": (forward.protocol,),
            "vips": {f"{gateway}:{forward.port}": ",".join(sorted(targets))},
            "ip_port_mappings": {},
            "options": {"reject": "true"},
        },
        {"health_check": frozenset()},
    )


def key_forward(forward: PortForward) -> str:
    return f"forward/{forward.key}"


def _list_targets(
    forward: PortForward, ports: Sequence[BalancedPort], balancers: Iterable[LoadBalancer]
) -> list[str]:
    for balancer in balancers:
        if balancer.name.lower() != forward.target:
            continue
        if balancer.proxy is None:
            backends = [port for port in ports if balancer.has_backend(port.name)]
            return [f"{port.address}:{balancer.target_port}" for port in backends]
        asked = forward.target_port
        listener = asked if asked in balancer.listeners else balancer.port
        return [f"{balancer.proxy.address}:{listener}"]
    jobs = [port for port in ports if forward.has_target(port.name)]
    return [f"{port.address}:{forward.target_port}" for port in jobs]
