"""Compiles security groups to rows of an OVN northbound database (ovn-nb(5)). Pure.

A group becomes a port group with access control lists of its own. One scheme of priorities holds
for all of them: the subnet's router before members and rules, and these before the refusal of what
is left. A job in several groups gets what any of them takes. Connections are tracked, so answers
pass in both directions and a rule is about the first packet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from ipaddress import IPv6Network

from gpupool.network.rows import NorthboundRow
from gpupool.network.security.model import SecurityGroup, SecurityRule

#: Priorities of access control lists (0 to 32767).
_FROM_ROUTER = 3000
_TAKEN = 2000
_REFUSED = 1000


def compile_group(
    group: SecurityGroup,
    ports: Iterable[str],
    routers: Iterable[str],
    routers6: Collection[str] = (),
) -> tuple[NorthboundRow, ...]:
    """Compile a group to its rows.

    Args:
        ports: keys of the rows of its ports.
        routers: addresses of the network's router in its subnets.
        routers6: its IPv6 addresses; none where the network has no IPv6.
    """
    name = name_port_group(group.key)
    to_group = f"outport == @{name}"
    has_ipv6 = bool(routers6)
    from_router = f"ip4.src == {{{', '.join(sorted(routers))}}}"
    if has_ipv6:
        from_router = f"({from_router} || ip6.src == {{{', '.join(sorted(routers6))}}})"
    router = f"{to_group} && {from_router}"
    members = f"{to_group} && {_match_members(name, has_ipv6=has_ipv6)}"
    lists = [
        _make_list(f"acl/{group.key}/router", _FROM_ROUTER, router, "allow-related"),
        _make_list(f"acl/{group.key}/members", _TAKEN, members, "allow-related"),
        # ARP is no IP, and northd(8) passes neighbour discovery and router advertisements before
        # all rules, so neighbours are found.
        _make_list(f"acl/{group.key}/others", _REFUSED, f"{to_group} && ip", "drop"),
    ]
    for rule in group.rules:
        match = f"{to_group} && {_match_rule(rule, has_ipv6=has_ipv6)}"
        lists.append(_make_list(f"acl/{group.key}/{rule.key}", _TAKEN, match, "allow-related"))
    return (
        NorthboundRow(
            "Port_Group",
            key_group(group.key),
            {"name": name},
            {"ports": frozenset(ports), "acls": frozenset(row.key for row in lists)},
        ),
        *lists,
    )


def key_group(group: str) -> str:
    return f"port-group/{group}"


def name_port_group(group: str) -> str:
    """Return the name of a port group; a match accepts letters, digits and underscores (ovn-sb(5))."""
    return f"gpupool_{group.replace('-', '_')}"


def _make_list(key: str, priority: int, match: str, action: str) -> NorthboundRow:
    return NorthboundRow(
        "ACL",
        key,
        {
            "direction": "to-lport",
            "priority": priority,
            "match": match,
            "action": action,
            # Flow logs change these.
            "log": False,
            "severity": (),
            "meter": (),
            "name": (),
        },
    )


def _match_members(name: str, *, has_ipv6: bool) -> str:
    """Match packets from the members of a port group."""
    match = f"ip4.src == ${name}_ip4"
    # OVN makes both address sets of each port group.
    return f"({match} || ip6.src == ${name}_ip6)" if has_ipv6 else match


def _match_rule(rule: SecurityRule, *, has_ipv6: bool) -> str:
    parts = [_match_protocol(rule, has_ipv6=has_ipv6)]
    if rule.group is not None:
        parts.append(_match_members(name_port_group(rule.group), has_ipv6=has_ipv6))
    elif isinstance(rule.prefix, IPv6Network):
        parts.append(f"ip6.src == {rule.prefix}")
    elif rule.prefix is not None:
        parts.append(f"ip4.src == {rule.prefix}")
    return " && ".join(parts)


def _match_protocol(rule: SecurityRule, *, has_ipv6: bool) -> str:
    # The prefix of a rule decides the family; a network without IPv6 has IPv4 rules alone.
    if rule.protocol == "any":
        return _choose_family(rule, "ip4", "ip6", "ip" if has_ipv6 else "ip4")
    if rule.protocol == "icmp":
        both = "(icmp4 || icmp6)" if has_ipv6 else "icmp4"
        return _choose_family(rule, "icmp4", "icmp6", both)
    field = f"{rule.protocol}.dst"
    if rule.first_port is None:
        return rule.protocol
    if rule.first_port == rule.last_port:
        return f"{field} == {rule.first_port}"
    return f"{field} >= {rule.first_port} && {field} <= {rule.last_port}"


def _choose_family(rule: SecurityRule, ipv4: str, ipv6: str, both: str) -> str:
    if rule.prefix is None:
        return both
    return ipv6 if isinstance(rule.prefix, IPv6Network) else ipv4
