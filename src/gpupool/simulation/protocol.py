"""The protocol of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023): one list of pods, a policy, a seed.

Pods arrive one by one in random order until 130 % of the cluster's compute has been asked for. Each is placed at once
or dropped; none ends. After every pod it is noted how much was asked for, how much is placed and how much of the rest
is fragments. The scheduler's own working copy, rankings and policies decide, nothing made for this purpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Protocol

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling import policies
from gpupool.scheduling.expected import Kinds, histogram, typical
from gpupool.scheduling.free import Free
from gpupool.scheduling.score_fragmentation import Fragments
from gpupool.scheduling.snapshot import Cards, Expected, Ints
from gpupool.simulation.choosing import Chooser, Seat
from gpupool.simulation.foreknowledge import ONLINE, Foreknowledge
from gpupool.simulation.openb import Pods, read_nodes, read_pods
from gpupool.simulation.parallel import InOrder, Tell, run_all
from gpupool.simulation.protocol_record import Recorder

LEVELS = range(131)
"""Percent of the cluster's compute that has been asked for."""

ALL = ("random", "dot-product", "gpu-clustering", "gpu-packing", "best-fit", "fgd", policies.DEFAULT)
"""The paper's six, and ours."""

FIRST_SEED = 42
_ASKED_PCT = 130


@dataclass(frozen=True)
class Level:
    """Means over the pods after which that percent had arrived; the ratio is None where nothing was idle."""

    arrived_pct: int
    allocation_pct: float
    fragment_pct: float
    fragment_ratio_pct: float | None


@dataclass(frozen=True)
class Result:
    """One run; levels that no pod ended at are left out. `knowledge` is of the pods to come (`foreknowledge`)."""

    policy: str
    seed: int
    levels: tuple[Level, ...]
    knowledge: str


Progress = Callable[[int, int, Result], None]
"""Told after each run: how many are done, how many there are, and its result."""

Decisions = list[tuple[object, ...]]
"""Of one run, a line for each pod (`protocol_record`)."""

Record = Callable[[Decisions], None]
"""Told the decisions of each run, by policy then seed."""


class Listener(Protocol):
    """Hears each decision before it is carried out."""

    def placed(self, number: int, seat: Seat, chooser: Chooser) -> None: ...

    def dropped(self, number: int, chooser: Chooser) -> None: ...


def run(
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
) -> list[Result]:
    """Every policy with every seed, by policy then seed, on all cores (`workers` 1: in this process alone).

    `compiled` asks for the kernel in C (True), for NumPy (False), or for what there is (None).
    Raises UnknownPolicy, BadTrace.
    """
    for name in names:
        policies.named(name)
    cards, pods = read_nodes(nodes), read_pods(trace)
    runs = [(name, seed) for name in names for seed in seeds]
    pieces = [_Piece(cards, pods, *one, knowledge, compiled, record is not None) for one in runs]
    found: dict[tuple[str, int], Result] = {}
    recorded = InOrder(runs, record or (lambda _decisions: None))

    def done(one: _Done) -> None:
        result = one.result
        found[result.policy, result.seed] = result
        recorded.put((result.policy, result.seed), one.decisions.copy())
        one.decisions.clear()  # they are many, and results stay until all is done
        if on_progress is not None:
            on_progress(len(found), len(runs), result)

    return [one.result for one in run_all(_simulate, pieces, lambda _part: None, workers, done)]


def to_json(results: Sequence[Result]) -> list[dict[str, Any]]:
    """For `results.json`."""
    return [asdict(result) for result in results]


class _Piece(NamedTuple):
    cards: Cards
    pods: Pods
    policy: str
    seed: int
    knowledge: str
    compiled: bool | None
    recorded: bool


class _Done(NamedTuple):
    result: Result
    decisions: Decisions


def _simulate(one: _Piece, _tell: Tell) -> _Done:
    decisions = Decisions()
    record = decisions.extend if one.recorded else None
    result = simulate(
        one.cards, one.pods, one.policy, one.seed, knowledge=one.knowledge, compiled=one.compiled, record=record
    )
    return _Done(result, decisions)


def simulate(
    cards: Cards,
    pods: Pods,
    policy: str,
    seed: int,
    *,
    knowledge: str = ONLINE,
    compiled: bool | None = None,
    record: Record | None = None,
) -> Result:
    """One run of one policy."""
    chance = Random(seed)
    order = list(range(len(cards.nodes)))
    chance.shuffle(order)
    free = Free(cards, np.array(order, dtype=np.int64), compiled)
    capacity = int(free.milli.sum())
    places = arriving_places(pods, capacity, chance)
    known = Foreknowledge(knowledge, expected_of(pods), capacity)
    recorder = None if record is None else Recorder(policy, seed, free, pods, places)
    levels = fill(free, pods, policy, seed, [int(pods.of[place]) for place in places], known, recorder)
    if record is not None and recorder is not None:
        record(recorder.rows)
    return Result(policy, seed, levels, knowledge)


