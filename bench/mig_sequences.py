"""Many short sequences of claims to partitions, each with a mix of its own that no rule knows.

The rules: ours without any knowledge of the demand (every profile counts alike), first fit, fixed
geometries as HAMi up to 2.9 has them, and the slot that blocks least: for each profile that the free memory
would hold, the size of every place of it that is not free. That a greedy choice by the growth of such a score
accepts more claims is the finding of "An Online Fragmentation-Aware GPU Scheduler for Multi-Tenant MIG-based
Clouds" (arXiv 2511.18906, abstract). The score is ours: the paper's formula was not at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from bench.mig_streams import (
    PROFILES,
    FixedGeometries,
    Layouts,
    Place,
    Rule,
    StreamResult,
    place_first_fit,
    play_claims,
)
from gpupool.model.partition import PartitionSlot, list_free_slots
from gpupool.scheduling.filtering.partition_fit import choose_slot

CARDS = 4
CLAIMS = 60
SEED = 42
#: Memory units of a card.
UNITS = 8

Layout = tuple[PartitionSlot, ...]


@dataclass
class RuleTotals:
    """What the sequences came to under one rule.

    Attributes:
        accepted: claims that found a slot.
        fragmented: claims that found none although a card had the compute free.
        decision_us: sum of the times of all decisions, in microseconds.
        wins: sequences in which ours accepted more than this rule.
        ties: sequences in which both accepted as many.
    """

    claims: int = 0
    accepted: int = 0
    fragmented: int = 0
    decision_us: float = 0.0
    wins: int = 0
    ties: int = 0


def compare_rules(sequences: int) -> dict[str, RuleTotals]:
    """Play sequences under every rule; the same every time. Returns the totals by rule."""
    totals = {name: RuleTotals() for name in RULES}
    for number in range(sequences):
        mix = draw_mix(Random(f"{SEED}-mix-{number}"))
        accepted = {}
        for name, make_rule in RULES.items():
            draw = Random(f"{SEED}-claims-{number}")
            result = play_claims(mix, make_rule(), draw, CLAIMS, CARDS)
            accepted[name] = result.claims - result.refused
            _add_result(totals[name], result)
        for name, count in accepted.items():
            totals[name].wins += accepted[OURS] > count
            totals[name].ties += accepted[OURS] == count
    return totals


def _add_result(totals: RuleTotals, result: StreamResult) -> None:
    totals.claims += result.claims
    totals.accepted += result.claims - result.refused
    totals.fragmented += result.fragmented
    totals.decision_us += sum(result.decision_us)


def draw_mix(draw: Random) -> dict[str, int]:
    """Draw how often each profile is asked for: some of them not at all."""
    while True:
        mix = {profile.name: draw.randint(0, 6) for profile in PROFILES}
        wanted = {name: often for name, often in mix.items() if often}
        if wanted:
            return wanted


def place_least_loss(layouts: Layouts, name: str) -> Place | None:
    """Place a claim where the least compute that could be cut is lost."""
    return _place_cheapest(layouts, name, _choose_least_loss)


def place_least_fragmentation(layouts: Layouts, name: str) -> Place | None:
    """Place a claim where the fragmentation score grows least."""
    return _place_cheapest(layouts, name, _choose_least_fragmentation)


def _place_cheapest(
    layouts: Layouts,
    name: str,
    choose: Callable[[Layout, str], tuple[float, PartitionSlot] | None],
) -> Place | None:
    best: tuple[float, int, PartitionSlot] | None = None
    for number, layout in enumerate(layouts):
        found = choose(tuple(sorted(layout)), name)
        if found is not None and (best is None or found[0] < best[0]):
            best = (found[0], number, found[1])
    return None if best is None else (best[1], best[2])


@lru_cache(1 << 16)
def _choose_least_loss(layout: Layout, name: str) -> tuple[float, PartitionSlot] | None:
    chosen = choose_slot(PROFILES, layout, name)
    return None if chosen is None else (round(chosen[1] * 1000), chosen[0])


@lru_cache(1 << 16)
def _choose_least_fragmentation(layout: Layout, name: str) -> tuple[float, PartitionSlot] | None:
    before = score_fragmentation(layout)
    growths = []
    for slot in list_free_slots(PROFILES, layout):
        if slot.profile == name:
            growths.append((score_fragmentation((*layout, slot)) - before, slot))
    return min(growths, default=None)


def score_fragmentation(layout: Layout) -> int:
    """Return the sizes of places that are not free, of profiles that the free memory would hold."""
    taken = {unit for slot in layout for unit in slot.units}
    score = 0
    for profile in PROFILES:
        if profile.size > UNITS - len(taken):
            continue
        for start in profile.starts:
            if not taken.isdisjoint(range(start, start + profile.size)):
                score += profile.size
    return score


OURS = "ours"
RULES: Mapping[str, Callable[[], Rule]] = {
    OURS: lambda: place_least_loss,
    "first fit": lambda: place_first_fit,
    "fixed geometries": FixedGeometries,
    "least fragmentation": lambda: place_least_fragmentation,
}
