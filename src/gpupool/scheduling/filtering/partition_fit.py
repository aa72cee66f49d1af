"""The choice of a slot for a partition: the one that keeps the most useful slots free.

Cards publish profiles and slots (`model/partition`). This module compares what could still be cut
after each choice. It knows geometry and the demand per profile, and nothing of how a partition is
made. Cards of one model have few different layouts, so results are cached by profiles and layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from gpupool.model.claim import Shape
from gpupool.model.partition import PartitionProfile, PartitionSlot, count_fitting, list_free_slots
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.columns import Bools, Ints

#: Answers kept; the boards known to us have fewer than a thousand mixes each.
_REMEMBERED = 1 << 15

Profiles = tuple[PartitionProfile, ...]
Pieces = tuple[PartitionSlot, ...]


def find_profile(profiles: Iterable[PartitionProfile], name: str | None) -> PartitionProfile | None:
    """Return the profile of that name, or None if the card does not have it."""
    return next((profile for profile in profiles if profile.name == name), None)


def compute_partition_bytes(profile: str, cards: CardTable) -> Ints:
    """Return the memory of the profile on each card, 0 on cards without it."""
    need = np.zeros(len(cards), dtype=np.int64)
    for row, cut in cards.layouts.items():
        if (found := find_profile(cut.profiles, profile)) is not None:
            need[row] = found.memory_bytes
    return need


def find_publishing_cards(shape: Shape, cards: CardTable) -> Bools:
    """Return a mask of the cards that publish the shape's profile with the same compute, and no
    more memory than the shape allows.
    """
    found = np.zeros(len(cards), dtype=np.bool_)
    most = shape.partition_bytes
    for row, cut in cards.layouts.items():
        profile = find_profile(cut.profiles, shape.profile)
        found[row] = (
            profile is not None
            and profile.gpu_milli == shape.gpu_milli
            and (most is None or profile.memory_bytes <= most)
        )
    return found


@lru_cache(maxsize=_REMEMBERED)
def count_partitions(profiles: Profiles, taken: Pieces, name: str) -> int:
    """Return how many partitions of a profile fit beside the taken slots, all at once."""
    profile = find_profile(profiles, name)
    return 0 if profile is None else count_fitting(profiles, taken, profile)


def compute_layout_value(
    profiles: Sequence[PartitionProfile],
    taken: Sequence[PartitionSlot],
    wanted: Mapping[str, float] | None = None,
) -> float:
    """Return the milli-devices that can still be cut, as a mean over the profiles.

    Args:
        profiles: What the card can be cut into.
        taken: The slots in use.
        wanted: Weight per profile name; None weights all profiles alike.

    >>> half = PartitionProfile("half", 4, 0, (0, 4), 2, 500)
    >>> compute_layout_value([half], []), compute_layout_value([half], [PartitionSlot(0, 4, "half")])
    (1000.0, 500.0)
    """
    if not profiles:
        return 0.0
    weights = dict[str, float]()
    for profile in profiles:
        weights[profile.name] = wanted.get(profile.name, 0.0) if wanted else 1.0
    all_weights = sum(weights.values())
    # The card publishes none of the wanted profiles: all of its profiles count alike then.
    if not all_weights:
        return compute_layout_value(profiles, taken)
    pieces = (weights[p.name] * p.gpu_milli * count_fitting(profiles, taken, p) for p in profiles)
    return sum(pieces) / all_weights


def choose_slot(
    profiles: Sequence[PartitionProfile],
    taken: Iterable[PartitionSlot],
    name: str,
    wanted: Mapping[str, float] | None = None,
) -> tuple[PartitionSlot, float] | None:
    """Return the slot for a partition that loses the least value.

    Of equal losses the highest start wins, because on known boards the low slots allow the most
    profiles.

    Returns:
        The slot and the lost value in milli-devices; None if no slot is free.
    """
    beside = tuple(taken)
    before = compute_layout_value(profiles, beside, wanted)
    open_places = [place for place in list_free_slots(profiles, beside) if place.profile == name]
    losses = list[tuple[float, int, PartitionSlot]]()
    for place in open_places:
        lost = before - compute_layout_value(profiles, (*beside, place), wanted)
        # Rounded: sums of weights differ in the last bit with the order of profiles, and equal
        # losses must tie.
        losses.append((round(lost, 6), -place.start, place))
    if not losses:
        return None
    lost, _, place = min(losses)
    return place, lost


def best_card(
    cards: Sequence[tuple[Sequence[PartitionProfile], Sequence[PartitionSlot]]],
    name: str,
    wanted: Mapping[str, float] | None = None,
) -> tuple[int, PartitionSlot] | None:
    """Of several cards (their profiles, what is taken) the one whose best cut loses least, the
    first of equals; its number and the place.
    """
    found = list[tuple[float, int, PartitionSlot]]()
    for number, (profiles, taken) in enumerate(cards):
        cut = choose_slot(profiles, taken, name, wanted)
        if cut is not None:
            found.append((cut[1], number, cut[0]))
    if not found:
        return None
    _, number, place = min(found)
    return number, place
