"""Claims that ask for memory of cards out of proportion to their compute, made anew from a seed.

A model that is served holds tens of GiB and little compute; training on a small set the reverse.
The cluster has cards of three sizes. A seed decides how much of the compute each kind of claim asks
for (served models 15 to 45 % of it, shares that compute 15 to 45 %, shares whose memory follows
compute up to 20 %, whole cards the rest) and which sizes they have. Nothing is from a trace; the
sizes are those of open models with 16 bits or 4 bits per weight.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import numpy as np

from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.snapshot.cards import CardTable, HostColumns
from gpupool.simulation.traces.openb import PodList

SEEDS = range(4000, 4004)

GROUPS = (("H100", 64, 8, 80, 128), ("L40S", 48, 4, 48, 64), ("H200", 16, 8, 141, 192))
"""Model, nodes, cards, GiB on each, cores."""

SERVED = ((50, 5), (50, 10), (100, 16), (100, 24), (150, 30), (200, 40), (250, 44), (300, 70))
"""Milli-devices and GiB of models that are served: 7 to 70 milliard weights."""

COMPUTING = ((200, 3), (300, 4), (400, 6), (500, 8), (600, 8), (800, 10))


@dataclass(frozen=True)
class Mix:
    """Parts of the compute asked for."""

    served: float
    computing: float
    following: float
    served_sizes: tuple[tuple[int, int], ...]
    computing_sizes: tuple[tuple[int, int], ...]

    @classmethod
    def drawn(cls, chance: Random) -> "Mix":
        parts = chance.uniform(0.15, 0.45), chance.uniform(0.15, 0.45), chance.uniform(0, 0.2)
        return cls(*parts, tuple(chance.sample(SERVED, 5)), tuple(chance.sample(COMPUTING, 4)))

    def __str__(self) -> str:
        return f"{self.served:.0%} served, {self.computing:.0%} computing, {self.following:.0%} in proportion"


def cluster() -> CardTable:
    """128 nodes in mixed order."""
    groups = [group for group in GROUPS for _ in range(group[1])]
    Random(1).shuffle(groups)
    counts = np.array([count for _, _, count, _, _ in groups])
    node = np.repeat(np.arange(len(groups)), counts)
    memory = np.repeat([size * GIB for *_, size, _ in groups], counts)
    models = tuple(model for model, *_ in GROUPS)
    cpu = np.array([cores * 1000 for *_, cores in groups], dtype=np.int64)
    host = np.full(len(groups), 1024 * GIB, dtype=np.int64)
    return CardTable(
        uuids=tuple(f"card-{n}" for n in range(len(node))),
        models=models,
        nodes=tuple(f"node-{n}" for n in range(len(groups))),
        node_labels=({},) * len(groups),
        model=np.repeat([models.index(model) for model, *_ in groups], counts),
        node=node,
        status=np.zeros(len(node), dtype=np.int64),
        memory_bytes=memory,
        free_milli=np.full(len(node), WHOLE, dtype=np.int64),
        free_bytes=memory.copy(),
        generation=np.ones(len(node), dtype=np.int64),
        hosts=HostColumns(cpu, host, cpu.copy(), host.copy()),
    )


def made(seed: int, cards: CardTable) -> tuple[Mix, PodList]:
    """A list that asks for what the cluster has of compute."""
    chance = Random(seed)
    mix = Mix.drawn(chance)
    claims = list(_claims(mix, chance, WHOLE * len(cards)))
    chance.shuffle(claims)
    shapes = tuple(dict.fromkeys(claims))
    numbers = {shape: number for number, shape in enumerate(shapes)}
    return mix, PodList(
        tuple(f"claim-{n:05}" for n in range(len(claims))),
        shapes,
        np.array([numbers[shape] for shape in claims], dtype=np.int64),
    )


def _claims(mix: Mix, chance: Random, capacity: int) -> Iterator[Shape]:
    whole = 1 - mix.served - mix.computing - mix.following
    parts = (
        (mix.served, _served),
        (mix.computing, _computing),
        (mix.following, _following),
        (whole, _whole),
    )
    for part, draw in parts:
        asked = 0
        while asked < part * capacity:
            shape = draw(mix, chance)
            asked += shape.count * shape.gpu_milli
            yield shape


def _served(mix: Mix, chance: Random) -> Shape:
    milli, size = chance.choice(mix.served_sizes)
    return Shape(milli, size * GIB, cpu_milli=1_000)


def _computing(mix: Mix, chance: Random) -> Shape:
    milli, size = chance.choice(mix.computing_sizes)
    return Shape(milli, size * GIB, cpu_milli=10 * milli)


def _following(mix: Mix, chance: Random) -> Shape:
    return Shape(chance.choice((250, 500)), None, cpu_milli=4_000)


def _whole(mix: Mix, chance: Random) -> Shape:
    count = chance.choice((1, 1, 1, 1, 2, 4))
    return Shape(WHOLE, None, count, cpu_milli=8_000 * count)
