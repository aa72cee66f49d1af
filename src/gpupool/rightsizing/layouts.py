"""Finds the MIG layout of a model's cards that families need: the most of each profile at one time.

It asks the planner of `gpupool mig plan` for empty cards, so the answer is what a pool would be cut
into, not what must change now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpupool.model.partition import PartitionProfile, format_mix
from gpupool.rightsizing.runs import MeasuredRun
from gpupool.scheduling.rebalancing.partition_layout import PartitionedCard, plan_layout

#: Cards of one model that a layout is planned for; the plan of as many takes about a second.
MOST_CARDS = 128


@dataclass(frozen=True)
class CardMix:
    """A number of cards that are cut alike; an empty mix leaves them whole."""

    mix: str
    cards: int


@dataclass(frozen=True)
class LayoutAdvice:
    """What the cards of a model are cut into.

    Attributes:
        demand: partitions that are in use at one time, by profile.
        mixes: the cards by their cut, those that are used most in front.
        missing: what no card is left for.
        is_exact: whether no better plan exists.
    """

    demand: Mapping[str, int]
    mixes: tuple[CardMix, ...]
    missing: Mapping[str, int]
    is_exact: bool

    @property
    def cards(self) -> int:
        """Return how many cards the demand takes."""
        return sum(mix.cards for mix in self.mixes)


def count_peaks(runs: Iterable[tuple[str, MeasuredRun]]) -> dict[str, int]:
    """Count by profile the most partitions that runs held at one time.

    A layout stays over the time, so each profile is counted by itself.

    Args:
        runs: with the profile that each would have; one partition on each of its cards.
    """
    changes = list[tuple[int, int, str]]()
    for profile, run in runs:
        # Ends sort before begins: what one run frees the next one uses.
        changes.append((run.end_s, -run.share.cards, profile))
        changes.append((run.start_s, run.share.cards, profile))
    held = Counter[str]()
    peaks = Counter[str]()
    for _, cards, profile in sorted(changes):
        held[profile] += cards
        peaks[profile] = max(peaks[profile], held[profile])
    return dict(sorted(peaks.items()))


def plan_cards(
    profiles: Sequence[PartitionProfile], cards: int, demand: Mapping[str, int]
) -> LayoutAdvice:
    """Plan a demand on so many empty cards of one model, on as few of them as possible."""
    empty = [
        PartitionedCard(f"{number:04}", tuple(profiles)) for number in range(min(cards, MOST_CARDS))
    ]
    found = plan_layout(empty, demand)
    mixes = Counter(format_mix(slots) for slots in found.added.values() if slots)
    ordered = sorted(mixes.items(), key=lambda one: (-one[1], one[0]))
    return LayoutAdvice(
        dict(demand),
        tuple(CardMix(mix, count) for mix, count in ordered),
        dict(found.missing),
        found.is_exact,
    )
