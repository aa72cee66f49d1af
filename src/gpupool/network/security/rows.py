"""Compiles security groups to rows of an OVN northbound database (ovn-nb(5)). Pure.

A group becomes a port group with access control lists of its own. One scheme of priorities holds
for all of them: the subnet's router before members and rules, and these before the refusal of what
is left. A job in several groups gets what any of them takes. Connections are tracked, so answers
pass in both directions and a rule is about the first packet.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpupool.network.rows import NorthboundRow
from gpupool.network.security.model import SecurityGroup, SecurityRule

#: Priorities of access control lists (0 to 32767).
_FROM_ROUTER = 3000
_TAKEN = 2000
_REFUSED = 1000


def compile_group(
    group: SecurityGroup, ports: Iterable[str], routers: Iterable[str]
) -> tuple[NorthboundRow, ...]:
    """Compile a group to its rows.

    Args:
        ports: keys of the rows of its ports.
        routers: addresses of the network's router in its subnets.
    """
    name = name_port_group(group.key)
    to_group = f"outport == @{name}"
    router = f"{to_group} && ip4.src == {{{', '.join(sorted(routers))}}}"
    members = f"{to_group} && ip4.src == ${name}_ip4"
    lists = [
        _make_list(f"acl/{group.key}/router", _FROM_ROUTER, router, "allow-related"),
        _make_list(f"acl/{group.key}/members", _TAKEN, members, "allow-related"),
        # ARP is no IP, so neighbours are found.
        _make_list(f"acl/{group.key}/others", _REFUSED, f"{to_group} && ip", "drop"),
    ]
    for rule in group.rules:
        match = f"{to_group} && {_match_rule(rule)}"
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
        {"direction": "to-lport", "priority": priority, "match": match, "action": action},
    )


def _match_rule(rule: SecurityRule) -> str:
    parts = ["ip4" if rule.protocol == "any" else _match_protocol(rule)]
    if rule.group is not None:
        parts.append(f"ip4.src == ${name_port_group(rule.group)}_ip4")
    elif rule.prefix is not None:
        parts.append(f"ip4.src == {rule.prefix}")
    return " && ".join(parts)


def _match_protocol(rule: SecurityRule) -> str:
    if rule.protocol == "icmp":
        return "icmp4"
    field = f"{rule.protocol}.dst"
    if rule.first_port is None:
        return rule.protocol
    if rule.first_port == rule.last_port:
        return f"{field} == {rule.first_port}"
    return f"{field} >= {rule.first_port} && {field} <= {rule.last_port}"
