"""Lists the mechanisms in the order in which they are tried, and chooses one for an allocation.

A mechanism is removed by deleting its file and its line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from gpupool.base.errors import RequestRejection
from gpupool.mechanisms.contract import AllocationView, Layer, Mechanism
from gpupool.mechanisms.drm import ComputeMask, DeviceMemoryLimit
from gpupool.mechanisms.fence import FenceMechanism
from gpupool.mechanisms.layers.memgroup import DriverMemoryLimits
from gpupool.mechanisms.mig.mechanism import MigMechanism
from gpupool.mechanisms.mps.mechanism import MpsMechanism
from gpupool.mechanisms.mps.refusal import SHARING
from gpupool.mechanisms.no_card import NoCard
from gpupool.mechanisms.notes import NoteBook
from gpupool.mechanisms.passthrough import PassthroughMechanism
from gpupool.mechanisms.share import CountedShare
from gpupool.mechanisms.sriov import SriovMechanism
from gpupool.mechanisms.timeslice.layer import TimesliceLayer
from gpupool.mechanisms.vgpu import VgpuMechanism
from gpupool.mechanisms.whole import WholeCards

# Those for virtual machines serve nothing else, so they come first. Whole cards need no limits, so
# they come next. The counted share stops no program, so it comes last.
MECHANISMS: Mapping[str, Mechanism] = MappingProxyType(
    {
        one.name: one
        for one in (
            PassthroughMechanism(),
            SriovMechanism(),
            VgpuMechanism(),
            WholeCards(),
            MigMechanism(),
            FenceMechanism(),
            CountedShare(),
            MpsMechanism(),
            NoCard(),
        )
    }
)

#: Memory limits of the driver. On Kubernetes the agent sets them once the runtime has made the
#: container's cgroup.
MEMORY_LIMITS = DriverMemoryLimits()

#: In the order in which they are added to what the mechanism has prepared.
LAYERS: tuple[Layer, ...] = (
    MEMORY_LIMITS,
    DeviceMemoryLimit(),
    ComputeMask(),
    TimesliceLayer(),
)


def find_on_record(allocation: str, state_dir: Path) -> Mechanism | None:
    """Return the mechanism that prepared an allocation; None without a readable note."""
    note = NoteBook(state_dir).find_note(allocation)
    return None if note is None else MECHANISMS[note.mechanism]


def choose_mechanism(view: AllocationView) -> Mechanism:
    """Return the first mechanism that serves an allocation.

    Raises:
        RequestRejection: none serves it; the message has the reason of each.
    """
    reasons: list[str] = []
    for mechanism in _list_candidates(view):
        reason = mechanism.explain_refusal(view)
        if not reason:
            return mechanism
        reasons.append(f"{mechanism.name}: {reason}")
    raise RequestRejection(
        f"No mechanism can serve allocation {view.allocation}: {'; '.join(reasons)}"
    )


def _list_candidates(view: AllocationView) -> list[Mechanism]:
    """Return the mechanisms that may serve an allocation: one for MPS is served by MPS alone."""
    wants_mps = view.sharing == SHARING
    return [one for one in MECHANISMS.values() if (one.name == SHARING) is wants_mps]
