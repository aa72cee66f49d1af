"""Formats the boundary's rules for nftables (nft(8)). Pure.

A rule names the addresses with which a connection began, so it matches the packets of both
directions at any age of the connection: a rule that is loaded ends what it denies.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network

from gpupool.network.ipv6.addresses import derive_uplink
from gpupool.wire.network.firewall import FirewallWork

#: As `ipaddress` has it.
_IPV6 = 6
_UNREACHABLE = "reject with icmpx admin-prohibited"
_RESET = "reject with tcp reset"


def format_rules(rules: Iterable[FirewallWork], uplink: IPv4Network) -> list[str]:
    """Format the rules, in their order; a packet that none matches goes on to the next chain.

    Args:
        uplink: prefix of the gateways' IPv4 addresses.
    """
    lines = list[str]()
    for rule in rules:
        match = _format_match(rule, uplink)
        if rule.action == "allow":
            # Not `accept`: what nothing forwards is dropped behind this chain all the same.
            lines.append(f"{match} return")
            continue
        if rule.protocol in ("any", "tcp"):
            lines.append(f"{match} {'' if rule.protocol == 'tcp' else 'meta l4proto tcp '}{_RESET}")
        if rule.protocol != "tcp":
            lines.append(f"{match} {_UNREACHABLE}")
    return lines


def _format_match(rule: FirewallWork, uplink: IPv4Network) -> str:
    is_ipv6 = ip_network(rule.prefix).version == _IPV6
    gateway = _format_inside(rule, derive_uplink(uplink) if is_ipv6 else uplink)
    family = "ip6" if is_ipv6 else "ip"
    if rule.direction == "out":
        parts = [f"ct original {family} saddr {gateway} ct original {family} daddr {rule.prefix}"]
    else:
        # The answers come from the gateway; the question named the machine.
        parts = [f"ct original {family} saddr {rule.prefix} ct reply {family} saddr {gateway}"]
    if rule.protocol == "icmp":
        parts.append(f"meta l4proto {'icmpv6' if is_ipv6 else 'icmp'}")
    elif rule.protocol != "any":
        parts.append(f"meta l4proto {rule.protocol}")
    if rule.first_port is not None:
        parts.append(f"ct original proto-dst {rule.first_port}-{rule.last_port}")
    return " ".join(parts)


def _format_inside(rule: FirewallWork, uplink: IPv4Network | IPv6Network) -> str:
    if rule.gateway is None:
        # Floating IPs have addresses of it too.
        return str(uplink)
    if not rule.others:
        return rule.gateway
    return f"{{ {', '.join((rule.gateway, *rule.others))} }}"
