"""Decides what a machine of a pair of gateways does. Pure: time and what was seen come as arguments.

The priorities in the northbound database are the truth. A machine writes its own; it writes the
other's only to take over, and then both in one change. A machine that comes back stands by: nothing
moves for it, since a move costs connections half a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gpupool.network.gateways.model import GatewayRole, make_priority, read_role

#: Questions in a row without an answer after which the uplink is dead: at 50 ms, 0.2 s.
MISSES: Final = 4
#: Seconds for which everything has to be well before a machine that was away stands by.
SETTLE_SECONDS: Final = 1.5
#: Seconds without BFD after which the peer is demoted. OVN has moved the traffic by then.
SILENT_SECONDS: Final = 0.5
#: The same for a peer that was not seen since OVN began to watch its tunnel: that may just begin.
UNKNOWN_SECONDS: Final = 5.0
#: Seconds without an answer from the address of the active machine, after which it is taken.
UNANSWERED_SECONDS: Final = 3.0


@dataclass(frozen=True)
class GatewaySight:
    """What a machine sees in one tick.

    Attributes:
        now: monotonic seconds.
        priorities: by chassis, of the database; empty before it was read.
        uplink_fault: why nothing gets out; empty: all is well.
        is_watched: whether OVN watches tunnels, as it does while there is a gateway.
        is_peer_up: whether the tunnel to the other machine of the pair answers (BFD).
        is_any_up: whether the tunnel to some machine answers.
        has_others: whether this machine has tunnels to others than its peer.
        is_address_answered: whether the active machine's address answers; None: not asked.
        is_drained: whether an admin keeps gateways away.
    """

    now: float
    priorities: Mapping[str, int]
    uplink_fault: str = ""
    is_watched: bool = True
    is_peer_up: bool = True
    is_any_up: bool = True
    has_others: bool = True
    is_address_answered: bool | None = None
    is_drained: bool = False


@dataclass(frozen=True)
class GatewayChange:
    """Roles to write, by chassis, in one change, and why."""

    roles: Mapping[str, GatewayRole]
    reason: str


class GatewayDecision:
    """The decisions of one machine, tick by tick."""

    def __init__(
        self, chassis: str, peer: str, *, is_first: bool, names: Mapping[str, str] | None = None
    ) -> None:
        """Make the decisions of a machine.

        Args:
            chassis, peer: how OVN knows the machine and the other one of the pair.
            is_first: whether it has the gateways where both could.
            names: how people know the two, by chassis.
        """
        names = names or {}
        self._chassis = chassis
        self._peer = peer
        self._name = names.get(chassis, chassis)
        self._peer_name = names.get(peer, peer)
        self._is_first = is_first
        self._well_since: float | None = None
        self._silent_since: float | None = None
        self._has_seen_peer = False
        self._unanswered_since: float | None = None

    def make_priorities(self, roles: Mapping[str, GatewayRole]) -> dict[str, int]:
        """Return the priorities of roles, by chassis."""
        return {
            chassis: make_priority(role, is_first=(chassis == self._chassis) == self._is_first)
            for chassis, role in roles.items()
        }

    def find_role(self, sight: GatewaySight) -> GatewayRole | None:
        """Return the machine's role; None where the database has none for it."""
        return _find_role(sight, self._chassis)

    def find_peer_role(self, sight: GatewaySight) -> GatewayRole | None:
        """Return the other machine's role; None where the database has none for it."""
        return _find_role(sight, self._peer)

    def has_gateways(self, sight: GatewaySight) -> bool:
        """Whether OVN sends the gateways' packets to this machine, as ovn-controller(8) decides.

        That is the chassis with the highest priority among those that are reached; a machine that
        reaches no other one is cut off itself.
        """
        mine = sight.priorities.get(self._chassis)
        if mine is None or not sight.is_any_up:
            return False
        return not sight.is_peer_up or mine > sight.priorities.get(self._peer, 0)

    def retire(self, sight: GatewaySight) -> GatewayChange | None:
        """Decide what to write before the machine leaves the pair; None: nothing."""
        mine = _find_role(sight, self._chassis)
        peer = _find_role(sight, self._peer)
        if mine in (None, GatewayRole.AWAY) or peer is None:
            return None
        return self._hand_over(peer, f"{self._name} left the gateways")

    def decide(self, sight: GatewaySight, is_ready: Callable[[], bool]) -> GatewayChange | None:
        """Decide what to write.

        Args:
            is_ready: whether the switch has the flows of gateways; asked only where it matters.
        """
        # Tunnels begin as silent ones whenever OVN begins to watch them.
        self._has_seen_peer = sight.is_watched and (self._has_seen_peer or sight.is_peer_up)
        mine = _find_role(sight, self._chassis)
        peer = _find_role(sight, self._peer)
        if mine is None or peer is None:
            return None
        if mine is GatewayRole.AWAY or sight.uplink_fault:
            self._silent_since = None
            self._unanswered_since = None
        if mine is GatewayRole.AWAY:
            return self._return(sight, peer, is_ready)
        self._well_since = None
        if sight.uplink_fault:
            return self._hand_over(peer, f"{self._name}: {sight.uplink_fault}")
        if sight.is_drained and not (mine is GatewayRole.ACTIVE and peer is GatewayRole.AWAY):
            return self._hand_over(peer, f"an admin drained {self._name}")
        if mine is GatewayRole.ACTIVE:
            return self._settle_two(sight, peer)
        return self._take_over(sight, peer)

    def _return(
        self, sight: GatewaySight, peer: GatewayRole, is_ready: Callable[[], bool]
    ) -> GatewayChange | None:
        """Stand by once all has been well for a while, or take what no machine has."""
        is_alone = peer is not GatewayRole.ACTIVE
        if sight.uplink_fault or sight.is_drained or not (sight.is_any_up or is_alone):
            self._well_since = None
            return None
        if self._well_since is None:
            self._well_since = sight.now
        if sight.now - self._well_since < SETTLE_SECONDS or not is_ready():
            return None
        if is_alone:
            return GatewayChange({self._chassis: GatewayRole.ACTIVE}, f"{self._peer_name} is away")
        return GatewayChange({self._chassis: GatewayRole.STANDBY}, f"{self._name} is well again")

    def _hand_over(self, peer: GatewayRole, reason: str) -> GatewayChange:
        roles = {self._chassis: GatewayRole.AWAY}
        if peer is GatewayRole.STANDBY:
            roles[self._peer] = GatewayRole.ACTIVE
        return GatewayChange(roles, reason)

    def _settle_two(self, sight: GatewaySight, peer: GatewayRole) -> GatewayChange | None:
        """Let the first machine have the gateways where both are active."""
        if peer is GatewayRole.ACTIVE and not self._is_first and sight.is_peer_up:
            return GatewayChange({self._chassis: GatewayRole.STANDBY}, "both machines were active")
        return None

    def _take_over(self, sight: GatewaySight, peer: GatewayRole) -> GatewayChange | None:
        if peer is GatewayRole.AWAY:
            return GatewayChange({self._chassis: GatewayRole.ACTIVE}, f"{self._peer_name} is away")
        if peer is GatewayRole.STANDBY:
            roles = {self._chassis: GatewayRole.ACTIVE}
            return GatewayChange(roles, "no machine was active") if self._is_first else None
        reason = self._judge_peer(sight)
        if not reason:
            return None
        self._silent_since = None
        self._unanswered_since = None
        roles = {self._chassis: GatewayRole.ACTIVE, self._peer: GatewayRole.AWAY}
        return GatewayChange(roles, reason)

    def _judge_peer(self, sight: GatewaySight) -> str:
        """Say why the active peer is demoted; empty: it is not."""
        # A machine that reaches no other one is the one that is cut off, and judges none.
        may_judge = sight.is_any_up or not sight.has_others
        patience = SILENT_SECONDS if self._has_seen_peer else UNKNOWN_SECONDS
        if sight.is_peer_up or not may_judge:
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = sight.now
        elif sight.now - self._silent_since >= patience:
            return f"{self._peer_name} does not answer"
        if sight.is_address_answered is not False:
            self._unanswered_since = None
        elif self._unanswered_since is None:
            self._unanswered_since = sight.now
        elif sight.now - self._unanswered_since >= UNANSWERED_SECONDS:
            return f"the address of the gateways does not answer on {self._peer_name}"
        return ""


def _find_role(sight: GatewaySight, chassis: str) -> GatewayRole | None:
    priority = sight.priorities.get(chassis)
    return None if priority is None else read_role(priority)
