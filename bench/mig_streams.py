"""Streams of claims to partitions of eight cards under three rules, and layouts of one card.

The rules: ours (the slot that loses least, over all cards), first fit (first card, lowest start), and
fixed geometries as HAMi up to 2.9 has them: an empty card gets the first of four geometries that has a piece for
the claim, and keeps it until it is empty; a claim takes the smallest piece that is large enough. The
peers' code is not run: their rules are written down here from their configuration and source.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from bench.partition_life import CARDS, LOAD, MIXES, MODEL
from gpupool.model.partition import (
    PartitionProfile,
    PartitionSlot,
    can_add_slot,
    find_open_slot,
    list_free_slots,
    list_slots,
)
from gpupool.probes.mig_tables import list_mig_profiles
from gpupool.scheduling.filtering.partition_fit import choose_slot

PROFILES = tuple(profile for profile in list_mig_profiles(MODEL) if profile.is_plain)
BY_NAME = {profile.name: profile for profile in PROFILES}
#: `knownMigGeometries` of HAMi up to 2.9 for boards of seven slices (charts/hami, device-configmap), with the
#: names of this board: geometry by geometry, the pieces of each.
GEOMETRIES: tuple[tuple[str, ...], ...] = (
    ("1g.18gb",) * 7,
    ("2g.35gb", "2g.35gb", "2g.35gb", "1g.18gb"),
    ("3g.71gb", "3g.71gb"),
    ("7g.141gb",),
)

Place = tuple[int, PartitionSlot]
Layouts = list[list[PartitionSlot]]
Rule = Callable[[Layouts, str], Place | None]


@dataclass
class StreamResult:
    """Claims, those without a place, and those without one although a card had the compute free."""

    claims: int = 0
    refused: int = 0
    fragmented: int = 0
    milli_lives: float = 0.0
    decision_us: list[float] = field(default_factory=list)


class LeastLoss:
    """Our rule; the loss of a layout is computed once, as the scheduler does."""

    def __init__(self, mix: str) -> None:
        self._wanted = {name: 0.01 + often for name, often in MIXES[mix].items()}
        self._known: dict[
            tuple[tuple[PartitionSlot, ...], str], tuple[float, PartitionSlot] | None
        ] = {}

    def __call__(self, layouts: Layouts, name: str) -> Place | None:
        best: tuple[float, int, PartitionSlot] | None = None
        for number, layout in enumerate(layouts):
            found = self._choose(tuple(sorted(layout)), name)
            if found is not None and (best is None or found[0] < best[0]):
                best = (found[0], number, found[1])
        return None if best is None else (best[1], best[2])

    def _choose(
        self, layout: tuple[PartitionSlot, ...], name: str
    ) -> tuple[float, PartitionSlot] | None:
        key = layout, name
        if key not in self._known:
            chosen = choose_slot(PROFILES, layout, name, self._wanted)
            self._known[key] = None if chosen is None else (round(chosen[1] * 1000), chosen[0])
        return self._known[key]


def place_first_fit(layouts: Layouts, name: str) -> Place | None:
    """Place a claim on the first card that has a slot, at the lowest start."""
    for number, layout in enumerate(layouts):
        for slot in list_free_slots(PROFILES, layout):
            if slot.profile == name:
                return number, slot
    return None


class FixedGeometries:
    """HAMi's rule: a card keeps the geometry that its first claim needed until it is empty."""

    def __init__(self) -> None:
        self._pieces: dict[int, tuple[str, ...]] = {}

    def __call__(self, layouts: Layouts, name: str) -> Place | None:
        for number, layout in enumerate(layouts):
            piece = self._find_piece(number, layout, name)
            if piece is not None:
                # Slots are not modelled: the piece's position in its geometry stands for its start.
                return number, PartitionSlot(piece, 1, name)
        return None

    def _find_piece(self, number: int, layout: Sequence[PartitionSlot], name: str) -> int | None:
        taken = {slot.start for slot in layout}
        candidates = GEOMETRIES if not layout else (self._pieces[number],)
        for pieces in candidates:
            open_pieces = [at for at in range(len(pieces)) if at not in taken]
            large = [at for at in open_pieces if _is_large_enough(pieces[at], name)]
            if large:
                self._pieces[number] = pieces
                return min(large, key=lambda at: BY_NAME[pieces[at]].gpu_milli)
        return None


