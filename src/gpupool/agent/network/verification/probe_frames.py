"""Builds Ethernet frames that ask a switch whether it keeps networks apart. Pure.

Each frame carries a token and its kind behind it, by which a receiver tells it from other packets.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

#: What a neighbour in the same network has to receive: without it nothing proves isolation.
HONEST: Final = ("udp", "tcp", "icmp", "arp")
#: What no neighbour may receive: a source that is not the sender's, and IPv6, which no network has.
FORGED: Final = ("forged-source", "forged-mac", "forged-arp", "ipv6")
KINDS: Final = (*HONEST, *FORGED)

_IPV4: Final = 0x0800
_ARP: Final = 0x0806
_IPV6: Final = 0x86DD
#: Discard (RFC 863), where no program serves.
_PORT: Final = 9


@dataclass(frozen=True)
class FrameEnd:
    """One end of a frame."""

    mac: bytes
    address: IPv4Address


def parse_mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def make_mark(token: bytes, kind: str) -> bytes:
    """Make what a frame of a kind carries."""
    return token + bytes([KINDS.index(kind)])


def find_kind(frame: bytes, token: bytes) -> str | None:
    """Find the kind of a frame that was received; None: it is of another program."""
    place = frame.find(token)
    if place < 0 or place + len(token) >= len(frame):
        return None
    number = frame[place + len(token)]
    return KINDS[number] if number < len(KINDS) else None


def build_frames(
    source: FrameEnd, target: FrameEnd, stranger: FrameEnd, token: bytes
) -> Mapping[str, bytes]:
    """Build one frame of each kind.

    Args:
        stranger: whose addresses the forged frames carry.
    """
    honest = (source.address, target.address)
    frames = dict[str, bytes]()
    frames["udp"] = _wrap(source, target, _IPV4, _udp(*honest, make_mark(token, "udp")))
    frames["tcp"] = _wrap(source, target, _IPV4, _tcp(*honest, make_mark(token, "tcp")))
    frames["icmp"] = _wrap(source, target, _IPV4, _icmp(*honest, make_mark(token, "icmp")))
    frames["arp"] = _wrap(source, target, _ARP, _arp(source, target, make_mark(token, "arp")))
    forged = _udp(stranger.address, target.address, make_mark(token, "forged-source"))
    frames["forged-source"] = _wrap(source, target, _IPV4, forged)
    other = FrameEnd(stranger.mac, source.address)
    packet = _udp(*honest, make_mark(token, "forged-mac"))
    frames["forged-mac"] = _wrap(other, target, _IPV4, packet)
    claim = FrameEnd(source.mac, stranger.address)
    packet = _arp(claim, target, make_mark(token, "forged-arp"))
    frames["forged-arp"] = _wrap(source, target, _ARP, packet)
    frames["ipv6"] = _wrap(source, target, _IPV6, _ipv6(source, target, make_mark(token, "ipv6")))
    return frames


def _wrap(source: FrameEnd, target: FrameEnd, kind: int, packet: bytes) -> bytes:
    frame = target.mac + source.mac + struct.pack("!H", kind) + packet
    return frame.ljust(60, b"\0")


def _ipv4(source: IPv4Address, target: IPv4Address, protocol: int, payload: bytes) -> bytes:
    length = 20 + len(payload)
    ends = (source.packed, target.packed)
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, length, 1, 0x4000, 64, protocol, 0, *ends)
    total = _sum(header)
    return header[:10] + struct.pack("!H", total) + header[12:] + payload


def _udp(source: IPv4Address, target: IPv4Address, mark: bytes) -> bytes:
    # Without a checksum (RFC 768).
    datagram = struct.pack("!HHHH", _PORT, _PORT, 8 + len(mark), 0) + mark
    return _ipv4(source, target, 17, datagram)


def _tcp(source: IPv4Address, target: IPv4Address, mark: bytes) -> bytes:
    # A first segment with data (RFC 9293 section 3.1): 0x5002 is a header of 20 bytes, and SYN.
    segment = struct.pack("!HHIIHHHH", _PORT, _PORT, 1, 0, 0x5002, 1024, 0, 0) + mark
    pseudo = source.packed + target.packed + struct.pack("!HH", 6, len(segment))
    total = struct.pack("!H", _sum(pseudo + segment))
    return _ipv4(source, target, 6, segment[:16] + total + segment[18:])


def _icmp(source: IPv4Address, target: IPv4Address, mark: bytes) -> bytes:
    message = build_echo(1, mark)
    return _ipv4(source, target, 1, message)


def build_echo(number: int, payload: bytes) -> bytes:
    """Build an echo request (RFC 792)."""
    message = struct.pack("!BBHHH", 8, 0, 0, number, 1) + payload
    return message[:2] + struct.pack("!H", _sum(message)) + message[4:]


def _arp(source: FrameEnd, target: FrameEnd, mark: bytes) -> bytes:
    # A reply (RFC 826); the mark is in the padding.
    head = struct.pack("!HHBBH", 1, _IPV4, 6, 4, 2)
    ends = source.mac + source.address.packed + target.mac + target.address.packed
    return head + ends + mark


def _ipv6(source: FrameEnd, target: FrameEnd, mark: bytes) -> bytes:
    datagram = struct.pack("!HHHH", _PORT, _PORT, 8 + len(mark), 0) + mark
    head = struct.pack("!IHBB", 6 << 28, len(datagram), 17, 64)
    return head + _link_local(source.mac) + _link_local(target.mac) + datagram


def _link_local(mac: bytes) -> bytes:
    # RFC 4291 appendix A.
    first = bytes([mac[0] ^ 2])
    return bytes.fromhex("fe80000000000000") + first + mac[1:3] + b"\xff\xfe" + mac[3:]


def _sum(data: bytes) -> int:
    """Sum as RFC 1071 says."""
    padded = data + b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
