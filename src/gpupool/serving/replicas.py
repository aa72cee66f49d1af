"""Which replicas start, end and serve, and the ports they listen on. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from gpupool.base.units import NANOS_PER_SECOND

#: States of a replica. `wanted`: no job yet; `starting`: not healthy yet; `ready`: gets requests;
#: `draining`: gets no more of them and ends.
WANTED: Final = "wanted"
STARTING: Final = "starting"
READY: Final = "ready"
DRAINING: Final = "draining"
ENDED: Final = "ended"
#: States that count for the number of replicas.
LIVE: Final = (WANTED, STARTING, READY)
#: Ports that the replicas of a service go through in turn: one that has just ended may leave its
#: port in TIME_WAIT.
PORT_SPAN: Final = 1000
LAST_PORT: Final = 65535
#: A replica that ran for less counts as a failed start.
SHORT_LIFE_NS: Final = 60 * NANOS_PER_SECOND
#: Pauses between failed starts: 10 s, then doubled, as the kubelet's for containers that crash.
FIRST_PAUSE_NS: Final = 10 * NANOS_PER_SECOND
LONGEST_PAUSE_NS: Final = 300 * NANOS_PER_SECOND


@dataclass(frozen=True)
class ReplicaFact:
    """A replica for the choice of victims."""

    number: int
    state: str


def choose_victims(replicas: Sequence[ReplicaFact], count: int) -> list[int]:
    """Return the numbers of so many replicas to end: those that serve least first, then the newest."""
    order = {state: place for place, state in enumerate(LIVE)}
    live = [one for one in replicas if one.state in order]
    live.sort(key=lambda one: (order[one.state], -one.number))
    return [one.number for one in live[: max(0, count)]]


def choose_port(first: int, number: int, taken: Collection[int]) -> int | None:
    """Return the port of a replica; None: all are taken.

    Args:
        first: The service's.
        number: Of the replica: the next one gets the next port.
        taken: Ports of the replicas of all services.
    """
    span = min(PORT_SPAN, LAST_PORT - first + 1)
    for step in range(span):
        port = first + (number - 1 + step) % span
        if port not in taken:
            return port
    return None


def compute_pause(failures: int) -> int:
    """Return the nanoseconds before the next start, after so many failed ones in a row."""
    if failures <= 0:
        return 0
    doubled: int = FIRST_PAUSE_NS << min(failures - 1, 10)
    return min(LONGEST_PAUSE_NS, doubled)


def is_failed_start(ready_ns: int | None, now_ns: int) -> bool:
    """Whether a replica that has ended never served, or only for a short time."""
    return ready_ns is None or now_ns - ready_ns < SHORT_LIFE_NS