def _is_large_enough(piece: str, wanted: str) -> bool:
    has = BY_NAME[piece]
    asks = BY_NAME[wanted]
    return has.memory_bytes >= asks.memory_bytes and has.gpu_milli >= asks.gpu_milli


def run_stream(mix: str, rule: Rule, seed: int, claims: int = 2000) -> StreamResult:
    """Play a stream; the same seed gives the same claims under every rule."""
    return play_claims(MIXES[mix], rule, Random(seed), claims, CARDS)


def play_claims(
    often: Mapping[str, int], rule: Rule, draw: Random, claims: int, cards: int
) -> StreamResult:
    """Play claims to empty cards.

    Args:
        often: how often each profile is asked for.
        draw: where arrivals, profiles and lifetimes come from.
    """
    layouts: Layouts = [[] for _ in range(cards)]
    ends = list[tuple[float, int, int, PartitionSlot]]()
    result = StreamResult()
    now = 0.0
    mean = sum(BY_NAME[name].gpu_milli * n for name, n in often.items()) / sum(often.values())
    for number in range(claims):
        now += draw.expovariate(LOAD * cards * 1000 / mean)
        name = draw.choices(list(often), list(often.values()))[0]
        lasts = draw.expovariate(1.0)
        while ends and ends[0][0] <= now:
            _, _, card, slot = heapq.heappop(ends)
            layouts[card].remove(slot)
        started = time.perf_counter_ns()
        place = rule(layouts, name)
        result.decision_us.append((time.perf_counter_ns() - started) / 1000)
        result.claims += 1
        milli = BY_NAME[name].gpu_milli
        if place is None:
            result.refused += 1
            result.fragmented += any(_free_milli(layout) >= milli for layout in layouts)
            continue
        layouts[place[0]].append(place[1])
        heapq.heappush(ends, (now + lasts, number, *place))
        result.milli_lives += lasts * milli
    return result


def _free_milli(layout: Sequence[PartitionSlot]) -> int:
    return 1000 - sum(BY_NAME[slot.profile].gpu_milli for slot in layout)


def list_mixes() -> list[tuple[str, ...]]:
    """Return every mix of profiles that one card can hold."""
    slots = list_slots(PROFILES)
    mixes = set[tuple[str, ...]]()

    def extend(chosen: tuple[PartitionSlot, ...], first: int) -> None:
        mixes.add(tuple(sorted(slot.profile for slot in chosen)))
        for position in range(first, len(slots)):
            if can_add_slot(PROFILES, chosen, slots[position]):
                extend((*chosen, slots[position]), position + 1)

    extend((), 0)
    return sorted(mixes)


def count_calls_of_orderings(mix: Sequence[str]) -> int:
    """Return the create calls until a mix stands, as mig-parted makes it: every ordering is tried,
    without a placement, on a card that is cleared before each; the driver takes the lowest start.
    """
    calls = 0
    for order in dict.fromkeys(itertools.permutations(mix)):
        layout = list[PartitionSlot]()
        for name in order:
            calls += 1
            open_slots = [s for s in list_free_slots(PROFILES, layout) if s.profile == name]
            if not open_slots:
                break
            layout.append(open_slots[0])
        if len(layout) == len(mix):
            return calls
    raise AssertionError(f"no ordering makes {mix}")


def count_calls_with_placement(mix: Sequence[str]) -> int:
    """Return the create calls until a mix stands when each names its slot, largest first."""
    layout = list[PartitionSlot]()
    for name in sorted(mix, key=_measure_profile, reverse=True):
        slot = find_open_slot(PROFILES, layout, name)
        if slot is None:
            raise AssertionError(f"no slot for {name} of {mix}")
        layout.append(slot)
    return len(layout)


def _measure_profile(name: str) -> tuple[int, int]:
    profile: PartitionProfile = BY_NAME[name]
    return profile.size, profile.gpu_milli
