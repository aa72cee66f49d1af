"""For the placement kernel's tests: pools made by chance, and its rules in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpupool.scheduling.filtering.native_raters import NativeClasses, NativeColumns, NativeShape
from gpupool.scheduling.filtering.native_structs import CardGrid

NO_CARD = -(1 << 62)


@dataclass(frozen=True)
class Pool:
    """Columns with plain classes, and a fit in which every card may be taken."""

    columns: NativeColumns
    classes: NativeClasses
    why: np.ndarray

    def asked(self, count: int, milli: int, cpu: int) -> NativeShape:
        return NativeShape(count, milli, cpu, self.why)

    def feasible(self, asked: NativeShape) -> np.ndarray:
        """The nodes that can take it."""
        fitting = self.columns.grid.grid >= max(asked.milli, 0)
        return np.flatnonzero(
            (fitting.sum(axis=1) >= asked.count) & (self.columns.cpu >= asked.cpu)
        )


def pool_by_chance(
    seed: int, nodes: int = 40, width: int = 8, kinds: int = 3, classes: int = 12
) -> Pool:
    chance = np.random.default_rng(seed)
    sizes, likely = (
        (NO_CARD, 0, 70, 190, 310, 530, 820, 1000),
        (0.08, 0.2, 0.02, 0.15, 0.1, 0.1, 0.1, 0.25),
    )
    grid = chance.choice(sizes, size=(nodes, width), p=likely).astype(np.int64)
    count = chance.choice((0, 1, 1, 1, 1, 2, 3, width), size=classes)
    milli = np.where(
        count == 0, 0, chance.choice((100, 190, 300, 500, 810, 1000, 1000), size=classes)
    )
    return Pool(
        NativeColumns(
            CardGrid(grid, np.arange(nodes * width).reshape(nodes, width), np.full(nodes, width)),
            chance.integers(0, 60_000, size=nodes),
            chance.integers(0, kinds, size=nodes),
            kinds,
        ),
        NativeClasses(
            count.astype(np.int64),
            milli.astype(np.int64),
            chance.integers(0, 16_001, size=classes),
            chance.choice((0, 1, 1, 1), size=(classes, kinds)).astype(np.uint8),
        ),
        np.zeros(nodes * width, dtype=np.int8),
    )


def plain_value(pool: Pool, streams: Sequence[Sequence[int]], quantum: int, node: int) -> int:
    """V as docs/decisions/0006 tells it, in as few words as possible: milli-devices added up over
    the streams."""
    classes, placed = pool.classes, 0
    for stream in streams:
        cards = sorted(int(left) for left in pool.columns.grid.grid[node] if left > 0)
        cpu = int(pool.columns.cpu[node]) // quantum
        for number in stream:
            count, milli = int(classes.count[number]), int(classes.milli[number])
            asked = -(-int(classes.cpu[number]) // quantum)
            fitting = [at for at, left in enumerate(cards) if left >= milli]
            if (
                not count
                or not classes.allowed[number, pool.columns.kind[node]]
                or len(fitting) < count
                or asked > cpu
            ):
                continue
            for at in fitting[:count]:
                cards[at] -= milli
            cards, cpu, placed = sorted(cards), cpu - asked, placed + count * milli
    return placed


def plain_fragment(
    pool: Pool, weight: Sequence[int], cards: Sequence[int], cpu: int, kind: int
) -> int:
    """F of a node times the sum of the weights, as the paper has it."""
    left = [size for size in cards if size > 0]
    total = 0
    for number, times in enumerate(weight):
        count, milli = int(pool.classes.count[number]), int(pool.classes.milli[number])
        runs = count > 0 and pool.classes.allowed[number, kind] and cpu >= pool.classes.cpu[number]
        if runs and sum(size >= milli for size in left) >= count:
            total += times * sum(size for size in left if size < milli)
        else:
            total += times * sum(left)
    return total
