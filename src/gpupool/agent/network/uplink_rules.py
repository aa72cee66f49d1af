"""The rules of a machine with an uplink, for nftables: what it passes, and what it translates. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from gpupool.agent.network.firewall import format_rules as format_boundary
from gpupool.network.ipv6.addresses import derive_uplink
from gpupool.wire.network.firewall import FirewallWork
from gpupool.wire.network.floating_ips import FloatingIpWork
from gpupool.wire.network.networks import ForwardWork

_RULES: Final = """
table inet {table}
delete table inet {table}
table inet {table} {{
    chain input {{
        type filter hook input priority filter; policy accept;
        iifname "{cable}" ct state established,related accept
        iifname "{cable}" icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert }} accept
        iifname "{cable}" drop
{guard}
    }}
    chain boundary {{
{boundary}
    }}
    chain forward {{
        type filter hook forward priority filter; policy accept;
        iifname "{cable}" ip saddr != {prefix} drop
        iifname "{cable}" ip6 saddr != {prefix6} drop
        iifname "{cable}" oifname "{cable}" drop
{late}
        iifname "{cable}" jump boundary
        oifname "{cable}" jump boundary
        oifname "{cable}" ct state established,related accept
        oifname "{cable}" ct status dnat accept
        oifname "{cable}" drop
    }}
    chain prerouting {{
        type nat hook prerouting priority dstnat; policy accept;
{floating_in}
{forwards}
    }}
    chain output {{
        type nat hook output priority -100; policy accept;
{floating_in}
{forwards}
    }}
    chain postrouting {{
        type nat hook postrouting priority srcnat; policy accept;
{floating_out}
        ip saddr {prefix} oifname != "{cable}" {translation}
        ip6 saddr {prefix6} oifname != "{cable}" masquerade
    }}
}}
"""


def format_rules(
    table: str,
    cable: str,
    prefix: IPv4Network,
    *,
    forwards: Iterable[ForwardWork],
    firewall: Iterable[FirewallWork],
    floating_ips: Sequence[FloatingIpWork],
    outer: IPv4Address | None,
) -> str:
    """Format all rules, which replace those before at once.

    Args:
        prefix: of the cable.
        outer: what packets are translated to; None: the machine's own address.
    """
    return _RULES.format(
        table=table,
        cable=cable,
        prefix=prefix,
        # Before the forwards: all ports of a floating IP are its job's.
        floating_in="\n".join(map(_format_floating_in, floating_ips)),
        floating_out="\n".join(map(_format_floating_out, floating_ips)),
        late="\n".join(f"        {line}" for line in _format_late(floating_ips, prefix, cable)),
        prefix6=derive_uplink(prefix),
        forwards="\n".join(line for one in forwards for line in _format_forward(one)),
        boundary="\n".join(f"        {line}" for line in format_boundary(firewall, prefix)),
        guard=_format_guard(outer),
        translation="masquerade" if outer is None else f"snat ip to {outer}",
    )


def _format_forward(forward: ForwardWork) -> list[str]:
    # Not of loopback addresses: such packets may leave no machine (RFC 1122 section 3.2.1.3).
    port = f"{forward.protocol} dport {forward.port}"
    lines = [
        f"        fib daddr type local ip daddr != 127.0.0.0/8 {port} dnat ip to {forward.gateway}"
    ]
    if forward.gateway6 is not None:
        # Nor of link-local ones, which no router forwards (RFC 4291 section 2.5.6).
        local = "fib daddr type local ip6 daddr != { ::1, fe80::/10 }"
        lines.append(f"        {local} {port} dnat ip6 to {forward.gateway6}")
    return lines


def _format_floating_in(work: FloatingIpWork) -> str:
    return f"        ip daddr {work.address} dnat ip to {work.inner}"


def _format_floating_out(work: FloatingIpWork) -> str:
    return f"        ip saddr {work.inner} snat ip to {work.address}"


def _format_late(pairs: Sequence[FloatingIpWork], prefix: IPv4Network, cable: str) -> list[str]:
    """Drop packets of connections that began under an earlier floating IP of an address on the cable.

    The kernel translates a connection as it began. The address may be another job's by now, which
    must neither get packets for the job before it, nor send with the floating IP of that.
    """
    _, upper = prefix.subnets(prefixlen_diff=1)
    into = f'oifname "{cable}" ip daddr {upper}'
    out = f'iifname "{cable}" ip saddr {upper}'
    if not pairs:
        return [f"{into} drop", f"{out} drop"]
    present = [f"{one.inner} . {one.address}" for one in pairs]
    # The first packet of a connection comes here before its source is translated.
    first = [f"{one.inner} . {one.inner}" for one in pairs]
    known = f"!= {{ {', '.join(present)} }} drop"
    started = f"!= {{ {', '.join(present + first)} }} drop"
    return [
        f"{into} ct direction original ip daddr . ct original ip daddr {known}",
        f"{into} ct direction reply ip daddr . ct reply ip daddr {known}",
        f"{out} ct direction reply ip saddr . ct original ip daddr {known}",
        f"{out} ct direction original ip saddr . ct reply ip daddr {started}",
    ]


def _format_guard(floating: IPv4Address | None) -> str:
    """Drop what comes for a connection that this machine does not know yet.

    The kernel would answer it with a reset, which ends a connection that the other machine had.
    """
    if floating is None:
        return ""
    return (
        f"        ip daddr {floating} meta l4proto {{ tcp, udp }} "
        "ct state != { established, related } drop"
    )
