"""How long a network reaches nothing outside when its gateway moves, on the real OVN.

As root, with OVN's packages and nftables. Three machines, each a network namespace with an agent;
two of them are the pair of gateways. A job's namespace pings a router outside every 20 ms. Each
round loses the active machine in one way until the other one answers, and brings it back until it
stands by: the second figure is what that costs. `--count` says how many rounds.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from bench.rows import Row
from gpupool.agent.network.gateways.ping_probe import PingProbe
from gpupool.agent.network.gateways.watchdog_files import read_state
from tests.support.gateway_pool import GatewayPool, find_missing_packages, gateway_pool
from tests.support.network_machines import Machine, run_ip
from tests.support.network_pool import find_end

NAME = "network-failover"
COMMAND = "python -m bench network-failover"
ROUNDS = 20
#: Seconds without an answer, at most: for a loss, and for a planned move in the worst and the median.
LIMIT_SECONDS = 1.0
PLANNED_MEDIAN_SECONDS = 0.6
#: Answers in a row after which pings pass again: a second's worth.
_ANSWERS = 50
#: Seconds in which they do.
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Loss:
    """A way to lose the active machine, and to bring it back."""

    name: str
    lose: Callable[[GatewayPool, Machine], None]
    restore: Callable[[GatewayPool, Machine], None]


def run(out: Path) -> list[Row]:
    missing = find_missing_packages()
    if missing:
        raise SystemExit(f"{NAME}: needs the packages {', '.join(missing)}")
    rounds = int(os.environ.get("BENCH_KILLS", ROUNDS))
    rows = list[Row]()
    with gateway_pool() as machines:
        pool = machines.pool
        pool.do("network", "create", "lab", "--cidr", "10.0.0.0/24")
        machines.make_pair()
        pool.do("network", "gateway-create", "lab")
        words = ("submit", "--network", "lab", "--gpu", "1", "--label", "at=sim-0")
        pool.do(*words, "--name", "probe", "--", "sleep", "36000")
        pool.until_state("probe", "running")
        end = find_end(pool, "lab", "probe")
        probe = PingProbe(end.namespace, IPv4Address(machines.outside.router))
        probe.start()
        try:
            _wait_for_answers(probe, time.monotonic())
            for loss in LOSSES:
                rows += _measure(machines, probe, loss, rounds)
        finally:
            probe.stop()
    return rows


def _measure(machines: GatewayPool, probe: PingProbe, loss: Loss, rounds: int) -> list[Row]:
    lost = list[float]()
    restored = list[float]()
    for _ in range(rounds):
        active = _find_active(machines)
        peer = machines.find_peer(active)
        _wait_for_roles(machines, active, peer)
        began = time.monotonic()
        loss.lose(machines, active)
        _wait_for_move(machines, peer)
        lost.append(_find_outage(probe, began))
        began = time.monotonic()
        loss.restore(machines, active)
        _wait_for_roles(machines, peer, active)
        restored.append(_find_outage(probe, began))
    rows = [
        _make_row(f"{loss.name}: the longest of {rounds} outages", max(lost), lost),
        _make_row(f"{loss.name}: back again, the longest of {rounds}", max(restored), restored),
    ]
    if loss is PLANNED:
        median = sorted(lost)[rounds // 2]
        rows.append(_make_row(f"{loss.name}: median", median, lost, PLANNED_MEDIAN_SECONDS))
    return rows


def _find_active(machines: GatewayPool) -> Machine:
    """Find it as watchdogs say: the server learns of it later."""
    found: Machine = machines.pool.until(
        lambda: next((one for one in machines.members if _read_state(one) == "active"), None),
        "an active machine",
    )
    return found


def _read_state(member: Machine) -> str:
    return read_state(member.root / "agent/network/gateway").state


def _wait_for_move(machines: GatewayPool, target: Machine) -> None:
    machines.pool.until(lambda: _read_state(target) == "active", f"a move to {target.name}")


def _wait_for_roles(machines: GatewayPool, active: Machine, peer: Machine) -> None:
    machines.pool.until(
        lambda: (_read_state(active), _read_state(peer)) == ("active", "standby"),
        f"{peer.name} that stands by for {active.name}",
    )


def _make_row(
    figure: str, seconds: float, samples: list[float], limit: float = LIMIT_SECONDS
) -> Row:
    kept = tuple(round(sample, 3) for sample in samples)
    return Row(figure, "s", round(seconds, 3), COMMAND, limit=limit, samples=kept)


def _find_outage(probe: PingProbe, began: float) -> float:
    """Return the longest time without an answer, once answers have come for a while again."""
    _wait_for_answers(probe, time.monotonic())
    return probe.find_outage(began)


def _wait_for_answers(probe: PingProbe, since: float) -> None:
    if not probe.wait_for_answers(_ANSWERS, since, _PATIENCE_SECONDS):
        raise RuntimeError(f"no answers from outside within {_PATIENCE_SECONDS:g} s")


def _set_underlay(member: Machine, state: str) -> None:
    run_ip("link", "set", f"{member.space}e", state)


PLANNED = Loss(
    "planned move",
    lambda machines, active: _drain_active(machines, active),
    lambda machines, active: _drain(machines, active, "--undo"),
)


def _drain_active(machines: GatewayPool, active: Machine) -> None:
    # The server learns of roles after the watchdogs.
    machines.wait_for_roles(active, "standby")
    _drain(machines, active)


def _drain(machines: GatewayPool, member: Machine, *words: str) -> None:
    machines.pool.do("network", "gateway-drain", member.name, *words)


LOSSES = (
    PLANNED,
    Loss(
        "uplink dead, with a carrier",
        lambda machines, active: machines.outside.set_path(active, is_up=False),
        lambda machines, active: machines.outside.set_path(active, is_up=True),
    ),
    Loss(
        "link to the other machines down",
        lambda machines, active: _set_underlay(active, "down"),
        lambda machines, active: _set_underlay(active, "up"),
    ),
    Loss(
        "machine killed",
        lambda machines, active: machines.kill_node(active),
        lambda machines, active: machines.revive_node(active),
    ),
)
