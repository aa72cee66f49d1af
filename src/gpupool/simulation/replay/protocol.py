"""Run the protocol of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023) on lists of pods.

Pods arrive one by one in random order until 130 % of the cluster's compute has been asked for. Each
is placed at once or dropped; none ends. After every pod the record has how much was asked for, how
much is placed and how much of the rest is fragments. The scheduler's own working copy, rankings and
policies decide; nothing is written for this purpose alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Protocol

import numpy as np

from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring import registry
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.simulation.replay.demand_levels import DemandLevel, LevelRecord
from gpupool.simulation.replay.foreknowledge import ONLINE, Foreknowledge
from gpupool.simulation.replay.parallel import InOrder, TellProgress, run_all
from gpupool.simulation.replay.protocol_record import ProtocolRecorder
from gpupool.simulation.replay.seat_chooser import ChosenSeat, SeatChooser
from gpupool.simulation.traces.openb import PodList, read_nodes, read_pods

#: The paper's six, and ours.
ALL = (
    "random",
    "dot-product",
    "gpu-clustering",
    "gpu-packing",
    "best-fit",
    "fgd",
    registry.DEFAULT_POLICY,
)

#: The paper's first seed; a study of ten runs uses 42 to 51.
FIRST_SEED = 42
#: Percent of the cluster's compute that arrives, as in the paper.
_ASKED_PCT = 130


@dataclass(frozen=True)
class ProtocolResult:
    """One run. Levels at which no pod ended are left out.

    `knowledge` is what the policy knew of the pods to come (`foreknowledge`).
    """

    policy: str
    seed: int
    levels: tuple[DemandLevel, ...]
    knowledge: str


#: Told after each run: how many are done, how many there are, and its result.
Progress = Callable[[int, int, ProtocolResult], None]

#: Of one run, a line for each pod (`protocol_record`).
Decisions = list[tuple[object, ...]]

#: Told the decisions of each run, by policy then seed.
Record = Callable[[Decisions], None]


class PlacementListener(Protocol):
    """Called with each decision before it is applied."""

    def on_placement(self, number: int, seat: ChosenSeat, chooser: SeatChooser) -> None: ...

    def on_drop(self, number: int, chooser: SeatChooser) -> None: ...


def run_protocol(
    trace: Path,
    nodes: Path,
    names: Sequence[str],
    seeds: Sequence[int],
    on_progress: Progress | None = None,
    *,
    record: Record | None = None,
    knowledge: str = ONLINE,
    workers: int | None = None,
    compiled: bool | None = None,
) -> list[ProtocolResult]:
    """Run every policy with every seed on all cores; return the results by policy, then by seed.

    Args:
        trace: The list of pods.
        nodes: The list of nodes.
        names: The policies.
        seeds: The seeds.
        on_progress: Called after each run, in the order in which runs end.
        record: Called with the decisions of each run, by policy then seed.
        knowledge: What the policies know of the pods to come (`foreknowledge`).
        workers: Processes; 1 runs everything in this process.
        compiled: Decide by the compiled library (True), by NumPy (False), or by what there is.

    Raises:
        UnknownPolicy, BadTrace: before anything runs.
    """
    for name in names:
        registry.find_policy(name)
    cards = read_nodes(nodes)
    pods = read_pods(trace)
    runs: list[tuple[str, int]] = []
    inputs: list[_RunInput] = []
    for name in names:
        for seed in seeds:
            runs.append((name, seed))
            inputs.append(
                _RunInput(cards, pods, name, seed, knowledge, compiled, record is not None)
            )
    finished: dict[tuple[str, int], ProtocolResult] = {}
    # Runs end in any order; a record must not depend on how fast the machine is.
    recorded = InOrder(runs, record or (lambda _decisions: None))

    def note_result(one: _RunOutput) -> None:
        result = one.result
        finished[result.policy, result.seed] = result
        recorded.put_result((result.policy, result.seed), one.decisions.copy())
        one.decisions.clear()  # they are many, and results stay until all runs have ended
        if on_progress is not None:
            on_progress(len(finished), len(runs), result)

    outputs = run_all(_run_input, inputs, lambda _part: None, workers, note_result)
    return [output.result for output in outputs]


def list_results(results: Sequence[ProtocolResult]) -> list[dict[str, Any]]:
    """Return the results as `results.json` has them."""
    return [asdict(result) for result in results]


class _RunInput(NamedTuple):
    cards: CardTable
    pods: PodList
    policy: str
    seed: int
    knowledge: str
    compiled: bool | None
    recorded: bool


class _RunOutput(NamedTuple):
    result: ProtocolResult
    decisions: Decisions


def _run_input(one: _RunInput, _tell: TellProgress) -> _RunOutput:
    decisions = Decisions()
    record = decisions.extend if one.recorded else None
    result = simulate_policy(
        one.cards,
        one.pods,
        one.policy,
        one.seed,
        knowledge=one.knowledge,
        compiled=one.compiled,
        record=record,
    )
    return _RunOutput(result, decisions)


def simulate_policy(
    cards: CardTable,
    pods: PodList,
    policy: str,
    seed: int,
    *,
    knowledge: str = ONLINE,
    compiled: bool | None = None,
    record: Record | None = None,
) -> ProtocolResult:
    """Run the protocol with one policy and one seed."""
    # The nodes are shuffled too: among equal nodes a policy takes the first, and the lists have
    # nodes of one model in a row. The order of draws is part of what a seed means.
    chance = Random(seed)
    order = list(range(len(cards.nodes)))
    chance.shuffle(order)
    free = FreeCapacity(cards, np.array(order, dtype=np.int64), compiled)
    capacity = int(free.milli.sum())
    places = draw_places(pods, capacity, chance)
    known = Foreknowledge(knowledge, count_pods(pods), capacity)
    recorder = None if record is None else ProtocolRecorder(policy, seed, free, pods, places)
    arriving = [int(pods.shape_numbers[place]) for place in places]
    levels = fill_nodes(free, pods, policy, seed, arriving, known, recorder)
    if record is not None and recorder is not None:
        record(recorder.rows)
    return ProtocolResult(policy, seed, levels, knowledge)


def fill_nodes(
    free: FreeCapacity,
    pods: PodList,
    policy: str,
    seed: int,
    arriving: Sequence[int],
    known: Foreknowledge,
    listener: PlacementListener | None = None,
) -> tuple[DemandLevel, ...]:
    """Place pods of these shapes one after the other, or drop them.

    Returns:
        Figures by arrived percent.
    """
    record = LevelRecord(free, count_pods(pods), len(arriving))
    chooser = SeatChooser(policy, free, pods.shapes, seed)
    for number in arriving:
        shape = pods.shapes[number]
        known.note_arrival(shape)
        chooser.set_expected(known.expected_demand)
        # The policy has learnt of this pod before it places it, as a pool's policy has.
        seat = chooser.choose_seat(number)
        if seat is None:
            record.record_drop(shape)
            if listener is not None:
                listener.on_drop(number, chooser)
            continue
        if listener is not None:
            listener.on_placement(number, seat, chooser)
        record.record_node_before(seat.node)
        chooser.take_seat(number, seat)
        known.note_start(shape)
        record.record_placement(shape, seat.node)
    return record.compute_levels()


def count_pods(pods: PodList) -> ExpectedDemand:
    """Count what the whole list asks for, before it is shuffled and tuned; no pod ends."""
    return ExpectedDemand(
        pods.shapes,
        tuple(np.bincount(pods.shape_numbers, minlength=len(pods.shapes)).tolist()),
        returned_pct=0,
    )


def draw_arrivals(pods: PodList, capacity_milli: int, chance: Random) -> list[int]:
    """Draw the shape numbers of the pods in the order in which they arrive (`draw_places`)."""
    return [int(pods.shape_numbers[place]) for place in draw_places(pods, capacity_milli, chance)]


def draw_places(pods: PodList, capacity_milli: int, chance: Random) -> list[int]:
    """Draw the order of arrival: places in the list, tuned to 130 % of the compute there is.

    Above it pods are removed at random until it is kept; below it pods of the list are added at
    random until the next one would break it. Of that one only a single card's compute is counted,
    as in the paper's simulator.
    """
    shape_numbers = pods.shape_numbers.tolist()
    asked_milli: list[int] = []
    for number in shape_numbers:
        asked_milli.append(pods.shapes[number].held_milli * pods.shapes[number].count)
    # By name first, so that a list that was sorted otherwise gives the same order of arrival.
    by_name = sorted(range(len(pods.names)), key=pods.names.__getitem__)
    arriving = by_name.copy()
    chance.shuffle(arriving)
    limit = capacity_milli * _ASKED_PCT // 100
    total = sum(asked_milli)
    while total > limit:
        total -= asked_milli[arriving.pop(chance.randrange(len(arriving)))]
    # A list that asks for no compute would never reach the limit.
    while any(asked_milli):
        place = by_name[chance.randrange(len(by_name))]
        if total + pods.shapes[shape_numbers[place]].held_milli > limit:
            break
        arriving.append(place)
        total += asked_milli[place]
    return arriving
