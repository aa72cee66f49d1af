"""Asks the resolver of a network for a name, as a job of the network does (RFC 1035)."""

from __future__ import annotations

import secrets
import socket
import struct
import time
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final

from gpupool.agent.network.namespaces import enter_namespace
from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.balancing.model import BALANCER_ADDRESSES
from gpupool.network.resolver_rows import RESOLVER_ADDRESS, is_host_name
from gpupool.wire.network.networks import PortWork

_PORT: Final = 53
_HEADER: Final = struct.Struct("!6H")
#: Type A, class IN.
_ADDRESS: Final = (1, 1)
#: Bits of the header: an answer; cut short; the code of the result.
_IS_ANSWER: Final = 0x8000
_IS_CUT: Final = 0x0200
_RESULT: Final = 0x000F
_WANTS_RECURSION: Final = 0x0100
_LONGEST_MESSAGE: Final = 65535
#: Seconds until a question is asked again: the first, and at most. Each is half as long again as
#: the last, for the resolver learns a name while the switch learns the port: some milliseconds later.
_FIRST_WAIT: Final = 0.004
_LONGEST_WAIT: Final = 0.2


@dataclass(frozen=True)
class NameAnswer:
    """An answer with the addresses that it has; `is_cut` where not all of them fit."""

    addresses: tuple[IPv4Address, ...]
    is_cut: bool


def await_name(namespace: Path, work: PortWork, seconds: float) -> None:
    """Block until the resolver answers a port's own name with its address.

    Then all that the port's network has in force is found by name. A name that is no host name is
    not asked for.

    Raises:
        NetworkingUnavailable: it did not within the time.
    """
    if not is_host_name(work.dns_name, work.domain):
        return
    name = f"{work.dns_name}.{work.domain}"
    # A socket stays in the namespace that it was made in.
    with enter_namespace(namespace):
        asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    with asking:
        asking.connect((str(RESOLVER_ADDRESS), _PORT))
        if not await_address(asking, name, IPv4Address(work.address), seconds):
            raise NetworkingUnavailable(
                f"the resolver of the network did not know {name} within {seconds:g} s",
                hint="gpupool network status",
            )


def await_address(asking: socket.socket, name: str, address: IPv4Address, seconds: float) -> bool:
    """Ask until a name has an address; false when the time is over before.

    Args:
        asking: a datagram socket that is connected to a resolver.
    """
    deadline = time.monotonic() + seconds
    wait = _FIRST_WAIT
    while time.monotonic() < deadline:
        begin = time.monotonic()
        answer = _ask(asking, name, wait)
        if answer is not None and _is_known(answer, address):
            return True
        time.sleep(max(0.0, begin + wait - time.monotonic()))
        wait = min(1.5 * wait, _LONGEST_WAIT)
    return False


def _is_known(answer: NameAnswer, address: IPv4Address) -> bool:
    # A load balancer of the same name stands before the job.
    balanced = any(one in BALANCER_ADDRESSES for one in answer.addresses)
    return address in answer.addresses or balanced or answer.is_cut


def _ask(asking: socket.socket, name: str, seconds: float) -> NameAnswer | None:
    """Ask once; None where no answer came in time, or none with an address."""
    number = secrets.randbits(16)
    deadline = time.monotonic() + seconds
    try:
        asking.send(make_question(number, name))
        while (left := deadline - time.monotonic()) > 0:
            asking.settimeout(left)
            message = asking.recv(_LONGEST_MESSAGE)
            # Others are answers to earlier questions, which came too late.
            if message[:2] == number.to_bytes(2):
                return read_answer(number, message)
    except OSError:
        # A timeout; or refused or unreachable, as the resolver's port or process is about to come.
        return None
    return None


def make_question(number: int, name: str) -> bytes:
    """Make a question for the addresses of a name."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    header = _HEADER.pack(number, _WANTS_RECURSION, 1, 0, 0, 0)
    return header + labels + b"\0" + struct.pack("!2H", *_ADDRESS)


def read_answer(number: int, message: bytes) -> NameAnswer | None:
    """Read the answer to a question; None where it is another message or a refusal."""
    try:
        found, flags, questions, answers, _, _ = _HEADER.unpack_from(message)
        if found != number or not flags & _IS_ANSWER or flags & _RESULT:
            return None
        position = _HEADER.size
        for _ in range(questions):
            position = _skip_name(message, position) + 4
        addresses = list[IPv4Address]()
        for _ in range(answers):
            position = _skip_name(message, position)
            kind, group, _, length = struct.unpack_from("!2HIH", message, position)
            position += 10
            if (kind, group) == _ADDRESS:
                addresses.append(IPv4Address(message[position : position + length]))
            position += length
    except (struct.error, IndexError, ValueError):
        return None
    return NameAnswer(tuple(addresses), bool(flags & _IS_CUT))


def _skip_name(message: bytes, position: int) -> int:
    """Return the position behind a name; a pointer ends it (RFC 1035 section 4.1.4)."""
    while (length := message[position]) != 0:
        if length >= 0xC0:
            return position + 2
        position += 1 + length
    return position + 1
