"""Placement alone, on one core: FGD and ours in NumPy and compiled, and how a decision grows with
nodes and queue.

The list is openb's default one with the paper's protocol where the trace is there (GPUPOOL_OPENB),
else one made in its likeness. Others' figures are published ones, of whole schedulers with their
API servers; they stand beside ours as what people know.
"""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np

from bench.placement_lists import OPENB_NODES, cluster_like_openb, is_here, list_like_openb, openb
from bench.rows import Row
from gpupool.model.claim import Shape
from gpupool.model.quota import Quota, ResourceAmount
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.filtering import native_library
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.ranking import NodeRankings
from gpupool.scheduling.scoring.registry import DEFAULT_POLICY, find_policy
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import WaitingClass
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.scheduling.workspace.planning_state import PlanningState
from gpupool.simulation.replay.foreknowledge import ONLINE, ORACLE
from gpupool.simulation.replay.protocol import count_pods, draw_arrivals, simulate_policy
from gpupool.simulation.traces.openb import PodList
from gpupool_native import kernel_path

NAME = "decisions"
COMMAND = "python -m bench decisions"
SEED = 42
FGD_PEER = 600.0, "FGD's simulator, 2 virtual CPUs, as its README says (about 10 min)"
KUBE_PEER = (
    1e6 / 180,
    "kube-scheduler's floor in CI for pods with an extended resource, 5,000 nodes: 180 pods/s",
)
VOLCANO_PEER = (
    1e6 / 2000,
    "Volcano's own paper, 10,000 nodes: 2,000 pods/s (doubted by users, volcano #3203)",
)

SIZES = (300, OPENB_NODES, 3_000, 10_000)
QUEUES = (100, 1_000, 10_000, 100_000)
CLASSES, HEADS, PLANS = 20, 64, 5
TIMES = 3


def run(out: Path) -> list[Row]:
    if not native_library.adopt_native_library(kernel_path()):
        raise RuntimeError(f"{kernel_path()} is no kernel of this version: make setup")
    curve = {nodes: statistics.median(_fills(nodes)) for nodes in SIZES}
    queue = {length: _plans(length) for length in QUEUES}
    record = {"microseconds_by_nodes": curve, "microseconds_by_queue": queue}
    (out / "decisions-growth.json").write_text(json.dumps(record, indent=1) + "\n")
    return [*_lists(), *_rates(curve), *_growth(curve, queue)]


def _lists() -> list[Row]:
    """The whole protocol, with the drawing of the list and the record after each pod."""
    cards, pods = openb() if is_here() else (cluster_like_openb(OPENB_NODES), list_like_openb())
    listed = "openb's default list" if is_here() else "a list like openb's default one"
    limits = {
        ("fgd", False, ORACLE): 5.0,
        (DEFAULT_POLICY, False, ORACLE): 10.0,
        ("fgd", True, ORACLE): 1.0,
        (DEFAULT_POLICY, True, ORACLE): 0.6,
        (DEFAULT_POLICY, True, ONLINE): None,
    }
    rows = []
    for (name, compiled, knowledge), limit in limits.items():
        began = time.process_time()
        simulate_policy(cards, pods, name, SEED, knowledge=knowledge, compiled=compiled)
        seconds = time.process_time() - began
        words = f"{listed}, one seed, {knowledge}: {'ours' if name == DEFAULT_POLICY else name}, {_words(compiled)}"
        row = Row(words, "s", seconds, COMMAND, limit=limit, note="processor time")
        rows.append(
            replace(row, peer=FGD_PEER[0], peer_command=FGD_PEER[1]) if name == "fgd" else row
        )
    return rows


def _rates(curve: dict[int, float]) -> list[Row]:
    numpy = _fill(cluster_like_openb(OPENB_NODES), False)
    large = _fill(cluster_like_openb(10_000, widest=True), True)
    return [
        _rate(f"a decision of ours, {OPENB_NODES:,} nodes, NumPy", numpy, 1000, KUBE_PEER),
        _rate(
            f"a decision of ours, {OPENB_NODES:,} nodes, compiled",
            curve[OPENB_NODES],
            100,
            KUBE_PEER,
        ),
        _rate(
            "a decision of ours, 10,000 nodes with 80,000 cards, compiled",
            large,
            1000,
            VOLCANO_PEER,
        ),
    ]


def _growth(curve: dict[int, float], queue: dict[int, float]) -> list[Row]:
    rows = [_rate(f"growth with nodes: {nodes:,}", micros) for nodes, micros in curve.items()]
    return rows + [
        _rate(f"growth with the queue: {length:,} jobs", micros) for length, micros in queue.items()
    ]


def _rate(
    figure: str, micros: float, limit: float | None = None, peer: tuple[float, str] | None = None
) -> Row:
    row = Row(figure, "µs", micros, COMMAND, limit=limit, note=f"{1e6 / micros:,.0f} a second")
    return row if peer is None else replace(row, peer=peer[0], peer_command=peer[1])


def _words(compiled: bool) -> str:
    return "compiled" if compiled else "NumPy"


def _fills(nodes: int) -> list[float]:
    """Several, where they do not take long."""
    return [
        _fill(cluster_like_openb(nodes), True) for _ in range(TIMES if nodes <= OPENB_NODES else 1)
    ]


def _fill(cards: CardTable, compiled: bool) -> float:
    """Microseconds of processor time per decision, from the empty cluster until 130 % of it was
    asked for."""
    pods = list_like_openb()
    arriving = draw_arrivals(pods, int(cards.free_milli.sum()), Random(SEED))
    gc.collect()
    began = time.process_time()
    _place_all(cards, pods, arriving, compiled)
    return (time.process_time() - began) / len(arriving) * 1e6


def _place_all(cards: CardTable, pods: PodList, arriving: Sequence[int], compiled: bool) -> None:
    free = FreeCapacity(
        cards, np.array(Random(SEED).sample(range(len(cards.nodes)), len(cards.nodes))), compiled
    )
    rater = find_policy(DEFAULT_POLICY).start_rater(free, count_pods(pods), SEED)
    rankings = NodeRankings(free, rater)
    for number in arriving:
        shape = pods.shapes[number]
        ranking = rankings.get_ranking(shape)
        node = ranking.find_best()
        if node is None:
            continue
        rows = ranking.order_cards(node)[: shape.count]
        free.take_seats(
            node, rows, shape.held_milli, ranking.fit.need[rows], shape.cpu_milli, shape.host_bytes
        )
        rater.on_take(shape, node)


def _plans(length: int) -> float:
    """Microseconds of processor time per placement of a plan on a board that lives on, with so many
    jobs waiting."""
    pods = list_like_openb(2_000)
    shapes = [shape for shape in pods.shapes if shape.count][:CLASSES]
    count = length // CLASSES
    waiting = tuple(_class(number, shape, count) for number, shape in enumerate(shapes))
    tenant = {"nlp": TenantView(Quota(), ResourceAmount(0, 0))}
    now = Snapshot(1, cluster_like_openb(OPENB_NODES), tenant, waiting, expected=count_pods(pods))
    board = PlanningState(now)
    cycle(now, 0, limit=HEADS, board=board)  # what is remembered from the cycles before
    began = time.process_time()
    placed = sum(len(cycle(now, 0, limit=HEADS, board=board).placements) for _ in range(PLANS))
    return (time.process_time() - began) / placed * 1e6


def _class(number: int, shape: Shape, count: int) -> WaitingClass:
    heads = tuple(f"j{number}-{n}" for n in range(min(count, HEADS)))
    return WaitingClass(
        "nlp", 0, shape, heads, count, number, tuple(number + n for n in range(len(heads)))
    )
