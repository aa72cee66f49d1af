"""Dedicated lines for tests, as values."""

from __future__ import annotations

from typing import Any

from gpupool.network.lines.checks import parse_line
from gpupool.network.lines.model import Line
from gpupool.wire.network.lines import LineIn, LineWork

KEY = "l-0000000001"


def make_body(**more: Any) -> LineIn:
    fields = {
        "vlan": 200,
        "address": "192.168.200.1/29",
        "peer": "192.168.200.6",
        "asn": 64512,
        "peer_asn": 65001,
        "allowed": ["172.20.0.0/16"],
        **more,
    }
    return LineIn.model_validate(fields)


def make_line(**more: Any) -> Line:
    return parse_line(KEY, make_body(**more))


def make_work(**more: Any) -> LineWork:
    fields = {
        "id": KEY,
        "speaker": "192.168.200.2",
        "prefix": 29,
        "router": "192.168.200.1",
        "mac": "3e:00:00:00:00:01",
        "peer": "192.168.200.6",
        "asn": 64512,
        "peer_asn": 65001,
        "bfd": False,
        "mtu": 1500,
        "prefix_limit": 3,
        "allowed": ["172.20.0.0/16"],
        "announced": ["10.0.0.0/24"],
        **more,
    }
    return LineWork.model_validate(fields)
