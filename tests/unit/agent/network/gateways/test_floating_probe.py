"""A probe's packets are valid ICMP, and what it says follows from answers and the neighbor table."""

from __future__ import annotations

import os
import struct
from ipaddress import IPv4Address

import pytest

from gpupool.agent.network.gateways.floating_probe import (
    judge,
    make_echo,
    ping_all,
    read_echo_reply,
)
from gpupool.wire.network.floating_ips import FloatingIpWork

WORK = FloatingIpWork(id="i-1", address="203.0.113.40", inner="198.18.128.1")
SOURCE = IPv4Address("198.18.0.1")
#: A header of IPv4 without options.
HEADER = bytes([0x45]) + bytes(19)


def test_the_checksum_of_a_request_is_right() -> None:
    packet = make_echo(0xBEEF, 7)
    total = sum(struct.unpack("!8H", packet))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    # RFC 1071: the sum with the checksum is all ones.
    assert total == 0xFFFF


def test_only_replies_to_our_own_requests_count() -> None:
    request = make_echo(5, 3)
    reply = bytes(1) + request[1:]
    assert read_echo_reply(HEADER + reply, 5) == 3
    assert read_echo_reply(HEADER + reply, 6) is None
    assert read_echo_reply(HEADER + request, 5) is None
    assert read_echo_reply(HEADER + reply[:7], 5) is None
    assert read_echo_reply(b"", 5) is None


@pytest.mark.parametrize(
    ("answered", "resolved", "state"),
    [
        ({WORK.address}, {WORK.inner}, "reachable"),
        (set(), {WORK.inner}, "silent"),
        (set(), set(), "down"),
    ],
)
def test_a_job_a_gateway_or_neither_answers(
    answered: set[str], resolved: set[str], state: str
) -> None:
    assert judge(WORK, answered, resolved, SOURCE).state == state


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_kernel_answers_a_ping_and_an_address_of_no_one_does_not() -> None:
    # 127.0.0.2 is the kernel's own, 240.0.0.1 of no one (RFC 1112).
    assert ping_all(["127.0.0.2", "240.0.0.1"], "127.0.0.1") == {"127.0.0.2"}
