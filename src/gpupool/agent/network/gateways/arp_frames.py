"""Makes and reads ARP frames (RFC 826). Pure."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

BROADCAST: Final = b"\xff" * 6
_UNKNOWN_MAC: Final = b"\x00" * 6
_TYPE: Final = 0x0806
#: Ethernet, IPv4, lengths of their addresses, and the operation.
_HEADER: Final = struct.Struct("!HHBBH")
_REQUEST: Final = 1
_REPLY: Final = 2
_LENGTH: Final = 14 + 28


@dataclass(frozen=True)
class ArpReply:
    """An answer: an address and the MAC address that has it."""

    address: IPv4Address
    mac: bytes


def make_probe(source: bytes, target: IPv4Address, destination: bytes = BROADCAST) -> bytes:
    """Make a request without an address of ours (RFC 5227 section 2.1.1).

    Args:
        source: our MAC address.
        destination: the target's MAC address once it is known: a broadcast disturbs everyone.
    """
    return _make_frame(_REQUEST, destination, (source, bytes(4)), (_UNKNOWN_MAC, target.packed))


def make_announcement(source: bytes, address: IPv4Address) -> bytes:
    """Make a gratuitous request, from which others learn that an address has moved here."""
    return _make_frame(
        _REQUEST, BROADCAST, (source, address.packed), (_UNKNOWN_MAC, address.packed)
    )


def read_reply(frame: bytes) -> ArpReply | None:
    """Read an answer; None for any other frame."""
    if len(frame) < _LENGTH or int.from_bytes(frame[12:14]) != _TYPE:
        return None
    if _HEADER.unpack_from(frame, 14) != (1, 0x0800, 6, 4, _REPLY):
        return None
    return ArpReply(IPv4Address(frame[28:32]), frame[22:28])


def _make_frame(
    operation: int, destination: bytes, sender: tuple[bytes, bytes], target: tuple[bytes, bytes]
) -> bytes:
    header = _HEADER.pack(1, 0x0800, 6, 4, operation)
    ethernet = destination + sender[0] + _TYPE.to_bytes(2)
    return ethernet + header + b"".join(sender) + b"".join(target)
