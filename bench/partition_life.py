"""A stream of claims to partitions of a few cards, placed by the scheduler's rule or by the lowest
free place.

Arrivals are Poisson, lifetimes exponential with a mean of 1; `LOAD` of the cards' compute is asked
for, so that some claims find no place and are lost. Same seed, same claims, whatever the rule. The
rule is asked through the scheduler's own ranking, which knows how often each profile is asked for;
first-fit takes the first card and on it the lowest start.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random

import numpy as np

from gpupool.model.claim import Shape
from gpupool.model.partition import PartitionProfile, PartitionSlot, list_free_slots
from gpupool.probes.mig_tables import list_mig_profiles
from gpupool.scheduling.filtering.feasibility import FITS
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.partitions import PartitionRater
from gpupool.scheduling.scoring.ranking import NodeRanking
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.simulation.replay.world import build_card_table
from gpupool.simulation.traces.nodes import read_nodes

MODEL = "H200"
CARDS = 8
LOAD = 1.15
MIXES: Mapping[str, Mapping[str, int]] = {
    "all alike": {
        "1g.18gb": 1,
        "1g.35gb": 1,
        "2g.35gb": 1,
        "3g.71gb": 1,
        "4g.71gb": 1,
        "7g.141gb": 1,
    },
    "mostly small": {"1g.18gb": 6, "2g.35gb": 3, "3g.71gb": 2, "4g.71gb": 1},
    "mostly large": {"1g.18gb": 2, "3g.71gb": 2, "4g.71gb": 2, "7g.141gb": 1},
    "1, 2 and 4 slices": {"1g.18gb": 4, "2g.35gb": 2, "4g.71gb": 2},
}
"""How often each profile is asked for."""


class Rule(StrEnum):
    BEST = "best cut"
    FIRST_FIT = "first fit"


@dataclass(frozen=True)
class Accepted:
    """Claims that came and that found a place, and the compute-time of those (milli-devices times
    mean lifetimes)."""

    came: int
    placed: int
    milli_lives: float


def accepted(mix: str, rule: Rule, seed: int, claims: int = 2000) -> Accepted:
    asked = MIXES[mix]
    free = FreeCapacity(build_card_table(read_nodes(f"{CARDS}x1x{MODEL}:mig")))
    profiles = {profile.name: profile for profile in list_mig_profiles(MODEL)}
    shapes = {name: Shape(profiles[name].gpu_milli, profile=name) for name in asked}
    cuts = PartitionRater(
        free, ExpectedDemand(tuple(shapes.values()), tuple(float(asked[name]) for name in shapes))
    )
    rankings = {name: NodeRanking(shape, free, cuts) for name, shape in shapes.items()}
    draw, ends, placed, worth, at = (
        Random(seed),
        list[tuple[float, int, int, PartitionSlot]](),
        0,
        0.0,
        0.0,
    )
    for number in range(claims):
        at += draw.expovariate(LOAD * CARDS * 1000 / _mean_milli(asked, profiles))
        name, lasts = draw.choices(list(asked), list(asked.values()))[0], draw.expovariate(1.0)
        while ends and ends[0][0] <= at:
            _, _, row, piece = heapq.heappop(ends)
            _change(free, row, profiles[piece.profile], piece, free.release_seats)
        found = (
            _best(free, rankings[name], cuts) if rule is Rule.BEST else _first(free, rankings[name])
        )
        if found is not None:
            _change(free, found[0], profiles[name], found[1], free.take_seats)
            heapq.heappush(ends, (at + lasts, number, *found))
            placed, worth = placed + 1, worth + lasts * profiles[name].gpu_milli
    return Accepted(claims, placed, worth)


def _mean_milli(asked: Mapping[str, int], profiles: Mapping[str, PartitionProfile]) -> float:
    return sum(profiles[name].gpu_milli * often for name, often in asked.items()) / sum(
        asked.values()
    )


def _best(
    free: FreeCapacity, ranking: NodeRanking, cuts: PartitionRater
) -> tuple[int, PartitionSlot] | None:
    node = ranking.find_best()
    if node is None:
        return None
    rows = ranking.order_cards(node)[:1]
    return int(rows[0]), cuts.choose_slots(ranking.fit.shape.profile or "", rows)[0]


def _first(free: FreeCapacity, ranking: NodeRanking) -> tuple[int, PartitionSlot] | None:
    rows = np.flatnonzero(ranking.fit.refresh(free).why == FITS)
    if len(rows) == 0:
        return None
    cut = free.layouts[int(rows[0])]
    places = list_free_slots(cut.profiles, cut.slots)
    return int(rows[0]), next(
        place for place in places if place.profile == ranking.fit.shape.profile
    )


def _change(
    free: FreeCapacity, row: int, profile: PartitionProfile, piece: PartitionSlot, change: object
) -> None:
    rows, sizes = np.array([row]), np.array([profile.memory_bytes])
    change(int(free.cards.node[row]), rows, profile.gpu_milli, sizes, places=(piece,))  # type: ignore[operator]
