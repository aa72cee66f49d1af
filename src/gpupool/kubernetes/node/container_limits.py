"""Puts containers under the memory limit of their card's driver, by the cgroup of each.

The runtime makes the cgroup after the container was prepared. A hook of the runtime reports it
before the container's program begins, and waits until the limit is set
(`native/hook/report.c`). Without the report the fence alone limits the container, and one whose
claim demands isolation `hard` does not start. Why a hook:
docs/decisions/0069-memory-limits-of-pods-by-a-hook.md.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpupool.base.errors import GpupoolError, IsolationNotOffered
from gpupool.base.units import MIB
from gpupool.mechanisms.contract import AllocationView, PreparedAllocation
from gpupool.mechanisms.layers.memgroup import DriverMemoryLimits
from gpupool.mechanisms.registry import MEMORY_LIMITS
from gpupool.model.enforcement import FenceLevel, spread_level
from gpupool.model.isolation.claim_needs import REQUIRED_LEVELS, IsolationKind

#: Where the host has its cgroups.
_HIERARCHIES = Path("sys/fs/cgroup")
#: A name for the cgroup of a container that does not exist yet.
_FUTURE = "gpupool-container"
#: In version 1 the hierarchy of this controller stands for all.
_FIRST_VERSION = "memory"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ContainerReport:
    """A new container, as the runtime's hook reports it.

    Attributes:
        allocation: whose container it is.
        groups: lines of its `/proc/PID/cgroup`, as the host sees them.
        own_namespace: the container sees its cgroups by other paths.
    """

    allocation: str
    groups: str
    own_namespace: bool

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> ContainerReport:
        return cls(str(read["container"]), str(read["groups"]), read["own_namespace"] is True)


class ContainerLimits:
    """The driver's memory limits of one node's containers.

    Args:
        host: where the agent sees the host's root.
        socket: of the agent, on the host; reports go there.
    """

    def __init__(
        self,
        state_dir: Path,
        host: Path,
        socket: Path,
        layer: DriverMemoryLimits = MEMORY_LIMITS,
    ) -> None:
        self._state_dir = state_dir
        self._root = host / _HIERARCHIES
        self._socket = socket
        self._layer = layer

    def explain_absence(self, view: AllocationView) -> str:
        """Return why the driver cannot limit a container that is to come; empty if it can."""
        future = str(self._base_group / _FUTURE)
        return self._layer.explain_absence(replace(view, cgroups=(future,), shows_cgroups=True))

    def add_report(
        self, view: AllocationView, prepared: PreparedAllocation, isolation: IsolationKind
    ) -> PreparedAllocation:
        """Have the container's cgroup reported if the driver can limit it.

        The container does not exist yet: limits of an earlier one that the entry had are removed,
        so that none is reported for a container that is never reported. A container whose claim
        demands the limit does not start without it.

        Raises:
            IsolationNotOffered: The claim demands the limit, and the driver has none here.
        """
        self._layer.unprepare(view.allocation, view.generation, self._state_dir)
        absence = self.explain_absence(view)
        if not prepared.image_check:
            # The program that checks images is the one that reports; it is there for every fence.
            absence = absence or "the container has no fence, whose program reports its cgroup"
        demands = _demands_limit(view, isolation)
        if absence and demands:
            raise IsolationNotOffered(
                f"container {view.job} demands isolation {isolation}, and its node has no memory "
                f"limit of the driver: {absence}",
                hint="delete the pod: its successor goes where the limit is",
            )
        if absence:
            return prepared
        required = (IsolationNotOffered.code,) if demands else ()
        program = prepared.image_check[0]
        words = (program, "--report", str(self._socket), view.allocation, *required)
        return replace(prepared, cgroup_report=words)

    def limit_container(self, view: AllocationView, report: ContainerReport) -> str:
        """Set the limits of a container.

        Returns:
            Why they are not in force, which is logged as well; empty when they are.
        """
        group = self._find_group(report.groups)
        if group is None:
            log.warning("container %s has no cgroup that the agent sees", view.job)
            return "the agent does not see its cgroup"
        limited = replace(view, cgroups=(str(group),), shows_cgroups=not report.own_namespace)
        try:
            problem = self._layer.limit_container(limited, self._state_dir)
        except (GpupoolError, OSError) as error:
            problem = str(error)
        if problem:
            log.warning("container %s has the fence's limit alone: %s", view.job, problem)
        return problem

    def is_limited(self, allocation: str) -> bool:
        """Whether the driver holds the memory of the allocation's container."""
        fenced = spread_level(FenceLevel.SOFT)
        levels = self._layer.read_enforcement(allocation, fenced, self._state_dir)
        return levels.memory is FenceLevel.HARD

    def read_used(self, allocation: str) -> Mapping[str, int]:
        """Return the bytes that the driver counts for the container, by card. Blocks."""
        return self._layer.read_used(allocation, self._state_dir)

    @property
    def _is_second_version(self) -> bool:
        return (self._root / "cgroup.controllers").exists()

    @property
    def _base_group(self) -> Path:
        return self._root if self._is_second_version else self._root / _FIRST_VERSION

    def _find_group(self, lines: str) -> Path | None:
        controller = "" if self._is_second_version else _FIRST_VERSION
        for line in lines.splitlines():
            _, controllers, path = line.split(":", 2)
            if controller in controllers.split(","):
                return None if ".." in Path(path).parts else self._base_group / path.lstrip("/")
        return None


def _demands_limit(view: AllocationView, isolation: IsolationKind) -> bool:
    """Whether the claim demands what the limit holds; one with a card's whole memory has it all."""
    if REQUIRED_LEVELS[isolation].memory is not FenceLevel.HARD:
        return False
    # In whole MiB, as claims are: a card's memory is seldom a whole number of them.
    return any(one.memory_bytes // MIB < one.device.memory_bytes // MIB for one in view.granted)
