"""Parses lines that ovn-controller(8) logs of packets, and joins those of one flow. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from typing import Final

from gpupool.wire.network.flows import FlowRecordReport

#: As of OVN 23.03: 2026-11-28T20:24:53Z|00089|acl_log(ovn_pinctrl0)|INFO|name="v-1/g-1/others", ...
_LINE: Final = re.compile(
    r"^(?P<at>[0-9T:.-]+Z)\|\d+\|acl_log\([^)]*\)\|INFO\|name=\"(?P<rule>[^\"]+)\", "
    r"verdict=(?P<verdict>\w+), severity=\w+, direction=to-lport: (?P<protocol>\w+),(?P<fields>.*)$"
)
_FIELD: Final = re.compile(
    r"\b(nw_src|nw_dst|ipv6_src|ipv6_dst|tp_src|tp_dst)=([0-9a-f.:]+)(?:,|$)"
)
#: Parts of a rule's name: network, group, rule.
_RULE_PARTS: Final = 3


@dataclass(frozen=True)
class FlowKey:
    """What packets of one flow have in common."""

    rule: str
    is_denied: bool
    protocol: str
    source: str
    source_port: int | None
    target: str
    target_port: int | None


def parse_line(line: str) -> tuple[int, FlowKey] | None:
    """Parse the instant, in ns, and the flow of a line; None: it is about something else."""
    found = _LINE.match(line)
    if found is None or found["rule"].count("/") != _RULE_PARTS - 1:
        return None
    fields = dict(_FIELD.findall(found["fields"]))
    source = fields.get("nw_src") or fields.get("ipv6_src")
    target = fields.get("nw_dst") or fields.get("ipv6_dst")
    if source is None or target is None or ip_address(target).is_multicast:
        # Neighbours that look for each other are no flows.
        return None
    key = FlowKey(
        found["rule"],
        found["verdict"] != "allow",
        # It writes tcp6 for TCP over IPv6.
        found["protocol"].removesuffix("6")[:8],
        source,
        _parse_port(fields.get("tp_src")),
        target,
        _parse_port(fields.get("tp_dst")),
    )
    at = datetime.fromisoformat(found["at"])
    return int(at.timestamp()) * 10**9, key


def join_lines(lines: Iterable[str]) -> list[FlowRecordReport]:
    """Join lines to records: one for each flow, in the order of their first packets."""
    begins = dict[FlowKey, int]()
    packets = dict[FlowKey, int]()
    for line in lines:
        parsed = parse_line(line)
        if parsed is not None:
            at_ns, key = parsed
            begins.setdefault(key, at_ns)
            packets[key] = packets.get(key, 0) + 1
    return [
        FlowRecordReport(
            at_ns=at_ns,
            rule=key.rule,
            is_denied=key.is_denied,
            protocol=key.protocol,
            source=key.source,
            source_port=key.source_port,
            target=key.target,
            target_port=key.target_port,
            packets=packets[key],
        )
        for key, at_ns in begins.items()
    ]


def _parse_port(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
