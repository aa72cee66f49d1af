"""Compiles load balancers to rows of an OVN northbound database (ovn-nb(5)). Pure.

The switches of a network balance, so a connection is assigned where its client is. A backend is in
its balancer while its job has an address, and with checks while it accepts connections.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from gpupool.network.balancing.model import LoadBalancer
from gpupool.network.balancing.pair_rows import pair_row
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
        address6, probe6: as these, of IPv6; None where its subnet has no IPv6.
    """

    name: str
    port: str
    address: IPv4Address
    probe: IPv4Address | None
    address6: IPv6Address | None = None
    probe6: IPv6Address | None = None


def compile_balancer(
    balancer: LoadBalancer, ports: Iterable[BalancedPort], *, has_ipv6: bool = False
) -> tuple[NorthboundRow, ...]:
    """Compile a load balancer to its rows.

    Args:
        ports: those of its network.
        has_ipv6: whether its network has IPv6.
    """
    if balancer.proxy is not None:
        return (_make_proxy_row(balancer, balancer.proxy),)
    backends = [port for port in ports if balancer.has_backend(port.name)]
    targets = (f"{port.address}:{balancer.target_port}" for port in backends)
    checks = {f"lb-check/{balancer.key}": f"{balancer.address}:{balancer.port}"}
    vips = {f"{balancer.address}:{balancer.port}": ",".join(sorted(targets))}
    if has_ipv6:
        address = f"[{balancer.address6}]:{balancer.port}"
        vips[address] = ",".join(sorted(_list_targets6(balancer, backends)))
        checks[f"lb-check6/{balancer.key}"] = address
    if not balancer.is_checked:
        checks = {}
    rows = [_make_row(balancer, vips, _map_probes(balancer, backends), checks)]
    for check, vip in checks.items():
        rows.append(
            NorthboundRow("Load_Balancer_Health_Check", check, {"vip": vip, "options": _CHECK})
        )
    return tuple(rows)


def _list_targets6(balancer: LoadBalancer, backends: Iterable[BalancedPort]) -> Iterable[str]:
    return (
        f"[{port.address6}]:{balancer.target_port}"
        for port in backends
        if port.address6 is not None
    )


def _make_row(
    balancer: LoadBalancer,
    vips: Mapping[str, str],
    probes: Mapping[str, str],
    checks: Iterable[str],
) -> NorthboundRow:
    return NorthboundRow(
        "Load_Balancer",
        f"lb/{balancer.key}",
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


def _make_proxy_row(balancer: LoadBalancer, proxy: ProxyPort) -> NorthboundRow:
    """Make the row that leads to the proxy, at first to that of the first machine of a pair.

    A second proxy in it would be a second target of each address.
    """
    vips = {f"{balancer.address}:{port}": f"{proxy.address}:{port}" for port in proxy.listeners}
    if proxy.address6 is not None:
        for port in proxy.listeners:
            vips[f"[{balancer.address6}]:{port}"] = f"[{proxy.address6}]:{port}"
    return pair_row(_make_row(balancer, vips, {}, ()), proxy)


def key_balancer(balancer: LoadBalancer) -> str:
    """Return the key of a load balancer's row."""
    if balancer.proxy is None:
        return f"lb/{balancer.key}"
    return _make_proxy_row(balancer, balancer.proxy).key


def _map_probes(balancer: LoadBalancer, backends: Iterable[BalancedPort]) -> Mapping[str, str]:
    if not balancer.is_checked:
        return {}
    probes = dict[str, str]()
    for port in backends:
        if port.probe is not None:
            probes[str(port.address)] = f"{port.port}:{port.probe}"
        if port.probe6 is not None:
            probes[f"[{port.address6}]"] = f"{port.port}:[{port.probe6}]"
    return probes
