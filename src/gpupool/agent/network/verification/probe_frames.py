"""Builds Ethernet frames that ask a switch whether it keeps networks apart. Pure.

Each frame carries a token and its kind behind it, by which a receiver tells it from other packets.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final

#: What a neighbour in the same network has to receive: without it nothing proves isolation.
HONEST: Final = ("udp", "tcp", "icmp", "arp")
#: What no neighbour may receive: a source that is not the sender's.
FORGED: Final = ("forged-source", "forged-mac", "forged-arp")
#: IPv6 of the link alone: a neighbour receives it where its network has IPv6, and there alone.
LINK_LOCAL: Final = "ipv6"
#: The same between ports that have IPv6 addresses.
HONEST6: Final = ("udp6", "icmp6")
FORGED6: Final = ("forged-source6", "forged-nd")
KINDS: Final = (*HONEST, *FORGED, LINK_LOCAL, *HONEST6, *FORGED6)

_IPV4: Final = 0x0800
_ARP: Final = 0x0806
_IPV6: Final = 0x86DD
_UDP: Final = 17
#: Discard (RFC 863), where no program serves.
_PORT: Final = 9


@dataclass(frozen=True)
class FrameEnd:
    """One end of a frame."""

    mac: bytes
    address: IPv4Address
    address6: IPv6Address | None = None


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
    """Build one frame of each kind; those of IPv6 where all of the ends have such addresses.

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
    links = (_link_local(source.mac), _link_local(target.mac))
    frames[LINK_LOCAL] = _wrap(source, target, _IPV6, _udp6(*links, make_mark(token, LINK_LOCAL)))
    if source.address6 and target.address6 and stranger.address6:
        ends = (source.address6.packed, target.address6.packed)
        frames["udp6"] = _wrap(source, target, _IPV6, _udp6(*ends, make_mark(token, "udp6")))
        echo = struct.pack("!BBHHH", 128, 0, 0, 1, 1) + make_mark(token, "icmp6")
        frames["icmp6"] = _wrap(source, target, _IPV6, _icmp6(*ends, echo))
        forged = _udp6(stranger.address6.packed, ends[1], make_mark(token, "forged-source6"))
        frames["forged-source6"] = _wrap(source, target, _IPV6, forged)
        claim6 = _advertise(source.mac, stranger.address6, make_mark(token, "forged-nd"))
        frames["forged-nd"] = _wrap(source, target, _IPV6, _icmp6(*ends, claim6))
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


def _ipv6(source: bytes, target: bytes, protocol: int, payload: bytes) -> bytes:
    """Add the header of IPv6, and the checksum, which is at 6 in UDP and at 2 in ICMPv6."""
    pseudo = source + target + struct.pack("!II", len(payload), protocol)
    total = struct.pack("!H", _sum(pseudo + payload))
    place = 6 if protocol == _UDP else 2
    # Neighbour discovery counts with the largest hop limit alone (RFC 4861 section 7.1.2).
    head = struct.pack("!IHBB", 6 << 28, len(payload), protocol, 255)
    return head + source + target + payload[:place] + total + payload[place + 2 :]


def _udp6(source: bytes, target: bytes, mark: bytes) -> bytes:
    datagram = struct.pack("!HHHH", _PORT, _PORT, 8 + len(mark), 0) + mark
    return _ipv6(source, target, _UDP, datagram)


def _icmp6(source: bytes, target: bytes, message: bytes) -> bytes:
    return _ipv6(source, target, 58, message)


def _advertise(mac: bytes, address: IPv6Address, mark: bytes) -> bytes:
    """Advertise that a MAC address has an address (RFC 4861 section 4.4)."""
    head = struct.pack("!BBHI", 136, 0, 0, 0x60000000) + address.packed
    # Options have a type, and a length in units of 8 bytes; 253 is for experiments (RFC 4727).
    units = (2 + len(mark) + 7) // 8
    option = bytes([253, units]) + mark.ljust(8 * units - 2, b"\0")
    return head + bytes([2, 1]) + mac + option


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
