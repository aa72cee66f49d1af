"""The registry of placement policies: add a new policy here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpupool.base.errors import UnknownPolicy
from gpupool.model.catalogue import nearest_model
from gpupool.model.claim import SharingKind
from gpupool.scheduling.scoring import (
    best_fit,
    binpack,
    dot_product,
    fgd,
    gpu_clustering,
    gpu_packing,
    random_node,
    spread,
)
from gpupool.scheduling.scoring.cost_terms import weighted_policy
from gpupool.scheduling.scoring.policy import PlacementPolicy
from gpupool.scheduling.scoring.stream_fill import policy as score_stream

DEFAULT_POLICY = score_stream.NAME

_ALL: Sequence[PlacementPolicy] = (
    random_node,
    dot_product,
    gpu_clustering,
    gpu_packing,
    best_fit,
    fgd,
    binpack,
    spread,
    score_stream,
    *weighted_policy.ALL,
)

POLICIES: Mapping[str, PlacementPolicy] = {policy.NAME: policy for policy in _ALL}


def find_policy(name: str) -> PlacementPolicy:
    """Return the policy of that name.

    Raises:
        UnknownPolicy: No policy has that name; the hint suggests the nearest one, or what it is the name of.
    """
    if name in POLICIES:
        return POLICIES[name]
    names = ", ".join(POLICIES)
    # `whatif --policy` takes both, and an unknown word is no kind of sharing there.
    near = nearest_model(name, [*POLICIES, *SharingKind])
    raise UnknownPolicy(
        f'no placement policy is called "{name}"',
        hint=f"{name} is how a share behaves: `submit --sharing`; there are: {names}"
        if name in list(SharingKind)
        else f"did you mean {near}? there are: {names}"
        if near
        else f"there are: {names}",
        name=name,
    )
