"""Checks of what runs already: limits of jobs, names, and gateways. Blocks for seconds."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Final, Literal

from gpupool.agent.network.namespaces import enter_namespace
from gpupool.agent.network.verification.probe_frames import build_echo
from gpupool.agent.network.verification.traffic import TrafficEnd, TrafficPlan, measure_path
from gpupool.network.ipv6 import addresses as ipv6
from gpupool.network.resolver_rows import RESOLVER_ADDRESS
from gpupool.wire.network.promises import LimitMeasurement, NetworkCheck, ProbePort

#: Directions of ports that one verification measures: each takes two seconds.
_MOST_MEASUREMENTS: Final = 8
#: Parts of a limit, in thousandths, that count as kept. Below, the machine was too slow to tell.
_LEAST_MILLI: Final = 900
_MOST_MILLI: Final = 1050
_ANSWER_SECONDS: Final = 2.0
_TRIES: Final = 2
#: Types of DNS for IPv4 addresses (RFC 1035 section 3.2.2) and IPv6 ones (RFC 3596 section 2.1).
_TYPE_A: Final = 1
_TYPE_AAAA: Final = 28


@dataclass(frozen=True)
class LimitedPath:
    """A direction of a port that has a limit, and a job that it is measured with."""

    port: ProbePort
    direction: Literal["in", "out"]
    limit_kbit: int
    peer: ProbePort | None


def list_limited_paths(jobs: Sequence[ProbePort]) -> list[LimitedPath]:
    """List the directions with a limit, each with a job of its network that is no narrower."""
    paths = list[LimitedPath]()
    for port in jobs:
        others = [one for one in jobs if one.network == port.network and one.key != port.key]
        if port.in_kbit is not None:
            peer = _choose_peer([(one, one.out_kbit) for one in others], port.in_kbit)
            paths.append(LimitedPath(port, "in", port.in_kbit, peer))
        if port.out_kbit is not None:
            peer = _choose_peer([(one, one.in_kbit) for one in others], port.out_kbit)
            paths.append(LimitedPath(port, "out", port.out_kbit, peer))
    return paths


def _choose_peer(
    others: Sequence[tuple[ProbePort, int | None]], limit_kbit: int
) -> ProbePort | None:
    for port, other_kbit in others:
        if other_kbit is None or other_kbit >= limit_kbit:
            return port
    return None


def check_limits(
    jobs: Sequence[ProbePort], namespaces: Mapping[str, Path]
) -> Iterator[tuple[NetworkCheck, LimitMeasurement | None]]:
    """Measure the limits of jobs with UDP packets between them."""
    for number, path in enumerate(list_limited_paths(jobs)):
        name = f"limit/{path.direction}/{path.port.network}/{path.port.name}"[:120]
        if path.peer is None:
            reason = "no other job of the network may send or take as much"
            yield NetworkCheck(name=name, kept=None, reason=reason), None
        elif number >= _MOST_MEASUREMENTS:
            reason = f"{_MOST_MEASUREMENTS} limits are measured at once; name one network"
            yield NetworkCheck(name=name, kept=None, reason=reason), None
        else:
            yield _measure(name, path, path.peer, namespaces)


def _measure(
    name: str, path: LimitedPath, peer: ProbePort, namespaces: Mapping[str, Path]
) -> tuple[NetworkCheck, LimitMeasurement | None]:
    ends = [_make_end(peer, namespaces), _make_end(path.port, namespaces)]
    source, target = ends if path.direction == "in" else reversed(ends)
    plan = TrafficPlan("udp", path.limit_kbit * 13 // 10, seconds=1.5, start_seconds=1.0)
    rate = measure_path(source, target, plan)
    return judge_limit(name, path.port.key, path.direction, path.limit_kbit, rate.received_kbit)


def judge_limit(
    name: str, key: str, direction: Literal["in", "out"], limit_kbit: int, received_kbit: int
) -> tuple[NetworkCheck, LimitMeasurement | None]:
    """Judge a measurement: too much breaks a limit, too little proves none.

    Args:
        key: of a port, or of a network for its gateway.
    """
    measured = f"{received_kbit} of {limit_kbit} kbit/s"
    if received_kbit * 1000 > limit_kbit * _MOST_MILLI:
        return NetworkCheck(name=name, kept=False, measured=measured), None
    if received_kbit * 1000 < limit_kbit * _LEAST_MILLI:
        reason = "less arrived than the limit: security groups, other traffic or a busy machine"
        return NetworkCheck(name=name, kept=None, measured=measured, reason=reason), None
    found = LimitMeasurement(
        key=key,
        direction=direction,
        limit_kbit=limit_kbit,
        measured_kbit=received_kbit,
    )
    return NetworkCheck(name=name, kept=True, measured=measured), found


def _make_end(port: ProbePort, namespaces: Mapping[str, Path]) -> TrafficEnd:
    return TrafficEnd(namespaces[port.key], IPv4Address(port.address))


def check_names(jobs: Sequence[ProbePort], namespaces: Mapping[str, Path]) -> list[NetworkCheck]:
    """Ask the name server of each network for one of its jobs, from there."""
    first = dict[str, ProbePort]()
    first6 = dict[str, ProbePort]()
    for port in jobs:
        first.setdefault(port.network, port)
        if port.address6 is not None:
            first6.setdefault(port.network, port)
    checks = [_check_name(port, namespaces[port.key]) for port in first.values()]
    return checks + [_check_name6(port, namespaces[port.key]) for port in first6.values()]


def _check_name(port: ProbePort, namespace: Path) -> NetworkCheck:
    name = f"{port.name}.{port.domain}"
    with enter_namespace(namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.settimeout(_ANSWER_SECONDS)
        answer = _ask(line, build_question(name), (str(RESOLVER_ADDRESS), 53))
    found = f"dns/{port.network}"[:120]
    if answer is None:
        return NetworkCheck(name=found, kept=False, measured=f"no answer for {name}"[:200])
    # The answer ends with the address of its only record (RFC 1035 section 4.1.3).
    address = str(IPv4Address(answer[-4:]))
    kept = address == port.address
    return NetworkCheck(name=found, kept=kept, measured=f"{name} is {address}"[:200])


def _check_name6(port: ProbePort, namespace: Path) -> NetworkCheck:
    """Ask for the IPv6 address of a job, over IPv6."""
    name = f"{port.name}.{port.domain}"
    with enter_namespace(namespace), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as line:
        line.settimeout(_ANSWER_SECONDS)
        question = build_question(name, _TYPE_AAAA)
        answer = _ask(line, question, (str(ipv6.RESOLVER_ADDRESS), 53))
    found = f"dns6/{port.network}"[:120]
    if answer is None:
        return NetworkCheck(name=found, kept=False, measured=f"no answer for {name}"[:200])
    address = str(IPv6Address(answer[-16:]))
    kept = address == port.address6
    return NetworkCheck(name=found, kept=kept, measured=f"{name} is {address}"[:200])


def build_question(name: str, kind: int = _TYPE_A) -> bytes:
    """Build a question for an address of a name (RFC 1035 section 4.1)."""
    labels = b"".join(bytes([len(one)]) + one.encode() for one in name.split("."))
    head = os.urandom(2) + struct.pack("!HHHHH", 0x0100, 1, 0, 0, 0)
    return head + labels + b"\0" + struct.pack("!HH", kind, 1)


def _ask(line: socket.socket, question: bytes, server: tuple[str, int]) -> bytes | None:
    for _ in range(_TRIES):
        line.sendto(question, server)
        with contextlib.suppress(TimeoutError):
            answer = line.recv(1500)
            # The same number, and one answer at least.
            if answer[:2] == question[:2] and answer[6:8] != b"\0\0":
                return answer
    return None


def check_gateways(gateways: Mapping[str, str]) -> list[NetworkCheck]:
    """Ask the outer end of each gateway for an echo, from its next hop: this machine."""
    return [_check_gateway(network, address) for network, address in gateways.items()]


def _check_gateway(network: str, address: str) -> NetworkCheck:
    name = f"gateway/{network}"[:120]
    number = os.getpid() & 0xFFFF
    kind = socket.getprotobyname("icmp")
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, kind) as line:
        for _ in range(_TRIES):
            begin = time.monotonic()
            line.sendto(build_echo(number, os.urandom(16)), (address, 0))
            if _wait_for_echo(line, address, number):
                spent = (time.monotonic() - begin) * 1000
                text = f"{address} answers its next hop in {spent:.1f} ms"
                return NetworkCheck(name=name, kept=True, measured=text)
    return NetworkCheck(name=name, kept=False, measured=f"{address} does not answer its next hop")


def _wait_for_echo(line: socket.socket, address: str, number: int) -> bool:
    deadline = time.monotonic() + _ANSWER_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        line.settimeout(left)
        with contextlib.suppress(TimeoutError):
            packet, (source, _) = line.recvfrom(1500)
            head = (packet[0] & 15) * 4
            kind, _, _, found = struct.unpack("!BBHH", packet[head : head + 6])
            if source == address and kind == 0 and found == number:
                return True
    return False
