"""Which cut of a card to take for a partition: the one that leaves the most useful places.

Cards publish profiles and placements (`model/partition`); this compares what could still be cut afterwards. It knows
geometry and how much each profile is wanted, not how a partition is made. Cards of one model are cut into few different
mixes, so what was found is kept, by profiles and mix.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from gpupool.model.partition import PartitionProfile, Placement, free_placements, most

_REMEMBERED = 1 << 15
"""Answers kept; the boards known to us have fewer than a thousand mixes each."""

Profiles = tuple[PartitionProfile, ...]
Pieces = tuple[Placement, ...]


def named(profiles: Iterable[PartitionProfile], name: str | None) -> PartitionProfile | None:
    """The profile of that name; None where the card has none."""
    return next((profile for profile in profiles if profile.name == name), None)


@lru_cache(maxsize=_REMEMBERED)
def room(profiles: Profiles, taken: Pieces, name: str) -> int:
    """How many partitions of that profile could be cut beside `taken`, all at once; 0 where the card has no such."""
    profile = named(profiles, name)
    return 0 if profile is None else most(profiles, taken, profile)


def value(
    profiles: Sequence[PartitionProfile], taken: Sequence[Placement], wanted: Mapping[str, float] | None = None
) -> float:
    """Milli-devices that could still be cut, averaged over the profiles by how much each is `wanted` (None: alike).

    >>> half = PartitionProfile("half", 4, 0, (0, 4), 2, 500)
    >>> value([half], []), value([half], [Placement(0, 4, "half")])
    (1000.0, 500.0)
    """
    if not profiles:
        return 0.0
    weights = {profile.name: (wanted or {}).get(profile.name, 0.0 if wanted else 1.0) for profile in profiles}
    all_weights = sum(weights.values())
    if not all_weights:
        return value(profiles, taken)
    pieces = (weights[p.name] * p.gpu_milli * most(profiles, taken, p) for p in profiles)
    return sum(pieces) / all_weights


def best_cut(
    profiles: Sequence[PartitionProfile],
    taken: Iterable[Placement],
    name: str,
    wanted: Mapping[str, float] | None = None,
) -> tuple[Placement, float] | None:
    """Where to cut a partition of that profile and how much value is lost by it; None where there is no place.

    Among equal losses the highest start is taken: the low places are those with the most profiles on known boards.
    """
    beside = tuple(taken)
    before = value(profiles, beside, wanted)
    open_places = [place for place in free_placements(profiles, beside) if place.profile == name]
    losses = [(round(before - value(profiles, (*beside, p), wanted), 6), -p.start, p) for p in open_places]
    if not losses:
        return None
    lost, _, place = min(losses)
    return place, lost


def best_card(
    cards: Sequence[tuple[Sequence[PartitionProfile], Sequence[Placement]]],
    name: str,
    wanted: Mapping[str, float] | None = None,
) -> tuple[int, Placement] | None:
    """Of several cards (their profiles, what is taken) the one whose best cut loses least, the first of equals; its
    number and the place.
    """
    cuts = [(number, best_cut(profiles, taken, name, wanted)) for number, (profiles, taken) in enumerate(cards)]
    found = [(cut[1], number, cut[0]) for number, cut in cuts if cut is not None]
    if not found:
        return None
    _, number, place = min(found)
    return number, place
