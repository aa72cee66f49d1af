"""Measures the limits of gateways: UDP between a job and this machine, both ways through its gateway.

Blocks for seconds for each direction.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from gpupool.agent.network.namespaces import enter_namespace
from gpupool.agent.network.verification.path_checks import judge_limit
from gpupool.agent.network.verification.traffic import TrafficPlan, TrafficRate, measure_sockets
from gpupool.wire.network.promises import (
    LimitMeasurement,
    NetworkCheck,
    ProbedGateway,
    ProbePort,
)

Direction = Literal["in", "out"]

#: Directions of gateways that one verification measures: each takes some seconds.
_MOST_MEASUREMENTS: Final = 4
#: Seconds of a measurement, and until it begins. A meter has a burst of a second (`limiting.rows`),
#: which twice the limit uses up in a second.
_SECONDS: Final = 1.5
_START_SECONDS: Final = 2.0
_METER_BURST_SECONDS: Final = 1.0
_OFFERED_TIMES: Final = 2
#: Thousandths of a limit that count as kept.
_MOST_MILLI: Final = 1050
_ANSWER_SECONDS: Final = 2.0


def check_gateway_limits(
    gateways: Sequence[ProbedGateway], jobs: Sequence[ProbePort], namespaces: Mapping[str, Path]
) -> Iterator[tuple[NetworkCheck, LimitMeasurement | None]]:
    """Measure each direction of each gateway that has a limit.

    Args:
        jobs: of their networks, on this machine.
        namespaces: by key of a port, where it is.
    """
    wanted = [(gateway, *one) for gateway in gateways for one in _list_directions(gateway)]
    for number, (gateway, direction, limit_kbit) in enumerate(wanted):
        name = f"gateway-limit/{direction}/{gateway.network}"[:120]
        job = choose_job(gateway, direction, limit_kbit, jobs)
        if job is None:
            reason = "no job of the network on this machine may send or take twice as much"
            yield NetworkCheck(name=name, kept=None, reason=reason), None
        elif number >= _MOST_MEASUREMENTS:
            reason = f"{_MOST_MEASUREMENTS} limits are measured at once; name one network"
            yield NetworkCheck(name=name, kept=None, reason=reason), None
        else:
            rate = _measure(gateway, direction, limit_kbit, job, namespaces[job.key])
            yield judge_gateway(name, gateway.key, direction, limit_kbit, rate)


def _list_directions(gateway: ProbedGateway) -> list[tuple[Direction, int]]:
    found = list[tuple[Direction, int]]()
    if gateway.in_kbit is not None:
        found.append(("in", gateway.in_kbit))
    if gateway.out_kbit is not None:
        found.append(("out", gateway.out_kbit))
    return found


def choose_job(
    gateway: ProbedGateway, direction: Direction, limit_kbit: int, jobs: Sequence[ProbePort]
) -> ProbePort | None:
    """Choose a job of the gateway's network that its own limit does not hold up. Pure."""
    for job in jobs:
        own = job.in_kbit if direction == "in" else job.out_kbit
        if job.network == gateway.network and (own is None or own >= limit_kbit * _OFFERED_TIMES):
            return job
    return None


def _measure(
    gateway: ProbedGateway, direction: Direction, limit_kbit: int, job: ProbePort, namespace: Path
) -> TrafficRate:
    """Measure what passes a gateway."""
    with contextlib.ExitStack() as stack:
        with enter_namespace(namespace):
            inner = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        outer = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        inner.bind((job.address, 0))
        outer.bind((gateway.next_hop, 0))
        # Packets of a gateway come in as answers alone (`uplink`), so this machine begins. The
        # gateway keeps the port of a job while no other job has it.
        outer.sendto(b"", (gateway.address, inner.getsockname()[1]))
        inner.connect(outer.getsockname())
        inner.send(b"")
        outer.settimeout(_ANSWER_SECONDS)
        try:
            _, source = outer.recvfrom(1)
        except TimeoutError:
            return TrafficRate(0, 0, 0)
        outer.connect(source)
        ends = (outer, inner) if direction == "in" else (inner, outer)
        plan = TrafficPlan("udp", limit_kbit * _OFFERED_TIMES, _SECONDS, _START_SECONDS)
        return measure_sockets(*ends, plan)


def judge_gateway(
    name: str, key: str, direction: Direction, limit_kbit: int, rate: TrafficRate
) -> tuple[NetworkCheck, LimitMeasurement | None]:
    """Judge a measurement. Pure.

    A sender that a busy machine slowed down may still live on the burst within the window: then
    only the sum of all that arrived can break the limit.
    """
    seconds = _START_SECONDS + _SECONDS + _METER_BURST_SECONDS
    if rate.received_bytes * 8 > limit_kbit * seconds * _MOST_MILLI:
        measured = f"{rate.received_bytes} bytes within {seconds - _METER_BURST_SECONDS:g} s"
        measured += f" through a limit of {limit_kbit} kbit/s"
        return NetworkCheck(name=name, kept=False, measured=measured), None
    if rate.received_kbit * 1000 > limit_kbit * _MOST_MILLI:
        measured = f"{rate.received_kbit} of {limit_kbit} kbit/s"
        reason = "the machine was too busy to send more than a burst"
        return NetworkCheck(name=name, kept=None, measured=measured, reason=reason), None
    return judge_limit(name, key, direction, limit_kbit, rate.received_kbit)
