"""Every placement policy by its name: the one place to register a new one."""

from __future__ import annotations

from collections.abc import Mapping

from gpupool.base.errors import UnknownPolicy
from gpupool.model.catalogue import nearest_model
from gpupool.scheduling import score_binpack, score_spread
from gpupool.scheduling.policy import PlacementPolicy

DEFAULT = "default"

POLICIES: Mapping[str, PlacementPolicy] = {
    DEFAULT: score_binpack,
    score_binpack.NAME: score_binpack,
    score_spread.NAME: score_spread,
}


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
