"""A pool's daily life in short: claims come at random, hold what they got for a while and give it back.

Arrivals are Poisson, shapes are drawn from a list, lifetimes are lognormal with a mean of 1 and sigma 1, whatever the
shape. `load` is what is asked for on the average, in parts of the pool's compute. A claim that fits nowhere is lost, so
that a policy is judged by what it places and not by a queue. The pool starts empty; what happens before `FROM` is left
out. Same seed, same claims, whatever the policy.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import numpy as np

from gpupool.scheduling import policies
from gpupool.scheduling.free import Free
from gpupool.scheduling.ranking import Ranking
from gpupool.scheduling.snapshot import Cards, Expected, Ints
from gpupool.simulation.openb import Pods

FROM, UNTIL = 5.0, 10.0
"""In mean lifetimes."""
SIGMA = 1.0
LARGE = 8


@dataclass(frozen=True)
class Life:
    """Mean allocation in percent of the compute, and of the claims of eight cards how many came and were placed."""

    allocation_pct: float
    large: int
    large_placed: int


@dataclass(frozen=True)
class _Event:
    at: float
    number: int
    lasts: float


def live(cards: Cards, pods: Pods, policy: str, load: float, seed: int) -> Life:
    free = Free(cards)
    capacity = int(free.milli.sum())
    expected = Expected(pods.shapes, tuple(np.bincount(pods.of, minlength=len(pods.shapes)).tolist()))
    rater = policies.named(policy).start(free, expected, seed)
    rankings = [Ranking(shape, free, rater) for shape in pods.shapes]
    ends: list[tuple[float, int, int, int, Ints, Ints]] = []
    area, used, since, large, placed = 0.0, 0, FROM, 0, 0

    def passed(at: float) -> None:
        nonlocal area, since
        if at > since:
            area += used * (at - since)
            since = at

    for order, event in enumerate(_arrivals(pods, capacity, load, seed)):
        while ends and ends[0][0] <= event.at:
            at, _, number, node, rows, need = heapq.heappop(ends)
            passed(at)
            shape = pods.shapes[number]
            free.give(node, rows, shape.held_milli, need, shape.cpu_milli, shape.host_bytes)
            rater.gave(shape, node)
            used -= shape.count * shape.held_milli
        passed(event.at)
        shape, ranking = pods.shapes[event.number], rankings[event.number]
        counts = shape.count == LARGE and event.at >= FROM
        large += counts
        best = ranking.best()
        if best is None:
            continue
        placed += counts
        rows = ranking.choose(best)[: shape.count]
        need = ranking.fit.need[rows]
        free.take(best, rows, shape.held_milli, need, shape.cpu_milli, shape.host_bytes)
        rater.took(shape, best)
        used += shape.count * shape.held_milli
        heapq.heappush(ends, (event.at + event.lasts, order, event.number, best, rows, need))
    passed(UNTIL)
    return Life(100 * area / (UNTIL - FROM) / capacity, large, placed)


def _arrivals(pods: Pods, capacity: int, load: float, seed: int) -> Iterator[_Event]:
    chance, asked = Random(seed), [shape.held_milli * shape.count for shape in pods.shapes]
    of = pods.of.tolist()
    rate = load * capacity / (sum(asked[number] for number in of) / len(of))
    at = chance.expovariate(rate)
    while at < UNTIL:
        yield _Event(at, of[chance.randrange(len(of))], chance.lognormvariate(-SIGMA * SIGMA / 2, SIGMA))
        at += chance.expovariate(rate)
