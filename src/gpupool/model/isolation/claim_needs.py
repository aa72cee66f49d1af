"""What a claim demands of the way its card is shared: isolation, goal and host.

Facts only: which mechanism meets the needs is decided in `scheduling.mechanism_choice`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from gpupool.model.enforcement import EnforcementLevels, FenceLevel
from gpupool.model.isolation.host_kind import HostKind


class IsolationKind(StrEnum):
    """How well a claim must be isolated from its neighbours; each kind includes those before it.

    NONE: nothing is demanded. SOFT: unmodified programs keep to their memory and compute. HARD:
    hardware, kernel or hypervisor hold the memory of every program. FAULT: in addition an error in
    one tenant's program spares the others.
    """

    NONE = "none"
    SOFT = "soft"
    HARD = "hard"
    FAULT = "fault"


class ClaimGoal(StrEnum):
    """What a claim prefers among mechanisms that isolate well enough."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"
    DENSITY = "density"


#: The lowest level of each dimension that an isolation accepts.
REQUIRED_LEVELS: Mapping[IsolationKind, EnforcementLevels] = MappingProxyType(
    {
        IsolationKind.NONE: EnforcementLevels(),
        IsolationKind.SOFT: EnforcementLevels(FenceLevel.SOFT, FenceLevel.SOFT),
        IsolationKind.HARD: EnforcementLevels(FenceLevel.HARD, FenceLevel.SOFT),
        IsolationKind.FAULT: EnforcementLevels(
            FenceLevel.HARD, FenceLevel.SOFT, fault=FenceLevel.HARD
        ),
    }
)


@dataclass(frozen=True)
class ClaimNeeds:
    """What a claim demands of the mechanism; None where it says nothing.

    Attributes:
        host: what the allocation must be handed to; None is a process.
    """

    isolation: IsolationKind | None = None
    goal: ClaimGoal | None = None
    host: HostKind | None = None

    @property
    def is_demanding(self) -> bool:
        """Whether some cards cannot serve it, so that cards must be filtered by their offers."""
        return self.host is not None or self.isolation not in (None, IsolationKind.NONE)

    @property
    def minimum(self) -> EnforcementLevels:
        """The lowest level of each dimension that it accepts."""
        return REQUIRED_LEVELS[self.isolation or IsolationKind.NONE]

    def write(self) -> dict[str, str]:
        """Return what is given, as it is stored and sent."""
        given = {"isolation": self.isolation, "goal": self.goal, "host": self.host}
        return {name: str(value) for name, value in given.items() if value is not None}


#: Of a claim that says nothing.
ANY_NEEDS = ClaimNeeds()


def read_needs(document: Mapping[str, str] | None) -> ClaimNeeds:
    """Read what `ClaimNeeds.write` made; None is a claim that says nothing.

    Raises ValueError for an unknown value.
    """
    if not document:
        return ANY_NEEDS
    isolation = document.get("isolation")
    goal = document.get("goal")
    host = document.get("host")
    return ClaimNeeds(
        None if isolation is None else IsolationKind(isolation),
        None if goal is None else ClaimGoal(goal),
        None if host is None else HostKind(host),
    )
