"""Rounds with a load balancer of HTTP on a pair of machines that loses the one that serves."""

from collections.abc import Callable

from bench.rows import Row
from tests.support.http_pair import HttpPair, find_missing_parts, http_pair
from tests.support.network_machines import Machine

COMMAND = "python -m bench network-http"
PAIR_ROUNDS = 10
#: Seconds without any answer, at most.
LIMIT_SECONDS = 1.0


def measure_pair(rounds: int) -> list[Row]:
    """Measure HAProxy killed, a machine killed and a machine drained, so often each."""
    missing = find_missing_parts()
    if missing:
        raise SystemExit(f"network-http: needs the packages {', '.join(missing)}")
    with http_pair() as pair:
        return [
            *_measure(pair, "HAProxy killed", rounds, _kill_proxies),
            *_measure(pair, "machine drained", rounds, _drain, failures=0),
            *_measure(pair, "machine killed", rounds, _kill_machine),
        ]


def _measure(
    pair: HttpPair,
    what: str,
    rounds: int,
    lose: Callable[[HttpPair, Machine], None],
    failures: int | None = None,
) -> list[Row]:
    gaps = list[float]()
    failed = list[float]()
    reasons = set[str]()
    answered = 0
    for _ in range(rounds):
        active = pair.machines.find_active()
        pair.wait_for_serving(active)
        load = pair.begin_load()
        lose(pair, active)
        load.finish()
        gaps.append(round(load.gap, 3))
        failed.append(len(load.failures))
        reasons |= {str(one)[:80] for one in load.failures}
        answered += sum(load.names.values())
        _restore(pair, active)
    note = "; ".join([f"{answered} answered", *sorted(reasons)[:5]])
    worst = f"{what}: the longest of {rounds} times without an answer"
    return [
        Row(worst, "s", max(gaps), COMMAND, limit=LIMIT_SECONDS, samples=tuple(gaps)),
        Row(
            f"{what}: failed requests, the most of {rounds} rounds",
            "requests",
            max(failed),
            COMMAND,
            limit=failures,
            samples=tuple(failed),
            note=note,
        ),
    ]


def _kill_proxies(pair: HttpPair, active: Machine) -> None:
    pair.kill_proxies(active)
    pair.wait_until_served(pair.machines.find_peer(active))


def _drain(pair: HttpPair, active: Machine) -> None:
    pair.pool.do("network", "gateway-drain", active.name)
    pair.wait_until_served(pair.machines.find_peer(active))
    pair.pool.do("network", "gateway-drain", active.name, "--undo")


def _kill_machine(pair: HttpPair, active: Machine) -> None:
    pair.kill_machine(active)
    pair.wait_until_served(pair.machines.find_peer(active))


def _restore(pair: HttpPair, lost: Machine) -> None:
    """Bring back what was lost, until it could take over."""
    if lost.has_ended():
        pair.machines.revive_node(lost)
    pair.pool.until(
        lambda: set(pair.machines.read_states().values()) == {"active", "standby"}, "a standby"
    )
    pair.pool.until(
        lambda: all(state == "ready" for _, state in pair.read_roles().values()), "two proxies"
    )
