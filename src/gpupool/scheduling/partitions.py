"""Which cut of a card to take for a partition: the one that leaves the most useful places.

Cards publish profiles and placements (`model/partition`); this compares what could still be cut afterwards. It knows
geometry and how much each profile is wanted, not how a partition is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpupool.model.partition import PartitionProfile, Placement, fits, free_placements


def most(profiles: Sequence[PartitionProfile], taken: Sequence[Placement], profile: PartitionProfile) -> int:
    """How many of one profile could be cut beside `taken`, all at once.

    Pieces of one size on a row: taking each as low as it goes is the best that can be done.
    """
    standing = list(taken)
    for start in sorted(profile.starts):
        wanted = Placement(start, profile.size, profile.name)
        if fits(profiles, standing, wanted):
            standing.append(wanted)
    return len(standing) - len(taken)


def value(
    profiles: Sequence[PartitionProfile], taken: Sequence[Placement], wanted: Mapping[str, float] | None = None
) -> float:
    """Milli-devices that could still be cut, averaged over the profiles by how much each is `wanted` (None: alike).

    >>> half = PartitionProfile("half", 4, 0, (0, 4), 2, 500)
    >>> value([half], []), value([half], [Placement(0, 4, "half")])
    (1000.0, 500.0)
    """
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
    losses = [(before - value(profiles, (*beside, place), wanted), -place.start, place) for place in open_places]
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
