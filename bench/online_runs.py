"""One run of one policy for the bench `online`: by family and case, with what the policy may know.

Every run gives percent of the pool's compute that lay idle, by what had arrived of it (`100`,
`130`, ...) or as the mean of a life (`life`), and of the claims of eight cards how many were
`lost`, `of` how many.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from statistics import fmean

from bench import churn, memory_mixes, size_families, small_pools
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.simulation.replay.demand_levels import DemandLevel
from gpupool.simulation.replay.foreknowledge import Foreknowledge
from gpupool.simulation.replay.parallel import TellProgress
from gpupool.simulation.replay.protocol import (
    count_pods,
    draw_arrivals,
    fill_nodes,
    simulate_policy,
)
from gpupool.simulation.traces.openb import PodList, read_nodes, read_pods

LEVELS = (95, 100, 130)
CHURN_NODES = 300

Figures = Mapping[str, float]


@dataclass(frozen=True)
class Run:
    """`name` says which case of the family; what it means is the family's."""

    folder: Path
    family: str
    name: str
    policy: str
    knowledge: str
    seed: int


def run(one: Run, _tell: TellProgress) -> tuple[Run, Figures]:
    return one, FAMILIES[one.family](one)


def _published(one: Run) -> Figures:
    return _filled(_nodes(one.folder), read_pods(_list(one.folder, one.name)), one)


def _mixed(one: Run) -> Figures:
    """A list that was written before; its name is its path."""
    return _filled(_nodes(one.folder), read_pods(Path(one.name)), one)


def _by_memory(one: Run) -> Figures:
    cards = memory_mixes.cluster()
    return _filled(cards, memory_mixes.made(int(one.name), cards)[1], one)


def _filled(cards: CardTable, pods: PodList, one: Run) -> Figures:
    return _idle(simulate_policy(cards, pods, one.policy, one.seed, knowledge=one.knowledge).levels)


def _shifted(one: Run) -> Figures:
    """`MIX after OTHER`: the memory is full of the other list's claims before the first one
    comes."""
    name, before = one.name.split(" after ")
    cards, pods = _nodes(one.folder), read_pods(_list(one.folder, name))
    other = read_pods(_list(one.folder, before))
    chance = Random(one.seed)
    free = FreeCapacity(cards)
    capacity = int(free.milli.sum())
    known = Foreknowledge(one.knowledge, count_pods(pods), capacity)
    for number in draw_arrivals(other, capacity, chance):
        known.note_arrival(other.shapes[number])
    return _idle(
        fill_nodes(free, pods, one.policy, one.seed, draw_arrivals(pods, capacity, chance), known)
    )


def _of_sizes(one: Run) -> Figures:
    (family,) = (family for family in size_families.families() if family.name == one.name)
    free = FreeCapacity(size_families.pool(family))
    pods, arriving = size_families.made(family, one.seed)
    known = Foreknowledge(one.knowledge, count_pods(pods), int(free.milli.sum()))
    return _idle(fill_nodes(free, pods, one.policy, one.seed, arriving, known))


def _of_small(one: Run) -> Figures:
    """The mean of all pools of a case: what chance does to one of them is many points."""
    found = [_small(pool, one) for pool in small_pools.pools(one.name)]
    return {level: fmean(figures[level] for figures in found) for level in found[0]}


def _small(pool: small_pools.SmallPool, one: Run) -> Figures:
    """Claims may be so large that none ends at a level: what had arrived below it counts."""
    free = FreeCapacity(small_pools.pool(pool))
    pods, arriving = small_pools.made(pool, one.seed)
    known = Foreknowledge(one.knowledge, count_pods(pods), int(free.milli.sum()))
    levels = fill_nodes(free, pods, one.policy, one.seed, arriving, known)
    figures: dict[str, float] = {}
    for limit in LEVELS:
        below = [level for level in levels if level.arrived_pct <= limit]
        figures[str(limit)] = 100 - below[-1].allocation_pct if below else 100.0
    return figures


def _lived(one: Run) -> Figures:
    """`LIST at LOAD`, on nodes of openb that the seed draws."""
    name, load = one.name.split(" at ")
    cards = churn.some_nodes(_nodes(one.folder), CHURN_NODES, one.seed)
    pods = read_pods(_list(one.folder, name))
    life = churn.live(cards, pods, one.policy, float(load), one.seed, one.knowledge)
    return {
        "life": 100 - life.allocation_pct,
        "lost": float(life.large - life.large_placed),
        "of": float(life.large),
    }


def _idle(levels: Sequence[DemandLevel]) -> Figures:
    """Raises LookupError where a level was not reached; the last one stands for 130."""
    by_level = {level.arrived_pct: 100 - level.allocation_pct for level in levels}
    by_level[LEVELS[-1]] = 100 - levels[-1].allocation_pct
    return {str(level): by_level[level] for level in LEVELS}


@lru_cache(maxsize=1)
def _nodes(folder: Path) -> CardTable:
    return read_nodes(folder / "openb_node_list_gpu_node.csv")


def _list(folder: Path, name: str) -> Path:
    return folder / f"openb_pod_list_{name}.csv"


FAMILIES: Mapping[str, Callable[[Run], Figures]] = {
    "lists": _published,
    "mixes": _mixed,
    "memory": _by_memory,
    "shifting": _shifted,
    "sizes": _of_sizes,
    "small": _of_small,
    "departures": _lived,
}
