"""Bandwidth limits of a job on the real OVN: asked beside got, TCP and UDP, both directions.

As root, with OVN's packages. Payload is counted, in the job that gets it. The same path without a
limit is measured beside each one: a machine that forwards less than a limit cannot show it.
"""

import shutil
import tempfile
from pathlib import Path

from bench.rows import Row
from gpupool.agent.network.daemons import find_missing_programs
from gpupool.agent.network.verification.traffic import (
    TrafficEnd,
    TrafficPlan,
    TrafficProtocol,
    measure_path,
)
from tests.e2e.pool_fixture import RealPool
from tests.support.network_pool import find_end

NAME = "network-limits"
COMMAND = "python -m bench network-limits"
ASKED_MBIT = (20, 50, 100, 300)
#: Part of the limit by which what a program gets may differ.
TOLERANCE = 0.05
#: A figure is the median of so many measurements.
TURNS = 3
PROTOCOLS: tuple[TrafficProtocol, ...] = ("tcp", "udp")


def run(out: Path) -> list[Row]:
    missing = find_missing_programs()
    if missing:
        raise SystemExit(f"{NAME}: needs the packages {', '.join(sorted(set(missing.values())))}")
    place = Path(tempfile.mkdtemp(prefix="gpn-"))
    place.chmod(0o755)
    rows = list[Row]()
    try:
        with RealPool(place / "pool", "4xL40S") as pool:
            pool.do("network", "enable")
            pool.do("network", "create", "lab", "--cidr", "10.0.0.0/24")
            for name in ("limited", "peer"):
                words = ("submit", "--network", "lab", "--gpu", "0.1", "--name", name)
                pool.do(*words, "--", "sleep", "3600")
                pool.until_state(name, "running")
            for asked in ASKED_MBIT:
                for direction in ("in", "out"):
                    rows += _measure_direction(pool, asked, direction)
            pool.stop_all()
            pool.do("network", "disable", "--yes")
    finally:
        shutil.rmtree(place)
    return rows


def _measure_direction(pool: RealPool, asked: int, direction: str) -> list[Row]:
    ends = [find_end(pool, "lab", name) for name in ("peer", "limited")]
    source, target = ends if direction == "in" else ends[::-1]
    free = {protocol: _measure(source, target, protocol, asked) for protocol in PROTOCOLS}
    pool.do("network", "limit-set", "lab", "--job", "limited", f"--{direction}", f"{asked}M")
    pool.until(lambda: _is_set(pool), "the limit in force")
    rows = list[Row]()
    for protocol in PROTOCOLS:
        samples = [_measure(source, target, protocol, asked) for _ in range(TURNS)]
        got = sorted(samples)[TURNS // 2]
        rows.append(
            Row(
                f"{protocol} {direction}: got, beside asked ({free[protocol]:.0f} without a limit)",
                "Mbit/s",
                round(got, 1),
                COMMAND,
                peer=float(asked),
                peer_command="what limit-set asked for",
                limit_apart=TOLERANCE * asked,
                samples=tuple(samples),
            )
        )
    (limit,) = pool.json("network", "limit-list", "lab")["limits"]
    pool.do("network", "limit-delete", "lab", limit["id"])
    pool.until(lambda: pool.json("network", "limit-list", "lab")["states"] == [], "no limit")
    return rows


def _is_set(pool: RealPool) -> bool:
    (state,) = pool.json("network", "limit-list", "lab")["states"]
    return {state["inward"]["state"], state["outward"]["state"]} == {"none", "set"}


def _measure(
    source: TrafficEnd, target: TrafficEnd, protocol: TrafficProtocol, asked: int
) -> float:
    """Measure in Mbit/s; UDP is offered 30 % more than is asked for."""
    plan = TrafficPlan(protocol, asked * 1300, seconds=2.0, start_seconds=1.0)
    return measure_path(source, target, plan).received_kbit / 1000
