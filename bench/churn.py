"""A pool's daily life in short: claims come at random, hold what they got for a while and give it
back.

Arrivals are Poisson, shapes are drawn from a list, lifetimes are lognormal with a mean of 1 and
sigma 1, whatever the shape. `load` is what is asked for on the average, in parts of the pool's
compute. A claim that fits nowhere is lost, so that a policy is judged by what it places and not by
a queue. The pool starts empty; what happens before `FROM` is left out. Same seed, same claims,
whatever the policy and whatever it knows.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.snapshot.cards import CardTable, HostColumns
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.simulation.replay.foreknowledge import ORACLE, Foreknowledge
from gpupool.simulation.replay.seat_chooser import ChosenSeat, SeatChooser
from gpupool.simulation.traces.openb import PodList

FROM, UNTIL = 5.0, 10.0
"""In mean lifetimes."""
SIGMA = 1.0
LARGE = 8


@dataclass(frozen=True)
class Life:
    """Mean allocation in percent of the compute, and of the claims of eight cards how many came and
    were placed."""

    allocation_pct: float
    large: int
    large_placed: int


@dataclass(frozen=True)
class _Event:
    at: float
    number: int
    lasts: float


Watch = Callable[[FreeCapacity, float], None]
"""Told how long the pool has been as it is now."""


def live(
    cards: CardTable,
    pods: PodList,
    policy: str,
    load: float,
    seed: int,
    knowledge: str = ORACLE,
    watch: Watch = lambda _free, _span: None,
) -> Life:
    """One life. The oracle knows the list, and that claims end."""
    free = FreeCapacity(cards)
    capacity = int(free.milli.sum())
    whole = ExpectedDemand(
        pods.shapes, tuple(np.bincount(pods.shape_numbers, minlength=len(pods.shapes)).tolist())
    )
    known = Foreknowledge(knowledge, whole, capacity)
    chooser = SeatChooser(policy, free, pods.shapes, seed)
    ends: list[tuple[float, int, int, ChosenSeat]] = []
    area, used, since, large, placed = 0.0, 0, FROM, 0, 0

    def passed(at: float) -> None:
        nonlocal area, since
        if at > since:
            area += used * (at - since)
            watch(free, at - since)
            since = at

    for order, event in enumerate(_arrivals(pods, capacity, load, seed)):
        while ends and ends[0][0] <= event.at:
            at, _, number, seat = heapq.heappop(ends)
            passed(at)
            chooser.release_seat(number, seat)
            known.note_release(pods.shapes[number])
            used -= pods.shapes[number].count * pods.shapes[number].held_milli
        passed(event.at)
        shape = pods.shapes[event.number]
        known.note_arrival(shape)
        chooser.set_expected(known.expected_demand)
        counts = shape.count == LARGE and event.at >= FROM
        large += counts
        found = chooser.choose_seat(event.number)
        if found is None:
            continue
        placed += counts
        chooser.take_seat(event.number, found)
        known.note_start(shape)
        used += shape.count * shape.held_milli
        heapq.heappush(ends, (event.at + event.lasts, order, event.number, found))
    passed(UNTIL)
    return Life(100 * area / (UNTIL - FROM) / capacity, large, placed)


def some_nodes(cards: CardTable, number: int, seed: int) -> CardTable:
    """So many nodes of a pool without labels, drawn at random, everything free."""
    chosen = sorted(Random(seed).sample(range(len(cards.nodes)), number))
    rows = np.flatnonzero(np.isin(cards.node, chosen))
    assert cards.hosts is not None
    cpu, memory = cards.hosts.cpu_milli[chosen], cards.hosts.memory_bytes[chosen]
    return replace(
        cards,
        uuids=tuple(cards.uuids[row] for row in rows),
        nodes=tuple(cards.nodes[node] for node in chosen),
        node_labels=({},) * number,
        model=cards.model[rows],
        node=np.searchsorted(chosen, cards.node[rows]),
        status=cards.status[rows],
        memory_bytes=cards.memory_bytes[rows],
        free_milli=cards.free_milli[rows],
        free_bytes=cards.free_bytes[rows],
        generation=cards.generation[rows],
        hosts=HostColumns(cpu, memory, cpu.copy(), memory.copy()),
    )


def _arrivals(pods: PodList, capacity: int, load: float, seed: int) -> Iterator[_Event]:
    chance, asked = Random(seed), [shape.held_milli * shape.count for shape in pods.shapes]
    of = pods.shape_numbers.tolist()
    rate = load * capacity / (sum(asked[number] for number in of) / len(of))
    at = chance.expovariate(rate)
    while at < UNTIL:
        yield _Event(
            at, of[chance.randrange(len(of))], chance.lognormvariate(-SIGMA * SIGMA / 2, SIGMA)
        )
        at += chance.expovariate(rate)
