"""Clusters and lists of claims for figures of placement: the openb trace where it is, else one made
in its likeness.

What is made has the published proportions of openb's GPU nodes and of its default list (Weng et
al., USENIX ATC 2023), and nothing of its rows: a seed, the groups of nodes, the shares of CPU-only,
shared, single and larger claims.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import numpy as np

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.snapshot.cards import CardTable, HostColumns
from gpupool.simulation.traces.openb import PodList, read_nodes, read_pods

OPENB = Path(os.environ.get("GPUPOOL_OPENB", Path(__file__).parents[2] / "shared/data/openb"))

GROUPS = (
    ("G2", 549, 8, 96),
    ("T4", 387, 2, 104),
    ("P100", 107, 2, 16),
    ("T4", 44, 2, 64),
    ("G3", 39, 8, 128),
    ("T4", 38, 4, 64),
    ("V100M16", 28, 4, 32),
    ("V100M32", 21, 8, 96),
)
"""Model, nodes of 1,213, cards, cores."""

OPENB_NODES = sum(number for _, number, _, _ in GROUPS)

PODS = 8_152
CPU_ONLY, SHARED, SINGLE = 0.133, 0.378, 0.480
"""Parts of the list; what is left asks for two, four or eight cards."""

COMMONEST = Shape(810, 0, cpu_milli=3_150)
COMMONEST_OF_SHARED = 1_047 / (SHARED * PODS)


def is_here() -> bool:
    return (OPENB / "openb_node_list_gpu_node.csv").is_file()


def openb() -> tuple[CardTable, PodList]:
    """The published nodes and the default list."""
    return read_nodes(OPENB / "openb_node_list_gpu_node.csv"), read_pods(
        OPENB / "openb_pod_list_default.csv"
    )


def cluster_like_openb(nodes: int, widest: bool = False) -> CardTable:
    """So many nodes in openb's proportions, groups mixed; `widest`: of those with eight cards
    alone."""
    chosen = [group for group in GROUPS if group[2] == 8 or not widest]
    kinds = [group for group, (_, number, _, _) in enumerate(chosen) for _ in range(number)]
    Random(1).shuffle(kinds)
    rows = [chosen[kinds[n % len(kinds)]] for n in range(nodes)]
    models = tuple(dict.fromkeys(model for model, *_ in GROUPS))
    counts = np.array([cards for _, _, cards, _ in rows])
    node = np.repeat(np.arange(nodes), counts)
    none = np.zeros(len(node), dtype=np.int64)
    cpu = np.array([cores * 1000 for *_, cores in rows], dtype=np.int64)
    memory = np.full(nodes, 512 * GIB, dtype=np.int64)
    return CardTable(
        uuids=tuple(f"card-{n}" for n in range(len(node))),
        models=models,
        nodes=tuple(f"node-{n}" for n in range(nodes)),
        node_labels=({},) * nodes,
        model=np.repeat([models.index(model) for model, *_ in rows], counts),
        node=node,
        status=none,
        memory_bytes=none,
        free_milli=none + 1000,
        free_bytes=none.copy(),
        generation=none + 1,
        hosts=HostColumns(cpu, memory, cpu.copy(), memory.copy()),
    )


def list_like_openb(pods: int = PODS, seed: int = 1) -> PodList:
    """A list of so many claims."""
    chance = Random(seed)
    made = [_claim(chance) for _ in range(pods)]
    shapes = tuple(dict.fromkeys(made))
    numbers = {shape: number for number, shape in enumerate(shapes)}
    of = np.array([numbers[shape] for shape in made], dtype=np.int64)
    return PodList(tuple(f"pod-{n:06}" for n in range(pods)), shapes, of)


def _claim(chance: Random) -> Shape:
    kind = chance.random()
    if kind < CPU_ONLY:
        return Shape(0, 0, 0, cpu_milli=chance.choice((2_000, 4_000, 8_000, 16_000, 32_000)))
    if kind < CPU_ONLY + SHARED:
        if chance.random() < COMMONEST_OF_SHARED:
            return COMMONEST
        milli = chance.choice((50, 100, 190, 200, 250, 300, 450, 460, 500, 650, 710, 950))
        return Shape(milli, 0, cpu_milli=chance.choice((1_000, 2_000, 4_000, 6_000, 8_000)))
    if kind < CPU_ONLY + SHARED + SINGLE:
        return Shape(
            1_000, 0, cpu_milli=chance.choice((4_000, 6_000, 8_000, 10_000, 11_900, 12_000, 16_000))
        )
    count = chance.choice((2, 2, 4, 8, 8))
    return Shape(1_000, 0, count, cpu_milli=count * chance.choice((4_000, 8_000, 11_000)))
