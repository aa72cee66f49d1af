"""Every placement policy by its name: the one place to register a new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpupool.base.errors import UnknownPolicy
from gpupool.model.catalogue import nearest_model
from gpupool.scheduling import (
    score_best_fit,
    score_binpack,
    score_dot_product,
    score_fragmentation,
    score_gpu_clustering,
    score_gpu_packing,
    score_random,
    score_spread,
    score_stream,
    score_weighted,
)
from gpupool.scheduling.policy import PlacementPolicy

DEFAULT = score_stream.NAME

_ALL: Sequence[PlacementPolicy] = (
    score_random,
    score_dot_product,
    score_gpu_clustering,
    score_gpu_packing,
    score_best_fit,
    score_fragmentation,
    score_binpack,
    score_spread,
    score_stream,
    *score_weighted.ALL,
)

POLICIES: Mapping[str, PlacementPolicy] = {policy.NAME: policy for policy in _ALL}


def named(name: str) -> PlacementPolicy:
    """The policy of that name.

    Raises UnknownPolicy, which names the nearest one.
    """
    if name in POLICIES:
        return POLICIES[name]
    near = nearest_model(name, POLICIES)
    meant = f"did you mean {near}? " if near else ""
    raise UnknownPolicy(
        f'no placement policy is called "{name}"', hint=f"{meant}there are: {', '.join(POLICIES)}", name=name
    )
