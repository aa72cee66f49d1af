"""Decides which of two machines a load balancer of HTTP leads to. Pure: time comes as an argument.

Each machine of the pair decides for itself. What both know of each other is in the row of the load
balancer and in the priorities of the gateways; see ADR 0091.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Final

from gpupool.network.gateways.model import GatewayRole

#: Seconds without BFD of the active machine's tunnel, after the 0.3 s that BFD takes itself.
SILENT_SECONDS: Final = 0.05
#: The same for the active machine about the other one, which judges it after 0.5 s: what is still
#: active then was not cut off itself.
SILENT_STANDBY_SECONDS: Final = 1.0
#: Seconds between an armed row and its move, in which controllers learn that it is armed.
ARMED_SECONDS: Final = 0.1
#: Seconds after which the machine that serves disarms a row: the other one has died since.
DISARM_SECONDS: Final = 5.0
#: Seconds after which load balancers follow the gateways. Open connections from outside have come
#: over with these by then, and stay at the proxy that has them.
FOLLOW_SECONDS: Final = 2.0


class ProxyStep(Enum):
    """What a machine writes to the row of a load balancer."""

    #: Lead it to this machine.
    TAKE = "take"
    #: Lead it to the other machine: the proxy here is dead.
    GIVE = "give"
    #: Let controllers forget connections to the dead machine, with the move that follows.
    ARM = "arm"
    #: Let them keep connections again. They forget those that are open now, so it is the exception.
    DISARM = "disarm"


@dataclass(frozen=True)
class PairSight:
    """What a machine knows of the pair.

    Attributes:
        role, peer_role: of this machine and of the other one; None: not known yet.
        is_informed: whether a machine that was cut off knows again how the other one is.
        is_peer_up: whether the tunnel to the other machine answers (BFD).
        is_any_up: whether the tunnel to some machine answers.
    """

    role: GatewayRole | None
    peer_role: GatewayRole | None
    is_informed: bool
    is_peer_up: bool
    is_any_up: bool


@dataclass(frozen=True)
class RowSight:
    """What a machine knows of one load balancer.

    Attributes:
        is_here: whether it leads to this machine.
        is_ready: whether the proxy here takes connections.
        is_peer_ready: whether the other machine says so of its own.
        is_armed: whether controllers forget connections to what it no longer leads to.
    """

    is_here: bool
    is_ready: bool
    is_peer_ready: bool
    is_armed: bool = False


@dataclass(frozen=True)
class Durations:
    """For how many seconds something has been so; 0: it is not.

    Attributes:
        silent: the other machine's tunnel does not answer.
        armed: the row is armed.
        wanted: the row leads to the other machine, and the gateways are here.
    """

    silent: float = 0.0
    armed: float = 0.0
    wanted: float = 0.0


class PairClock:
    """Since when the other machine is silent, and rows are armed or wanted here."""

    def __init__(self) -> None:
        self._silent_since: float | None = None
        self._armed_since = dict[str, float]()
        self._wanted_since = dict[str, float]()

    def note_peer(self, now: float, *, is_up: bool) -> None:
        """Note whether the other machine answers."""
        if is_up:
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = now

    def note_row(self, now: float, key: str, pair: PairSight, row: RowSight) -> None:
        """Note how a row is."""
        _note(self._armed_since, key, now, holds=row.is_armed)
        _note(self._wanted_since, key, now, holds=_is_wanted(pair, row))

    def forget_others(self, keys: Collection[str]) -> None:
        """Forget the rows that are not there any more."""
        for known in (self._armed_since, self._wanted_since):
            for key in known.keys() - set(keys):
                del known[key]

    def measure(self, now: float, key: str) -> Durations:
        """Return for how long things have been so for a row."""
        silent_since = now if self._silent_since is None else self._silent_since
        return Durations(
            silent=now - silent_since,
            armed=now - self._armed_since.get(key, now),
            wanted=now - self._wanted_since.get(key, now),
        )

    def is_waiting(self, now: float) -> bool:
        """Whether what is decided may change with time alone."""
        since = self._silent_since
        # A machine that is silent for longer is dead: nothing is left to decide about it.
        is_silent = since is not None and now - since <= 2 * SILENT_STANDBY_SECONDS
        return is_silent or bool(self._armed_since) or bool(self._wanted_since)


def decide_step(pair: PairSight, row: RowSight, times: Durations) -> ProxyStep | None:
    """Decide what to write to the row of a load balancer; None: nothing."""
    if row.is_here:
        if not row.is_ready and row.is_peer_ready and pair.is_peer_up:
            return ProxyStep.GIVE
        is_forgotten = row.is_armed and times.armed >= DISARM_SECONDS
        return ProxyStep.DISARM if is_forgotten else None
    if not row.is_ready or not pair.is_informed or not pair.is_any_up:
        return None
    if pair.is_peer_up and not row.is_peer_ready:
        return ProxyStep.TAKE
    if row.is_armed:
        # Also where the other machine answers again: to disarm costs it its connections too.
        return ProxyStep.TAKE if times.armed >= ARMED_SECONDS else None
    if not pair.is_peer_up:
        return ProxyStep.ARM if _is_peer_dead(pair, times.silent) else None
    return ProxyStep.TAKE if times.wanted >= FOLLOW_SECONDS else None


def _is_wanted(pair: PairSight, row: RowSight) -> bool:
    """Whether a planned move is due: both proxies are well, and this machine has the gateways."""
    has_gateways = pair.role is GatewayRole.ACTIVE and pair.peer_role is not GatewayRole.ACTIVE
    return has_gateways and pair.is_peer_up and row.is_ready and not row.is_here


def _is_peer_dead(pair: PairSight, silent_seconds: float) -> bool:
    """Whether a machine takes what a silent one has.

    Where only the tunnel between the two is broken both see the other one silent. One of them is
    active: the other one takes over and demotes it, and a machine that is away takes nothing.
    """
    if pair.role is GatewayRole.STANDBY:
        return silent_seconds >= SILENT_SECONDS
    return pair.role is GatewayRole.ACTIVE and silent_seconds >= SILENT_STANDBY_SECONDS


def _note(since: dict[str, float], key: str, now: float, *, holds: bool) -> None:
    if holds:
        since.setdefault(key, now)
    else:
        since.pop(key, None)
