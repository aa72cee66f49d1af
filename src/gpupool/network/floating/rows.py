"""Compiles floating IPs to rows of an OVN northbound database (ovn-nb(5), NAT). Pure.

A row translates in both directions, on the machine that has the gateway: only that one has a cable
outside, so a row is never distributed (`external_mac`).
"""

from __future__ import annotations

from gpupool.network.floating.model import bind_ports
from gpupool.network.model import Network
from gpupool.network.rows import NorthboundRow


def compile_floating(network: Network) -> tuple[NorthboundRow, ...]:
    """Compile the floating IPs whose jobs are in the network now; none without a gateway."""
    if network.gateway is None:
        return ()
    return tuple(
        NorthboundRow(
            "NAT",
            f"floating-ip/{one.key}",
            {
                "type": "dnat_and_snat",
                "external_ip": str(one.inner),
                "logical_ip": str(port.address),
            },
        )
        for one, port in bind_ports(network.floating_ips, network.ports)
    )
