"""Pools of one kind of node, and lists of claims of many sizes: what no published trace has, and
users do.

Claims are drawn one by one by a seed until `ASKED_PCT` of the pool's compute has been asked for. A
family decides what they ask for; two are in order of their sizes, from the smallest up and from the
largest down, which no random order resembles.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

import numpy as np

from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.snapshot.cards import CardTable, HostColumns
from gpupool.simulation.traces.openb import PodList

NODES, CARDS = 100, 8
ASKED_PCT = 130
MODELS = ("A100", "H100", "L40S")

Draw = Callable[[Random], Shape]


@dataclass(frozen=True)
class Family:
    """`memory_gib` of a host; 0: nothing is known of hosts. `order`: of sizes, 0 for none."""

    name: str
    draw: Draw
    models: tuple[str, ...] = MODELS[:1]
    cores: int = 0
    memory_gib: int = 0
    order: int = 0


def families() -> Iterator[Family]:
    """Those of the issue."""
    for step in (100, 50, 10, 5, 1):
        yield Family(f"step {step} ({len(range(step, WHOLE, step))} sizes)", _uniform(step))
    yield Family("694 sizes", _uniform(1, 153, 847))
    yield Family("815 sizes", _uniform(1, 93, 908))
    yield Family("70 % step 1, cards", _with_cards)
    yield Family("lognormal", _lognormal)
    yield Family("sorted up", _uniform(10), order=1)
    yield Family("sorted down", _uniform(10), order=-1)
    yield Family("three models", _of_models, models=MODELS)
    yield Family("host memory skew", _hungry(64), cores=96, memory_gib=512)
    yield Family("both scarce", _hungry(48, 9), cores=96, memory_gib=512)


def pool(family: Family) -> CardTable:
    """Nodes in turn of each model."""
    node = np.repeat(np.arange(NODES), CARDS)
    none = np.zeros(len(node), dtype=np.int64)
    hosts = None
    if family.memory_gib:
        cpu = np.full(NODES, family.cores * 1000, dtype=np.int64)
        memory = np.full(NODES, family.memory_gib * GIB, dtype=np.int64)
        hosts = HostColumns(cpu, memory, cpu.copy(), memory.copy())
    return CardTable(
        uuids=tuple(f"card-{n}" for n in range(len(node))),
        models=family.models,
        nodes=tuple(f"node-{n}" for n in range(NODES)),
        node_labels=({},) * NODES,
        model=node % len(family.models),
        node=node,
        status=none,
        memory_bytes=none.copy(),
        free_milli=none + WHOLE,
        free_bytes=none.copy(),
        generation=none + 1,
        hosts=hosts,
    )


def made(family: Family, seed: int) -> tuple[PodList, list[int]]:
    """Shapes and how often each came, and the order in which they arrive."""
    chance = Random(seed)
    limit = NODES * CARDS * WHOLE * ASKED_PCT // 100
    drawn: list[Shape] = []
    total = 0
    while total < limit:
        drawn.append(family.draw(chance))
        total += drawn[-1].held_milli * drawn[-1].count
    if family.order:
        drawn.sort(key=lambda shape: family.order * shape.gpu_milli)
    numbers = {shape: number for number, shape in enumerate(dict.fromkeys(drawn))}
    of = [numbers[shape] for shape in drawn]
    names = tuple(f"claim-{n:06}" for n in range(len(drawn)))
    return PodList(names, tuple(numbers), np.array(of, dtype=np.int64)), of


def _uniform(step: int, least: int = 0, most: int = WHOLE) -> Draw:
    return lambda chance: Shape(chance.randrange(least or step, most, step), 0)


def _with_cards(chance: Random) -> Shape:
    if chance.random() < 0.7:
        return Shape(chance.randrange(1, WHOLE), 0)
    return Shape(WHOLE, 0, chance.choice((1, 1, 1, 2, 4, 8)))


def _lognormal(chance: Random) -> Shape:
    """Most are small, of a median of 150."""
    return Shape(min(WHOLE, max(1, round(chance.lognormvariate(5.0, 0.9)))), 0)


def _of_models(chance: Random) -> Shape:
    """A third names one model, a sixth two of them; shares and cards."""
    milli = chance.choice((200, 300, 470, 500, 810, WHOLE))
    count = chance.choice((1, 1, 2, 4)) if milli == WHOLE else 1
    named = chance.choice((None, None, None, "A100", "H100", "A100|L40S"))
    return Shape(milli, 0, count, named)


def _hungry(large_gib: int, cores: int = 4) -> Draw:
    """Half of the claims hold much of the host's memory, half hardly any."""

    def draw(chance: Random) -> Shape:
        milli = chance.choice((250, 500, 750, WHOLE))
        part = milli / WHOLE
        gib = large_gib * 2 if chance.random() < 0.5 else 4
        return Shape(
            milli, 0, cpu_milli=round(cores * 1000 * part), host_bytes=round(gib * part) * GIB
        )

    return draw
