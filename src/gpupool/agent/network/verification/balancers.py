"""Checks load balancers: each serving backend gets connections, a dead one none, strangers nothing.

Connections come from a job of the network; a socket in each backend's namespace sees which arrive.
Blocks for seconds.
"""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import struct
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpupool.agent.network.namespaces import enter_namespace
from gpupool.wire.network.promises import NetworkCheck, ProbedBackend, ProbedBalancer, ProbePort

#: Connections for each backend: one of 16 that gets none of 256 has a probability of 7e-8.
_PER_BACKEND: Final = 16
#: Connections through one load balancer, at most: of more backends some may get none by chance.
_MOST_CONNECTIONS: Final = 512
#: Seconds in which load balancers are probed: a whole verification may take 120, limits take 40.
_MOST_SECONDS: Final = 50.0
#: Connections of a stranger.
_STRANGE: Final = 8
#: Seconds in which a connection opens within a machine, also a busy one.
_OPEN_SECONDS: Final = 2.0
#: Seconds until a load balancer has left out what accepts no connection: two probes a second apart,
#: a second for the answer, and two for a busy machine.
_LEFT_OUT_SECONDS: Final = 5.0
#: Every IPv4 packet (linux/if_ether.h), and the type of one that this machine sends (packet(7)).
_IPV4: Final = 0x0800
_OUTGOING: Final = 4
#: First source port of a stranger: below those that a kernel takes by itself, which distinguishes its
#: connections from those of a job with the same address.
_STRANGE_PORT: Final = 20_000
#: SO_LINGER with no time: a reset in place of an end that both sides wait for (socket(7)).
_RESET: Final = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class BalancerFindings:
    """What was found of a load balancer.

    Attributes:
        serving: keys of the backends that accept connections.
        arrivals: by key of a backend, connections that it got.
        connections: that were tried.
        strange: connections of another network that arrived at some backend.
    """

    serving: frozenset[str]
    arrivals: Mapping[str, int]
    connections: int
    strange: int


def check_balancers(
    balancers: Sequence[ProbedBalancer],
    jobs: Sequence[ProbePort],
    stranger: ProbePort,
    namespaces: Mapping[str, Path],
) -> list[NetworkCheck]:
    """Check load balancers.

    Args:
        jobs: of their networks, on this machine.
        stranger: in another network.
        namespaces: by key of a port, where it is; of what is on this machine.
    """
    checks = list[NetworkCheck]()
    deadline = time.monotonic() + _MOST_SECONDS
    for balancer in balancers:
        backends = [one for one in balancer.backends if one.key in namespaces]
        client = _choose_client(balancer, jobs)
        reason = _explain_skip(balancer, backends, client)
        if time.monotonic() > deadline:
            reason = f"the {_MOST_SECONDS:g} s for load balancers are over; name one network"
        if reason or client is None:
            name = _name_check("load-balancer", balancer)
            checks.append(NetworkCheck(name=name, kept=None, reason=reason))
            continue
        found = _probe(balancer, backends, client, stranger, namespaces)
        checks += judge_balancer(balancer, backends, found)
    return checks


def _choose_client(balancer: ProbedBalancer, jobs: Sequence[ProbePort]) -> ProbePort | None:
    """A job that is no backend: OVN changes the address of one that reaches itself."""
    behind = {one.key for one in balancer.backends}
    for port in jobs:
        if port.network == balancer.network and port.key not in behind:
            return port
    return None


def _explain_skip(
    balancer: ProbedBalancer, backends: Collection[ProbedBackend], client: ProbePort | None
) -> str:
    if balancer.protocol != "tcp":
        return "of UDP, where nothing says that a job serves"
    if not balancer.backends:
        return "no job behind it runs"
    if not backends:
        return "no job behind it has its port on this machine"
    return "" if client is not None else "no other job of the network is on this machine"


def judge_balancer(
    balancer: ProbedBalancer, backends: Sequence[ProbedBackend], found: BalancerFindings
) -> list[NetworkCheck]:
    """Judge what was found. Pure."""
    return [_judge_reach(balancer, backends, found), _judge_strangers(balancer, found)]


def _judge_reach(
    balancer: ProbedBalancer, backends: Sequence[ProbedBackend], found: BalancerFindings
) -> NetworkCheck:
    dead = [one.key for one in backends if one.key not in found.serving]
    missed = [key for key in found.serving if not found.arrivals.get(key)]
    astray = sum(found.arrivals.get(key, 0) for key in dead)
    measured = f"{found.connections} connections: {len(found.serving) - len(missed)} of "
    measured += f"{len(found.serving)} that serve got some"
    if dead:
        measured += f", {len(dead)} that do not serve got {astray}"
    name = _name_check("load-balancer", balancer)
    kept: bool | None
    reason = ""
    if astray and balancer.is_checked:
        kept = False
    elif not found.serving:
        kept = None
        reason = "no job behind it accepts connections"
    elif missed and _count_connections(balancer) == _MOST_CONNECTIONS:
        kept = None
        reason = f"of {len(balancer.backends)} jobs behind it some get no connection by chance"
    else:
        kept = not missed
    return NetworkCheck(name=name, kept=kept, measured=measured, reason=reason)


