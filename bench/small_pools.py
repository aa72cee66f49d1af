"""Pools of 2 to 10 nodes, and claims of every kind: what a laboratory has, and no published trace.

Everything about a pool is drawn from its number: nodes of 1 to 16 cards of one to four models; 5 to
999 sizes of shares of six distributions; shares beside whole cards; claims that name models;
processors and main memory plenty, scarce or not known; shares that ask for memory of cards; claims
in random order, in runs of equal ones, or sorted. A pool is the same for every seed; the seed draws
the claims and their order.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

import numpy as np

from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.snapshot.cards import CardTable, HostColumns
from gpupool.simulation.traces.openb import PodList

CASES = {"2 and 3 nodes": (2, 3), "5 to 10 nodes": (5, 8, 10)}
"""By name how many nodes its pools have."""

POOLS = 26
"""Of each case."""

FIRST_NUMBER = 7000

MODELS = ("A100", "H100", "L40S", "T4")
MEMORY_GIB = (80, 96, 48, 16)
ASKED_PCT = 130
_MOST_CLAIMS = 4000
_CORES, _HOST_GIB = 12, 64
"""Of a host, per card."""


@dataclass(frozen=True)
class SmallPool:
    """`sizes` and their `weights` are of shares; `whole`, `named` and `served` are parts of claims
    or compute.

    `cores` and `gib` are asked for per whole card, in parts of what a host has of it; 0: hosts are
    not known.
    """

    number: int
    nodes: tuple[tuple[int, int], ...]
    """By node its model and its cards."""
    distribution: str
    sizes: tuple[int, ...]
    weights: tuple[float, ...]
    whole: float
    counts: tuple[int, ...]
    named: float
    cores: float
    gib: float
    skewed: bool
    served: float
    run: int
    """Claims that come in a row are equal: up to so many."""
    order: int


def drawn(number: int) -> SmallPool:
    chance = Random(number)
    nodes = _nodes(chance)
    most = max(cards for _, cards in nodes)
    name = chance.choice(tuple(DISTRIBUTIONS))
    sizes, weights = DISTRIBUTIONS[name](
        chance, chance.choice((5, 7, 9, 12, 20, 40, 80, 150, 300, 600, 999))
    )
    whole = chance.choice((0.0, 0.0, chance.uniform(0.05, 0.7), chance.uniform(0.05, 0.7)))
    models = {model for model, _ in nodes}
    hosts = chance.choice((0.0, 1.0, 1.0))
    return SmallPool(
        number,
        nodes,
        name,
        sizes,
        weights,
        whole,
        tuple(count for count in (1, 1, 1, 2, 4, 8) if count <= most),
        chance.choice((0.0, 0.2, 0.5)) if len(models) > 1 else 0.0,
        hosts * chance.choice((0.4, 0.8, 1.0, 1.25)),
        hosts * chance.choice((0.4, 0.8, 1.0, 1.25)),
        chance.random() < 0.5,
        chance.choice((0.0, 0.0, 0.0, 0.3)),
        chance.choice((1, 1, 1, 8, 40)),
        chance.choice((0, 0, 0, 0, 0, 1, -1)),
    )


def pool(family: SmallPool) -> CardTable:
    counts = np.array([cards for _, cards in family.nodes])
    node = np.repeat(np.arange(len(counts)), counts)
    model = np.repeat([model for model, _ in family.nodes], counts)
    hosts = None
    if family.cores:
        cpu = counts * _CORES * 1000
        memory = counts * _HOST_GIB * GIB
        hosts = HostColumns(cpu, memory, cpu.copy(), memory.copy())
    size = np.array(MEMORY_GIB, dtype=np.int64)[model] * GIB * bool(family.served)
    return CardTable(
        uuids=tuple(f"card-{n}" for n in range(len(node))),
        models=MODELS,
        nodes=tuple(f"node-{n}" for n in range(len(counts))),
        node_labels=({},) * len(counts),
        model=model,
        node=node,
        status=np.zeros(len(node), dtype=np.int64),
        memory_bytes=size,
        free_milli=np.full(len(node), WHOLE, dtype=np.int64),
        free_bytes=size.copy(),
        generation=np.ones(len(node), dtype=np.int64),
        hosts=hosts,
    )


def made(family: SmallPool, seed: int) -> tuple[PodList, list[int]]:
    """Shapes and how often each came, and the order in which they arrive."""
    chance = Random(f"{family.number}/{seed}")
    limit = WHOLE * sum(cards for _, cards in family.nodes) * ASKED_PCT // 100
    claims: list[Shape] = []
    total = 0
    while total < limit and len(claims) < _MOST_CLAIMS:
        shape = _claim(family, chance)
        for _ in range(chance.randint(1, family.run)):
            claims.append(shape)
            total += shape.held_milli * shape.count
    if family.order:
        claims.sort(key=lambda shape: family.order * shape.gpu_milli * shape.count)
    numbers = {shape: number for number, shape in enumerate(dict.fromkeys(claims))}
    of = [numbers[shape] for shape in claims]
    names = tuple(f"claim-{n:06}" for n in range(len(claims)))
    return PodList(names, tuple(numbers), np.array(of, dtype=np.int64)), of


def _nodes(chance: Random) -> tuple[tuple[int, int], ...]:
    cards = chance.choice(((1,), (2,), (4,), (8,), (8,), (8,), (16,), (2, 8), (4, 8)))
    number = chance.choice(sum(CASES.values(), ()))
    models = chance.choice((1, 1, 2, 3, 4))
    return tuple((chance.randrange(models), chance.choice(cards)) for _ in range(number))


def _claim(family: SmallPool, chance: Random) -> Shape:
    mean_whole = sum(family.counts) / len(family.counts)
    weighed = sum(size * weight for size, weight in zip(family.sizes, family.weights, strict=True))
    mean_share = weighed / sum(family.weights) / WHOLE
    often = family.whole / mean_whole
    whole = chance.random() * (often + (1 - family.whole) / mean_share) < often
    milli = WHOLE if whole else chance.choices(family.sizes, family.weights)[0]
    count = chance.choice(family.counts) if whole else 1
    model = _named(family, chance) if chance.random() < family.named else None
    memory: int | None = None if family.served else 0
    if not whole and chance.random() < family.served:
        memory = chance.choice((4, 8, 12, 15)) * GIB
    part = milli * count / WHOLE
    cores = _CORES * part * family.cores * _skew(family, chance)
    gib = _HOST_GIB * part * family.gib * _skew(family, chance)
    return Shape(
        milli,
        memory,
        count,
        model,
        cpu_milli=min(round(cores * 4), _CORES * count * 4) * 250,
        host_bytes=min(round(gib), _HOST_GIB * count) * GIB,
    )


def _skew(family: SmallPool, chance: Random) -> float:
    return chance.choice((0.25, 0.5, 1.0, 2.0)) if family.skewed else 1.0


def _named(family: SmallPool, chance: Random) -> str:
    there = sorted({model for model, _ in family.nodes})
    some = chance.sample(there, chance.choice((1, 1, min(2, len(there)))))
    return "|".join(MODELS[model] for model in sorted(some))


Sizes = tuple[tuple[int, ...], tuple[float, ...]]


def _evenly(chance: Random, number: int) -> Sizes:
    """A few sizes are anywhere, equally often."""
    sizes = sorted(chance.sample(range(1, WHOLE), number))
    return tuple(sizes), (1.0,) * number


def _zipf(chance: Random, number: int) -> Sizes:
    sizes = chance.sample(range(1, WHOLE), number)
    power = chance.choice((0.7, 1.0, 1.5))
    return tuple(sizes), tuple((place + 1) ** -power for place in range(number))


def _around(*means: float) -> Callable[[Random, int], Sizes]:
    """Near these, in parts of a card."""

    def draw(chance: Random, number: int) -> Sizes:
        spread = chance.uniform(0.02, 0.15)
        sizes = {_whole(chance.gauss(chance.choice(means), spread)) for _ in range(number)}
        return tuple(sorted(sizes)), tuple(chance.uniform(0.2, 1) for _ in sizes)

    return draw


def _gamma(chance: Random, number: int) -> Sizes:
    shape = chance.choice((1.0, 2.0, 4.0))
    mean = chance.uniform(0.1, 0.5)
    sizes = [_whole(chance.gammavariate(shape, mean / shape)) for _ in range(number)]
    return tuple(sorted(set(sizes))), tuple(1.0 for _ in set(sizes))


def _lognormal(chance: Random, number: int) -> Sizes:
    median = chance.uniform(-2.5, -0.8)
    sizes = {_whole(chance.lognormvariate(median, chance.uniform(0.4, 1))) for _ in range(number)}
    return tuple(sorted(sizes)), (1.0,) * len(sizes)


def _whole(part: float) -> int:
    """Milli-devices of a share."""
    return min(WHOLE - 1, max(10, round(part * WHOLE)))


DISTRIBUTIONS: dict[str, Callable[[Random, int], Sizes]] = {
    "even": _evenly,
    "zipf": _zipf,
    "two clusters": _around(0.25, 0.7),
    "bimodal": _around(0.1, 0.55),
    "gamma": _gamma,
    "lognormal": _lognormal,
}


def pools(case: str) -> Iterator[SmallPool]:
    """The first POOLS by number that have so many nodes."""
    found = 0
    number = FIRST_NUMBER
    while found < POOLS:
        one = drawn(number)
        number += 1
        if len(one.nodes) in CASES[case]:
            found += 1
            yield one