def fill(
    free: Free,
    pods: Pods,
    policy: str,
    seed: int,
    arriving: Sequence[int],
    known: Foreknowledge,
    listener: Listener | None = None,
) -> tuple[Level, ...]:
    """Place pods of these shapes one after the other, or drop them; what came of it, by arrived percent."""
    record = _Record(free, expected_of(pods), len(arriving))
    chooser = Chooser(policy, free, pods.shapes, seed)
    for number in arriving:
        shape = pods.shapes[number]
        known.claim_came(shape)
        chooser.expect(known.expected)
        seat = chooser.choose(number)
        if seat is None:
            record.dropped(shape)
            if listener is not None:
                listener.dropped(number, chooser)
            continue
        if listener is not None:
            listener.placed(number, seat, chooser)
        record.before(seat.node)
        chooser.take(number, seat)
        known.claim_started(shape)
        record.placed(shape, seat.node)
    return record.levels()


def expected_of(pods: Pods) -> Expected:
    """What the whole list asks for, before it is shuffled and tuned; no pod ends."""
    return Expected(pods.shapes, tuple(np.bincount(pods.of, minlength=len(pods.shapes)).tolist()), returned_pct=0)


def arrivals(pods: Pods, capacity_milli: int, chance: Random) -> list[int]:
    """Numbers of shapes in the order in which they arrive: of the pods in `arriving_places`."""
    return [int(pods.of[place]) for place in arriving_places(pods, capacity_milli, chance)]


def arriving_places(pods: Pods, capacity_milli: int, chance: Random) -> list[int]:
    """Places in the list of the pods in the order in which they arrive, tuned to 130 % of the compute there is.

    Above it pods are removed at random until it is kept; below it pods of the list are added at random until the next
    one would break it. Of that one only a single card's compute is counted, as in the paper's simulator.
    """
    of = pods.of.tolist()
    asked = [pods.shapes[number].held_milli * pods.shapes[number].count for number in of]
    by_name = sorted(range(len(pods.names)), key=pods.names.__getitem__)
    arriving = by_name.copy()
    chance.shuffle(arriving)
    limit, total = capacity_milli * _ASKED_PCT // 100, sum(asked)
    while total > limit:
        total -= asked[arriving.pop(chance.randrange(len(arriving)))]
    while any(asked):
        place = by_name[chance.randrange(len(by_name))]
        if total + pods.shapes[of[place]].held_milli > limit:
            break
        arriving.append(place)
        total += asked[place]
    return arriving


class _Record:
    """What was asked for and placed after each pod; fragments are counted at the end, all at once."""

    def __init__(self, free: Free, expected: Expected, pods: int) -> None:
        self._free, self._kinds = free, Kinds(free.cards)
        self._fragments = Fragments(typical(histogram(expected)), self._kinds)
        self._asked, self._used = np.zeros(pods, dtype=np.int64), np.zeros(pods, dtype=np.int64)
        self._nodes = np.full(pods, -1, dtype=np.int64)
        cells = free.grid(np.arange(len(free.cards.nodes)))
        self._first = self._amount(cells, free.cpu_milli, self._kinds.of_node).sum()
        self._capacity = int(cells[cells > 0].sum())
        self._cells = np.zeros((2, pods, cells.shape[1]), dtype=np.int64)
        self._cpu = np.zeros((2, pods), dtype=np.int64)
        self._at = 0

    def dropped(self, shape: Shape) -> None:
        self._asked[self._at] = shape.held_milli * shape.count
        self._at += 1

    def before(self, node: int) -> None:
        self._note(0, node)

    def placed(self, shape: Shape, node: int) -> None:
        self._note(1, node)
        self._nodes[self._at] = node
        self._used[self._at] = shape.held_milli * shape.count
        self.dropped(shape)

    def levels(self) -> tuple[Level, ...]:
        """Means by level; F of the cluster changes by what F of the one changed node does."""
        asked, used = np.cumsum(self._asked), np.cumsum(self._used)
        fragment = (self._first + np.cumsum(self._changes())) / max(self._fragments.total, 1)
        level = np.floor(100 * asked / self._capacity + 0.5).astype(np.int64)
        idle = self._capacity - used
        ratio = np.divide(fragment, idle, out=np.full(len(idle), math.nan), where=idle > 0)
        found = []
        for arrived in LEVELS:
            at = level == arrived
            if at.any():
                rate, amount = (float(column[at].mean() / self._capacity * 100) for column in (used, fragment))
                share = float(ratio[at].mean() * 100)
                found.append(Level(arrived, rate, amount, None if math.isnan(share) else share))
        return tuple(found)

    def _note(self, when: int, node: int) -> None:
        self._cells[when, self._at] = self._free.cells[node]
        self._cpu[when, self._at] = self._free.cpu_milli[node]

    def _changes(self) -> Ints:
        changes = np.zeros(len(self._nodes), dtype=np.int64)
        placed = np.flatnonzero(self._nodes >= 0)
        kinds = self._kinds.of_node[self._nodes[placed]]
        before, after = (self._amount(self._cells[i, placed], self._cpu[i, placed], kinds) for i in (0, 1))
        changes[placed] = after - before
        return changes

    def _amount(self, cells: Ints, cpu_milli: Ints, kinds: Ints) -> Ints:
        return self._fragments.amount(np.maximum(cells, 0), cpu_milli, kinds)
