"""Compiles what IPv6 adds to a network's rows of an OVN northbound database (ovn-nb(5)). Pure.

Guests get their addresses by DHCPv6, as the advertisements of the router say. Jobs have theirs from
the agent. Nothing of IPv6 comes in over dedicated lines, and over gateways that carry IPv4 alone.
"""

from __future__ import annotations

from gpupool.network.ipv6.addresses import LINK_LENGTH, RESOLVER_ADDRESS
from gpupool.network.model import Network, PeeringEnd, Subnet, make_router_mac
from gpupool.network.rows import NorthboundRow

#: Of the policies that drop IPv6; those of lines, which are about IPv4, have 100.
_DROP_PRIORITY = 90


def compile_dhcp(network: Network, subnet: Subnet) -> tuple[NorthboundRow, ...]:
    """Compile the options of DHCPv6 in a subnet; none where it has no IPv6."""
    if subnet.cidr6 is None:
        return ()
    row = NorthboundRow(
        "DHCP_Options",
        f"dhcp6/{subnet.key}",
        {
            "cidr": str(subnet.cidr6),
            "options": {
                "server_id": make_router_mac(subnet),
                "dns_server": str(RESOLVER_ADDRESS),
                "domain_search": f'"{network.domain}"',
            },
        },
    )
    return (row,)


def reference_dhcp(subnet: Subnet) -> dict[str, frozenset[str]]:
    """Return the reference of a port of a subnet to the options of DHCPv6, by column."""
    return {} if subnet.cidr6 is None else {"dhcpv6_options": frozenset({f"dhcp6/{subnet.key}"})}


def make_advertisements(network: Network, subnet: Subnet) -> dict[str, dict[str, str]]:
    """Make what the router advertises in a subnet (RFC 4861 section 4.2), by column."""
    if subnet.cidr6 is None:
        return {}
    return {
        "ipv6_ra_configs": {
            # Port security knows one address for each port, so guests may not make their own.
            "address_mode": "dhcpv6_stateful",
            "mtu": str(network.mtu),
            # A guest drops its default route after 18 hours without one.
            "send_periodic": "true",
        }
    }


def compile_drops(network: Network, router_ports: list[str]) -> list[NorthboundRow]:
    """Compile the policies that drop IPv6 which comes in over gateways and lines.

    Args:
        router_ports: names of the ports of the router to them.
    """
    if not network.has_ipv6:
        return []
    return [
        NorthboundRow(
            "Logical_Router_Policy",
            f"ipv6-drop/{port}",
            {
                "priority": _DROP_PRIORITY,
                "match": f'inport == "{port}" && ip6',
                "action": "drop",
            },
        )
        for port in router_ports
    ]


def list_link_networks(end: PeeringEnd) -> list[str]:
    """List the IPv6 networks of a router's port to a peered network."""
    return [f"{end.address6}/{LINK_LENGTH}"] if end.prefixes6 else []
