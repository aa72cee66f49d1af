"""Traffic of a rule is read as it is written, or refused with the number that is wrong."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadOption
from gpupool.cli.network.groups import parse_traffic


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("tcp:22", ("tcp", 22, None)),
        ("udp:8000-8100", ("udp", 8000, 8100)),
        ("tcp", ("tcp", None, None)),
        ("icmp", ("icmp", None, None)),
        ("any", ("any", None, None)),
    ],
)
def test_traffic_is_a_protocol_with_ports_or_without(
    text: str, fields: tuple[str, int | None, int | None]
) -> None:
    assert tuple(parse_traffic(text).values()) == fields


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tcp:99999", "99999 is no port"),
        ("tcp:1-70000", "70000 is no port"),
        ("tcp:0", "0 is no port"),
        ("tcp:", "is not understood"),
        ("tcp:80-", "is not understood"),
        ("tcp:²", "is not understood"),
        ("sctp:80", "is not understood"),
        ("", "is not understood"),
    ],
)
def test_other_traffic_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadOption, match=problem):
        parse_traffic(text)
