"""Compiles load balancers to rows of an OVN northbound database (ovn-nb(5)). Pure.

The switches of a network balance, so a connection is assigned where its client is. A backend is in
its balancer while its job has an address, and with checks while it accepts connections.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

from gpupool.network.balancing.model import LoadBalancer
from gpupool.network.balancing.proxy_model import ProxyPort
from gpupool.network.rows import NorthboundRow

#: Seconds between two probes and for an answer; failures after which a backend is left out, and
#: successes after which it is in again (ovn-nb(5), Load_Balancer_Health_Check).
_CHECK: Final = {"interval": "1", "timeout": "1", "failure_count": "2", "success_count": "1"}


@dataclass(frozen=True)
class BalancedPort:
    """A port that may serve behind a balancer.

    Attributes:
        name: its DNS name.
        port: name of its logical switch port.
        probe: address from which it is probed; None: no probe is set up in its subnet.
    """

    name: str
    port: str
    address: IPv4Address
    probe: IPv4Address | None


def compile_balancer(
    balancer: LoadBalancer, ports: Iterable[BalancedPort]
) -> tuple[NorthboundRow, ...]:
    """Compile a load balancer to its rows.

    Args:
        ports: those of its network.
    """
    if balancer.proxy is not None:
        return (_make_row(balancer, _list_proxy_vips(balancer, balancer.proxy), {}, ()),)
    backends = [port for port in ports if balancer.has_backend(port.name)]
    address = f"{balancer.address}:{balancer.port}"
    targets = (f"{port.address}:{balancer.target_port}" for port in backends)
    check = f"lb-check/{balancer.key}"
    vips = {address: ",".join(sorted(targets))}
    checks = (check,) if balancer.is_checked else ()
    rows = [_make_row(balancer, vips, _map_probes(balancer, backends), checks)]
    if balancer.is_checked:
        rows.append(
            NorthboundRow("Load_Balancer_Health_Check", check, {"vip": address, "options": _CHECK})
        )
    return tuple(rows)


def _make_row(
    balancer: LoadBalancer,
    vips: Mapping[str, str],
    probes: Mapping[str, str],
    checks: Iterable[str],
) -> NorthboundRow:
    return NorthboundRow(
        "Load_Balancer",
        key_balancer(balancer),
        {
            "name": f"gpupool-{balancer.key}",
            "protocol": (balancer.protocol,),
            "vips": dict(vips),
            "ip_port_mappings": dict(probes),
            # Without a backend a client is refused at once, and does not wait.
            "options": {"reject": "true"},
        },
        {"health_check": frozenset(checks)},
    )


def _list_proxy_vips(balancer: LoadBalancer, proxy: ProxyPort) -> dict[str, str]:
    """List what leads to the proxy: a second proxy would be a second target of each address."""
    return {f"{balancer.address}:{port}": f"{proxy.address}:{port}" for port in proxy.listeners}


def key_balancer(balancer: LoadBalancer) -> str:
    return f"lb/{balancer.key}"


def _map_probes(balancer: LoadBalancer, backends: Iterable[BalancedPort]) -> Mapping[str, str]:
    if not balancer.is_checked:
        return {}
    return {
        str(port.address): f"{port.port}:{port.probe}"
        for port in backends
        if port.probe is not None
    }
