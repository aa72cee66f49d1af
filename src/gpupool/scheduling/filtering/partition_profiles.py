"""The meaning of profile names: a full name (`1g.18gb`) or only the part of the card (`1g`).

Names differ between boards. A name means what the cards of the pool publish under it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import numpy as np

from gpupool.model.partition import PartitionProfile
from gpupool.scheduling.filtering.feasibility import is_model_match
from gpupool.scheduling.snapshot.cards import CardTable


def resolve_profiles(
    name: str, model: str | None, cards: CardTable
) -> tuple[PartitionProfile, ...]:
    """Return the profiles that a name means on cards of one model.

    Args:
        name: A profile name or its first part, in any case.
        model: A model as in a shape; None is any model.
        cards: The cards of the pool.

    Returns:
        Several profiles if boards differ, none if the name is unknown. Of equal name and compute
        the one with the most memory.
    """
    found: dict[tuple[str, int], PartitionProfile] = {}
    for profiles in list_profile_sets(model, cards):
        for one in _match_name(name.lower(), profiles):
            known = found.get((one.name, one.gpu_milli))
            if known is None or one.memory_bytes > known.memory_bytes:
                found[one.name, one.gpu_milli] = one
    return tuple(found.values())


def list_profile_sets(
    model: str | None, cards: CardTable
) -> tuple[tuple[PartitionProfile, ...], ...]:
    """Return each distinct list of profiles that cards of the model publish."""
    of_model = [model is None or is_model_match(model, known) for known in cards.models]
    wanted = np.array(of_model, dtype=np.bool_)[cards.model]
    return tuple(dict.fromkeys(cut.profiles for row, cut in cards.layouts.items() if wanted[row]))


def list_profile_names(model: str | None, cards: CardTable) -> tuple[str, ...]:
    """Return the names of all profiles that cards of the model publish."""
    every = chain.from_iterable(list_profile_sets(model, cards))
    return tuple(dict.fromkeys(one.name for one in every))


def _match_name(name: str, profiles: Iterable[PartitionProfile]) -> list[PartitionProfile]:
    """Return the profile of that name; for `3g` the plain one with least memory."""
    exact = [one for one in profiles if one.name.lower() == name]
    plain = [one for one in profiles if one.name.lower().startswith(f"{name}.") and one.is_plain]
    return exact or sorted(plain, key=lambda one: one.memory_bytes)[:1]
