"""Which published profile somebody means: by its name (`1g.18gb`), or by its part of the card alone (`1g`).

Names differ between boards; what a name means is what the cards of the pool publish.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gpupool.model.partition import PartitionProfile
from gpupool.scheduling.feasible import model_matches
from gpupool.scheduling.snapshot import Cards


def meant(name: str, model: str | None, cards: Cards) -> tuple[PartitionProfile, ...]:
    """What cards of that model (None: of any) publish under the name; several where boards differ, none if unknown."""
    found: dict[tuple[str, int], PartitionProfile] = {}
    for profiles in published(model, cards):
        for one in _called(name.lower(), profiles):
            found.setdefault((one.name, one.gpu_milli), one)
    return tuple(found.values())


def published(model: str | None, cards: Cards) -> tuple[tuple[PartitionProfile, ...], ...]:
    """Every list of profiles that cards of that model publish, once each."""
    of_model = [model is None or model_matches(model, known) for known in cards.models]
    wanted = np.array(of_model, dtype=np.bool_)[cards.model]
    return tuple(dict.fromkeys(cut.profiles for row, cut in cards.cuts.items() if wanted[row]))


def names(model: str | None, cards: Cards) -> tuple[str, ...]:
    """By name, all that cards of that model can be cut into."""
    return tuple(dict.fromkeys(one.name for profiles in published(model, cards) for one in profiles))


def _called(name: str, profiles: Iterable[PartitionProfile]) -> list[PartitionProfile]:
    """The profile of that name; of `3g` the one with the least memory, without media engines."""
    exact = [one for one in profiles if one.name.lower() == name]
    plain = [one for one in profiles if one.name.lower().startswith(f"{name}.") and not one.media]
    return exact or sorted(plain, key=lambda one: one.memory_bytes)[:1]
