"""Probes are frames that a stack accepts, and each is known again by what it carries."""

from __future__ import annotations

import struct
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address

from gpupool.agent.network.verification.probe_frames import (
    FORGED,
    FORGED6,
    HONEST6,
    KINDS,
    FrameEnd,
    build_frames,
    find_kind,
)

TOKEN = b"0123456789ab"
SOURCE = FrameEnd(bytes.fromhex("0a0000000001"), IPv4Address("10.0.0.2"), IPv6Address("fd12::2"))
TARGET = FrameEnd(bytes.fromhex("0a0000000002"), IPv4Address("10.0.0.3"), IPv6Address("fd12::3"))
STRANGER = FrameEnd(bytes.fromhex("0a0000000009"), IPv4Address("10.0.0.9"), IPv6Address("fd12::9"))
FRAMES = build_frames(SOURCE, TARGET, STRANGER, TOKEN)


def is_sum_right(data: bytes) -> bool:
    """RFC 1071: the sum over data with its checksum is 0xFFFF."""
    padded = data + b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total == 0xFFFF


def test_each_kind_is_known_again_and_no_other_packet_is() -> None:
    assert [find_kind(FRAMES[kind], TOKEN) for kind in KINDS] == list(KINDS)
    assert find_kind(FRAMES["udp"], b"another tok.") is None
    assert find_kind(b"", TOKEN) is None
    assert find_kind(TOKEN, TOKEN) is None
    assert find_kind(TOKEN + b"\xff", TOKEN) is None


def test_honest_frames_have_the_checksums_that_stacks_demand() -> None:
    for kind in ("udp", "tcp", "icmp", "forged-source"):
        header = FRAMES[kind][14:34]
        assert is_sum_right(header)
        assert struct.unpack("!H", header[2:4])[0] <= len(FRAMES[kind]) - 14
    length = struct.unpack("!H", FRAMES["tcp"][16:18])[0] - 20
    segment = FRAMES["tcp"][34 : 34 + length]
    pseudo = SOURCE.address.packed + TARGET.address.packed + struct.pack("!HH", 6, length)
    assert is_sum_right(pseudo + segment)
    length = struct.unpack("!H", FRAMES["icmp"][16:18])[0] - 20
    assert is_sum_right(FRAMES["icmp"][34 : 34 + length])


def test_a_forged_frame_carries_what_is_not_its_senders() -> None:
    for kind in KINDS:
        frame = FRAMES[kind]
        assert len(frame) >= 60
        assert frame[:6] == TARGET.mac
        sender = STRANGER.mac if kind == "forged-mac" else SOURCE.mac
        assert frame[6:12] == sender
    assert FRAMES["udp"][26:30] == SOURCE.address.packed
    assert FRAMES["forged-source"][26:30] == STRANGER.address.packed
    # Sender's protocol address of ARP (RFC 826).
    assert FRAMES["arp"][28:32] == SOURCE.address.packed
    assert FRAMES["forged-arp"][28:32] == STRANGER.address.packed
    assert FRAMES["udp6"][22:38] == IPv6Address("fd12::2").packed
    assert FRAMES["forged-source6"][22:38] == IPv6Address("fd12::9").packed
    # An own source that claims an address of another port (RFC 4861 section 4.4).
    assert FRAMES["forged-nd"][22:38] == IPv6Address("fd12::2").packed
    assert FRAMES["forged-nd"][62:78] == IPv6Address("fd12::9").packed
    assert FRAMES["forged-nd"][80:86] == SOURCE.mac
    assert set(FRAMES) == set(KINDS) > set(FORGED)


def test_frames_of_ipv6_have_the_checksums_that_stacks_demand() -> None:
    for kind in ("ipv6", *HONEST6, *FORGED6):
        frame = FRAMES[kind]
        length, protocol = struct.unpack("!HB", frame[18:21])
        assert len(frame) == 14 + 40 + length
        pseudo = frame[22:54] + struct.pack("!II", length, protocol)
        assert is_sum_right(pseudo + frame[54:])


def test_ends_without_ipv6_have_no_frame_of_it_but_that_of_the_link() -> None:
    plain = replace(SOURCE, address6=None)
    assert set(build_frames(plain, TARGET, STRANGER, TOKEN)) == set(KINDS) - {*HONEST6, *FORGED6}
