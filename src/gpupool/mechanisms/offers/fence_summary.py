"""What the fence does at best, and which level it reaches with the driver of this node."""

from __future__ import annotations

from gpupool.mechanisms.fence_survey import survey_fence
from gpupool.mechanisms.offers.summaries import MechanismSummary, ReachedLevels
from gpupool.model.device import Device
from gpupool.model.enforcement import FenceLevel, spread_level
from gpupool.model.isolation.host_facts import HostFacts
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import SizeClass


def find_fence_levels(device: Device, host: HostFacts) -> ReachedLevels:
    """Return what the fence enforces on a card of this node. Reads the driver's symbols."""
    survey = survey_fence(own_pool=host.own_pool, simulated=device.simulated)
    return ReachedLevels(spread_level(survey.level), survey.why)


FENCE_SUMMARY = MechanismSummary(
    spread_level(FenceLevel.SOFT),
    (HostKind.PROCESS, HostKind.CONTAINER),
    SizeClass.ANY,
    "NVIDIA, and simulated ones; profiles alone where a simulated card is in MIG mode",
    "adversary and contract suites on simulated cards; unmodified PyTorch on them; no real card",
    find_levels=find_fence_levels,
)