def _judge_strangers(balancer: ProbedBalancer, found: BalancerFindings) -> NetworkCheck:
    name = _name_check("load-balancer-isolation", balancer)
    measured = f"{found.strange} of {_STRANGE} connections of another network arrived"
    if found.strange or any(found.arrivals.values()):
        return NetworkCheck(name=name, kept=not found.strange, measured=measured)
    reason = "no connection of its own network arrived either"
    return NetworkCheck(name=name, kept=None, measured=measured, reason=reason)


def _count_connections(balancer: ProbedBalancer) -> int:
    return min(_PER_BACKEND * len(balancer.backends), _MOST_CONNECTIONS)


def _name_check(kind: str, balancer: ProbedBalancer) -> str:
    return f"{kind}/{balancer.network}/{balancer.name}"[:120]


def _probe(
    balancer: ProbedBalancer,
    backends: Sequence[ProbedBackend],
    client: ProbePort,
    stranger: ProbePort,
    namespaces: Mapping[str, Path],
) -> BalancerFindings:
    inside = namespaces[client.key]
    serving = _find_serving(inside, backends)
    if balancer.is_checked and len(serving) < len(backends):
        # One that has just ended is left out after two probes.
        time.sleep(_LEFT_OUT_SECONDS)
    target = (balancer.address, balancer.port)
    count = _count_connections(balancer)
    with contextlib.ExitStack() as stack:
        watches = dict[str, socket.socket]()
        for one in backends:
            watches[one.key] = stack.enter_context(_watch(namespaces[one.key]))
        opened = _connect(inside, [target] * count)
        ours = {(client.address, port) for port in opened.ports}
        tried = _connect(namespaces[stranger.key], [target] * _STRANGE, _STRANGE_PORT)
        theirs = {(stranger.address, port) for port in tried.ports}
        sources = {one.key: _read_sources(watches[one.key], one.port) for one in backends}
    arrivals = {key: len(found & ours) for key, found in sources.items()}
    # One that has changed meanwhile breaks no promise.
    doubtful = [one for one in backends if (one.key in serving) != (arrivals[one.key] > 0)]
    serving -= {one.key for one in doubtful}
    serving |= _find_serving(inside, doubtful)
    strange = sum(len(found & theirs) for found in sources.values())
    return BalancerFindings(frozenset(serving), arrivals, count, strange)


def _find_serving(inside: Path, backends: Sequence[ProbedBackend]) -> set[str]:
    """Find the keys of the backends that accept a connection."""
    by_place = {(one.address, one.port): one.key for one in backends}
    return {by_place[place] for place in _connect(inside, list(by_place)).opened}


@dataclass(frozen=True)
class _Attempts:
    """Connections that were tried: their source ports, and the targets that accepted one."""

    ports: frozenset[int]
    opened: frozenset[tuple[str, int]]


def _connect(namespace: Path, targets: Sequence[tuple[str, int]], first_port: int = 0) -> _Attempts:
    """Try connections at once, each from a port of its own; they are reset in the end.

    Args:
        first_port: of the source; 0: the kernel chooses.
    """
    ports = set[int]()
    opened = set[tuple[str, int]]()
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        with enter_namespace(namespace):
            made = [stack.enter_context(_make_socket()) for _ in targets]
        for number, (one, target) in enumerate(zip(made, targets, strict=True)):
            one.bind(("", first_port + number if first_port else 0))
            result = one.connect_ex(target)
            ports.add(one.getsockname()[1])
            if result in (0, errno.EINPROGRESS):
                selector.register(one, selectors.EVENT_WRITE, number)
        deadline = time.monotonic() + _OPEN_SECONDS
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for event, _ in selector.select(left):
                selector.unregister(event.fileobj)
                if made[event.data].getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    opened.add(targets[event.data])
    return _Attempts(frozenset(ports), frozenset(opened))


def _make_socket() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    return made


def _watch(namespace: Path) -> socket.socket:
    with enter_namespace(namespace):
        # With the header of each packet, and without that of its frame.
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_IPV4))
    opened.bind(("eth0", _IPV4))
    opened.setblocking(False)
    return opened


def _read_sources(watch: socket.socket, port: int) -> set[tuple[str, int]]:
    """Read which sources opened a connection to a port."""
    found = set[tuple[str, int]]()
    with contextlib.suppress(BlockingIOError):
        while True:
            packet, address = watch.recvfrom(128)
            source = find_source(packet, port)
            if address[2] != _OUTGOING and source is not None:
                found.add(source)
    return found


def find_source(packet: bytes, port: int) -> tuple[str, int] | None:
    """Find the source of a packet that opens a connection to a port (RFC 9293 section 3.1).

    None: it is another packet. Pure.
    """
    length = (packet[0] & 15) * 4 if packet else 0
    if len(packet) < length + 14 or packet[9] != socket.IPPROTO_TCP:
        return None
    source, target = struct.unpack_from("!HH", packet, length)
    # SYN without ACK.
    is_first = packet[length + 13] & 0x12 == 0x02
    return (socket.inet_ntoa(packet[12:16]), source) if target == port and is_first else None
