"""What a node offers to claims that demand isolation, by what its agent reports of a card."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from gpupool.kubernetes.resources.gpu_node_status import ShareIsolation
from gpupool.model.enforcement import EnforcementLevels, FenceLevel, spread_level
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import (
    CardOffers,
    LayerOffer,
    MechanismOffer,
    SizeClass,
)

#: Every pod is a container, and a claim that names no host counts as a process.
_HOSTS: Final = (HostKind.PROCESS, HostKind.CONTAINER)
_FENCE: Final = "fence"


# Cards that are alike share one object: the scheduler judges each object once.
@lru_cache(maxsize=256)
def build_card_offers(share: ShareIsolation, *, simulated: bool) -> CardOffers:
    """Build the offers of a card that serves shares and whole claims."""
    # A container runtime opens a real card to its container alone.
    alone = FenceLevel.SOFT if simulated else FenceLevel.HARD
    whole = MechanismOffer("whole", spread_every_level(alone), _HOSTS, SizeClass.WHOLE)
    fence = MechanismOffer(_FENCE, spread_level(share.fence), _HOSTS)
    hard = EnforcementLevels(memory=FenceLevel.HARD)
    limit = LayerOffer("memgroup", hard, (_FENCE,), share.absence)
    return CardOffers((whole, fence), (limit,))


def spread_every_level(level: FenceLevel) -> EnforcementLevels:
    """Return levels that are the same in each dimension."""
    return EnforcementLevels(level, level, level, level)
