"""Sends frames out of one port, and counts at others what arrives: the proof of isolation."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Final

from gpupool.agent.network.namespaces import enter_namespace
from gpupool.agent.network.verification.probe_frames import (
    FORGED,
    FORGED6,
    HONEST,
    HONEST6,
    LINK_LOCAL,
    FrameEnd,
    build_frames,
    find_kind,
    parse_mac,
)
from gpupool.wire.network.promises import NetworkCheck, ProbePort

#: Every frame of linux/if_ether.h.
_EVERY_FRAME: Final = 3
_TIMES: Final = 3
#: Seconds in which a frame passes a switch: milliseconds, but for a busy machine.
_PASS_SECONDS: Final = 1.5
_TOKEN_BYTES: Final = 12
_BUFFER: Final = 8 << 20


def check_isolation(
    sender: ProbePort,
    control: ProbePort,
    outsiders: Sequence[ProbePort],
    namespaces: Mapping[str, Path],
) -> list[NetworkCheck]:
    """Check that nothing of a sender reaches other networks, and nothing forged its own.

    Args:
        control: in the sender's network; what it does not get proves no isolation.
        outsiders: in other networks; their addresses may be those of the control.
        namespaces: by key of a port, where it is.
    """
    token = os.urandom(_TOKEN_BYTES)
    receivers = [control, *outsiders]
    with contextlib.ExitStack() as stack:
        sockets = dict[str, socket.socket]()
        for port in receivers:
            sockets[port.key] = stack.enter_context(_open(namespaces[port.key]))
        outgoing = stack.enter_context(_open(namespaces[sender.key]))
        sent = Counter[str]()
        for port in receivers:
            for frames in _list_frames(sender, port, control, token):
                for kind, frame in frames.items():
                    for _ in range(_TIMES):
                        outgoing.send(frame)
                    sent[kind] += _TIMES if port is not control else 0
        found = _count(sockets, token)
    inside = found[control.key]
    outside = Counter[str]()
    for port in outsiders:
        outside += found[port.key]
    # Without IPv6 of its own a network has none of its link either.
    forged = (*FORGED, *FORGED6) if sender.address6 else (*FORGED, LINK_LOCAL)
    checks = [_judge_isolation(kind, inside, outside, count) for kind, count in sent.items()]
    return [*checks, *(_judge_forgery(kind, inside) for kind in forged)]


def _list_frames(
    sender: ProbePort, port: ProbePort, control: ProbePort, token: bytes
) -> list[Mapping[str, bytes]]:
    """Frames to the target's own MAC address, and to every one."""
    source = _make_end(sender)
    router6 = _parse_address6(control.gateway6)
    stranger = FrameEnd(parse_mac(control.mac), IPv4Address(control.gateway), router6)
    target = _make_end(port)
    everyone = replace(target, mac=b"\xff" * 6)
    return [build_frames(source, one, stranger, token) for one in (target, everyone)]


def _make_end(port: ProbePort) -> FrameEnd:
    address6 = _parse_address6(port.address6)
    return FrameEnd(parse_mac(port.mac), IPv4Address(port.address), address6)


def _parse_address6(text: str | None) -> IPv6Address | None:
    return None if text is None else IPv6Address(text)


def _open(namespace: Path) -> socket.socket:
    with enter_namespace(namespace):
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERY_FRAME))
    # Root alone may have more than the usual limit (socket(7), SO_RCVBUFFORCE).
    opened.setsockopt(socket.SOL_SOCKET, 33, _BUFFER)
    opened.bind(("eth0", _EVERY_FRAME))
    opened.setblocking(False)
    return opened


def _count(sockets: Mapping[str, socket.socket], token: bytes) -> dict[str, Counter[str]]:
    """Count what arrives, by port and kind."""
    found = {key: Counter[str]() for key in sockets}
    deadline = time.monotonic() + _PASS_SECONDS
    with selectors.DefaultSelector() as selector:
        for key, one in sockets.items():
            selector.register(one, selectors.EVENT_READ, key)
        while (left := deadline - time.monotonic()) > 0:
            for event, _ in selector.select(left):
                frame = sockets[event.data].recv(2048)
                kind = find_kind(frame, token)
                if kind is not None:
                    found[event.data][kind] += 1
    return found


def _judge_isolation(
    kind: str, inside: Counter[str], outside: Counter[str], sent: int
) -> NetworkCheck:
    # Forged frames pass nowhere; that packets pass at all is shown by the others.
    is_honest = kind in HONEST or kind in HONEST6
    passed = inside[kind] if is_honest else sum(inside[one] for one in HONEST)
    measured = f"{outside[kind]} of {sent} frames in other networks, {inside[kind]} in its own"
    name = f"isolation/{kind}"
    if outside[kind]:
        return NetworkCheck(name=name, kept=False, measured=measured)
    if not passed:
        reason = "the control within one network got no packet either"
        return NetworkCheck(name=name, kept=None, measured=measured, reason=reason)
    return NetworkCheck(name=name, kept=True, measured=measured)


def _judge_forgery(kind: str, inside: Counter[str]) -> NetworkCheck:
    measured = f"{inside[kind]} frames in the sender's own network"
    name = f"port-security/{kind}"
    if not inside[kind] and not any(inside[one] for one in HONEST):
        reason = "the control within one network got no packet either"
        return NetworkCheck(name=name, kept=None, measured=measured, reason=reason)
    return NetworkCheck(name=name, kept=not inside[kind], measured=measured)
