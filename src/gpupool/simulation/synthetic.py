"""Traces made up by rule: a documented, seeded generator of arrivals, durations, shapes, gangs and tenants.

Same parameters, same trace, on every machine and every version: only `random.Random.random()` is drawn from, whose
sequence Python promises to keep, and everything is rounded to whole seconds. The shape of the load follows what
published clusters show: mostly shares and single cards, few large jobs that hold much of the card-time, durations
over several orders of magnitude, busy days and quiet nights. No line of anybody's data is in it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace

from gpupool.base.errors import BadTrace
from gpupool.base.units import WHOLE
from gpupool.model.claim import PRIORITIES, Shape
from gpupool.simulation.trace import LONGEST_SECONDS, NS, Arrival, Trace, made

_DAY = 86400
_QUIETEST_SECOND = 4 * 3600
_SHARES = ((100, 14), (200, 18), (250, 12), (300, 14), (500, 24), (700, 8), (800, 10))
"""(milli-devices, how often)."""
_SEVERAL = ((2, 50), (4, 35), (8, 15))
_GANGS = ((2, 50), (4, 35), (8, 15))
_PARTITIONS = ((1, 50), (2, 25), (3, 15), (4, 10))
"""(slices, how often), by the short names `1g` to `4g`; a slice is about a seventh of a card."""
_LIMITS = (900, 3600, 4 * 3600, 12 * 3600)
MOST_JOBS = 1_000_000


@dataclass(frozen=True)
class Parameters:
    """What is made up. Parts and swings are percent; times are seconds or days; the trace starts on a Monday, 0:00."""

    seed: int = 42
    days: int = 7
    cards: int = 32
    """For a pool of so many cards, `cards_per_node` on a node: no job is larger than a node, no gang than half."""
    cards_per_node: int = 8
    load_pct: int = 100
    """Card-time asked for, of what the pool has in those days."""
    day_swing_pct: int = 60
    """Arrivals in the busiest hour above the mean of the day, and below it in the quietest."""
    weekend_pct: int = 40
    """Arrivals on Saturday and Sunday, of those on another day."""
    median_seconds: int = 1800
    sigma_pct: int = 150
    """Durations are lognormal: this is the standard deviation of their logarithm, in hundredths."""
    longest_seconds: int = 3 * _DAY
    share_pct: int = 50
    one_card_pct: int = 40
    several_pct: int = 7
    gang_pct: int = 3
    partition_pct: int = 0
    """How many of a hundred jobs are a share, one card, several cards of a node, a gang, a partition: together 100."""
    low_pct: int = 20
    high_pct: int = 5
    """Jobs of low and of high priority; those of low priority may be preempted."""
    limit_pct: int = 70
    """Jobs that name a limit: one to four times what they really take, rounded up to a time that people write."""
    tenants: int = 3
    """Tenants `team-1`, `team-2`, ... of weights 1, 2, ..., which ask for equal parts."""


def generate(parameters: Parameters, shapes: Sequence[Shape] = ()) -> Trace:
    """The trace. With `shapes` each job asks for one of them instead of what the parameters say of kinds.

    Raises BadTrace for parameters that make no sense together.
    """
    _check(parameters)
    draw = random.Random(parameters.seed)
    jobs = list(_jobs(parameters, draw, shapes))
    times = sorted(_instant(parameters, draw) for _ in jobs)
    arrivals = [replace(job, at_ns=at * NS) for job, at in zip(jobs, times, strict=True)]
    weights = {f"team-{n}": n for n in range(1, parameters.tenants + 1)}
    return made(f"synthetic, seed {parameters.seed}", arrivals, weights)


def parse(text: str) -> Parameters:
    """`days=2,load_pct=120`: the parameters, all others as they are. Raises BadTrace, which names the nearest."""
    given: dict[str, int] = {}
    known = [field.name for field in fields(Parameters)]
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name.strip() not in known:
            import difflib

            near = difflib.get_close_matches(name.strip(), known, n=1)
            meant = f"did you mean {near[0]}?  " if near else ""
            raise BadTrace(f"synthetic has no parameter {name!r}", hint=f"{meant}it has: {', '.join(known)}")
        if not (value.isascii() and value.strip().isdigit()):
            raise BadTrace(f"synthetic: {name} is a whole number, not {value!r}", hint=f"write {name}=10")
        given[name.strip()] = int(value)
    parameters = replace(Parameters(), **given)
    _check(parameters)
    return parameters


def described(parameters: Parameters) -> dict[str, int]:
    """By name, for reports."""
    return asdict(parameters)


_KINDS = ("share_pct", "one_card_pct", "several_pct", "gang_pct", "partition_pct")
_BOUNDS = {
    "seed": (0, 2**32),
    "days": (1, 3660),
    "cards": (1, 100_000),
    "cards_per_node": (1, 128),
    "load_pct": (1, 1000),
    "day_swing_pct": (0, 100),
    "weekend_pct": (1, 400),
    "median_seconds": (1, 30 * _DAY),
    "sigma_pct": (0, 400),
    "longest_seconds": (1, LONGEST_SECONDS),
    "tenants": (1, 1000),
}


def _check(parameters: Parameters) -> None:
    for name, value in asdict(parameters).items():
        low, high = _BOUNDS.get(name, (0, 100))
        if not low <= value <= high:
            raise BadTrace(f"synthetic: {name}={value} is not from {low} to {high}")
    kinds = [getattr(parameters, name) for name in _KINDS]
    if sum(kinds) != 100:
        said = " + ".join(map(str, kinds))
        raise BadTrace(f"synthetic: {' + '.join(_KINDS)} is {said} = {sum(kinds)}, not 100")
    if parameters.low_pct + parameters.high_pct > 100:
        raise BadTrace(f"synthetic: low_pct + high_pct is {parameters.low_pct + parameters.high_pct}, more than 100")


def _jobs(parameters: Parameters, draw: random.Random, shapes: Sequence[Shape]) -> Iterator[Arrival]:
    """As many jobs as it takes to ask for the load, not yet in time."""
    wanted = parameters.load_pct * parameters.cards * parameters.days * _DAY * NS * WHOLE // 100
    number = asked = 0
    while asked < wanted:
        number += 1
        if number > MOST_JOBS:
            raise BadTrace(f"synthetic: this makes more than {MOST_JOBS} jobs", hint="fewer days, or longer jobs")
        one = _job(parameters, draw, number, shapes)
        asked += one.shape.gpu_milli * one.shape.count * one.members * one.run_ns
        yield one


def _job(parameters: Parameters, draw: random.Random, number: int, shapes: Sequence[Shape]) -> Arrival:
    given = shapes[int(draw.random() * len(shapes))] if shapes else None
    shape, members = (given, 1) if given else _shape(parameters, draw)
    seconds = _duration(parameters, draw)
    priority = _priority(parameters, draw)
    limit = _limit(seconds, draw) if _of_hundred(draw) < parameters.limit_pct else None
    name = f"job-{number:06d}"
    return Arrival(
        job=name,
        at_ns=0,
        shape=shape,
        run_ns=seconds * NS,
        tenant=f"team-{1 + int(draw.random() * parameters.tenants)}",
        priority=priority,
        limit_seconds=limit,
        gang=name if members > 1 else "",
        members=members,
        preemptible=priority < 0,
    )


def _shape(parameters: Parameters, draw: random.Random) -> tuple[Shape, int]:
    """(shape, members): a share, a card, several cards, a gang of one or more cards each, or a partition."""
    kind = _of_hundred(draw)
    if kind >= 100 - parameters.partition_pct:
        slices = _one_of(_PARTITIONS, draw)
        return Shape(slices * WHOLE // 7, profile=f"{slices}g"), 1
    if kind < parameters.share_pct:
        return Shape(_one_of(_SHARES, draw)), 1
    if kind < parameters.share_pct + parameters.one_card_pct:
        return Shape(WHOLE), 1
    several = min(_one_of(_SEVERAL, draw), parameters.cards_per_node, parameters.cards)
    if kind < parameters.share_pct + parameters.one_card_pct + parameters.several_pct:
        return Shape(WHOLE, count=several), 1
    most = max(1, parameters.cards // 2 // several)
    return Shape(WHOLE, count=several), min(_one_of(_GANGS, draw), most)


def _priority(parameters: Parameters, draw: random.Random) -> int:
    kind = _of_hundred(draw)
    if kind < parameters.low_pct:
        return PRIORITIES["low"]
    return PRIORITIES["high" if kind >= 100 - parameters.high_pct else "normal"]


def _duration(parameters: Parameters, draw: random.Random) -> int:
    normal = math.sqrt(-2 * math.log(1 - draw.random())) * math.cos(2 * math.pi * draw.random())  # Box and Muller
    seconds = round(parameters.median_seconds * math.exp(normal * parameters.sigma_pct / 100))
    return max(1, min(parameters.longest_seconds, seconds))


def _limit(seconds: int, draw: random.Random) -> int:
    """The next of the few round times that people write, or whole days."""
    wanted = int(seconds * (1 + 3 * draw.random()))
    return next((limit for limit in _LIMITS if limit >= wanted), -(-wanted // _DAY) * _DAY)


def _instant(parameters: Parameters, draw: random.Random) -> int:
    """A second of the trace: N of them, each by itself, are a Poisson process of which N is known."""
    swing, weekend = parameters.day_swing_pct / 100, parameters.weekend_pct / 100
    highest = (1 + swing) * max(1.0, weekend)
    while True:
        at = int(draw.random() * parameters.days * _DAY)
        day = 1 - swing * math.cos(2 * math.pi * (at % _DAY - _QUIETEST_SECOND) / _DAY)
        if draw.random() * highest < day * (weekend if at // _DAY % 7 >= 5 else 1.0):
            return at


def _one_of(weighted: tuple[tuple[int, int], ...], draw: random.Random) -> int:
    point = draw.random() * sum(weight for _, weight in weighted)
    for value, weight in weighted:
        point -= weight
        if point < 0:
            return value
    return weighted[-1][0]


def _of_hundred(draw: random.Random) -> int:
    return int(draw.random() * 100)
