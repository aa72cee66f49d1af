"""Generate traces from parameters and a seed: arrivals, durations, shapes, gangs and tenants.

The same parameters give the same trace on every machine and every version. Only
`random.Random.random()` is drawn from, whose sequence Python promises to keep, and everything is
rounded to whole seconds. The load follows what published clusters show: mostly shares and single
cards, few large jobs that hold much of the card-time, durations over several orders of magnitude,
busy days and quiet nights. No line of a real cluster's data is in it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace

from gpupool.base.errors import BadTrace
from gpupool.base.units import NANOS_PER_SECOND, WHOLE
from gpupool.model.claim import PRIORITIES, Shape
from gpupool.simulation.traces.trace import LONGEST_SECONDS, JobArrival, WorkloadTrace, build_trace

#: Seconds of a day.
_DAY = 86400
#: The second of the day with the fewest arrivals: 4:00.
_QUIETEST_SECOND = 4 * 3600
#: (milli-devices, how often).
_SHARES = ((100, 14), (200, 18), (250, 12), (300, 14), (500, 24), (700, 8), (800, 10))
#: (cards of one job, how often).
_SEVERAL = ((2, 50), (4, 35), (8, 15))
#: (members of a gang, how often).
_GANGS = ((2, 50), (4, 35), (8, 15))
#: (slices, how often), by the short names `1g` to `4g`; a slice is about a seventh of a card.
_PARTITIONS = ((1, 50), (2, 25), (3, 15), (4, 10))
#: Time limits that users write, in seconds; beyond them, whole days.
_LIMITS = (900, 3600, 4 * 3600, 12 * 3600)
#: Jobs of a trace: parameters such as a median of one second must not fill the memory.
MOST_JOBS = 1_000_000


@dataclass(frozen=True)
class TraceParameters:
    """What is generated. Parts and swings are percent; the trace starts on a Monday at 0:00.

    The names are those of `synthetic:name=value`, and stand in results.json.
    """

    seed: int = 42
    days: int = 7
    #: For a pool of so many cards, `cards_per_node` on a node: no job is larger than a node, no
    #: gang than half.
    cards: int = 32
    cards_per_node: int = 8
    #: Card-time asked for, of what the pool has in those days.
    load_pct: int = 100
    #: Arrivals in the busiest hour above the mean of the day, and below it in the quietest.
    day_swing_pct: int = 60
    #: Arrivals on Saturday and Sunday, of those on another day.
    weekend_pct: int = 40
    median_seconds: int = 1800
    #: Durations are lognormal: this is the standard deviation of their logarithm, in hundredths.
    sigma_pct: int = 150
    longest_seconds: int = 3 * _DAY
    #: How many of a hundred jobs are a share, one card, several cards of a node, a gang, a
    #: partition: together 100.
    share_pct: int = 50
    one_card_pct: int = 40
    several_pct: int = 7
    gang_pct: int = 3
    partition_pct: int = 0
    low_pct: int = 20
    #: Jobs of low and of high priority; those of low priority may be preempted.
    high_pct: int = 5
    #: Jobs that name a limit: one to four times what they really take, rounded up to a time that
    #: people write.
    limit_pct: int = 70
    #: Tenants `team-1`, `team-2`, ... of weights 1, 2, ..., which ask for equal parts.
    tenants: int = 3


def generate_trace(parameters: TraceParameters, shapes: Sequence[Shape] = ()) -> WorkloadTrace:
    """Generate the trace of these parameters.

    With `shapes` each job asks for one of them, and the parameters of kinds do not count.

    Raises:
        BadTrace: for parameters that make no sense together.
    """
    _check_parameters(parameters)
    draw = random.Random(parameters.seed)
    # All jobs are drawn before all instants: the order of draws is part of what a seed means, and
    # a change to it changes every trace of every seed.
    jobs = list(_draw_jobs(parameters, draw, shapes))
    times = sorted(_draw_arrival(parameters, draw) for _ in jobs)
    arrivals: list[JobArrival] = []
    for job, second in zip(jobs, times, strict=True):
        arrivals.append(replace(job, at_ns=second * NANOS_PER_SECOND))
    weights = {f"team-{n}": n for n in range(1, parameters.tenants + 1)}
    return build_trace(f"synthetic, seed {parameters.seed}", arrivals, weights)


def parse_parameters(text: str) -> TraceParameters:
    """Parse `days=2,load_pct=120`; parameters that are not named keep their defaults.

    Raises:
        BadTrace: for an unknown name (the nearest known one is named) or a bad value.
    """
    given: dict[str, int] = {}
    known = [field.name for field in fields(TraceParameters)]
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name.strip() not in known:
            raise _refuse_name(name, known)
        # `isascii`: `int` would read digits of other scripts, which a report could not show.
        if not (value.isascii() and value.strip().isdigit()):
            raise BadTrace(
                f"synthetic: {name} is a whole number, not {value!r}", hint=f"write {name}=10"
            )
        given[name.strip()] = int(value)
    parameters = replace(TraceParameters(), **given)
    _check_parameters(parameters)
    return parameters


def _refuse_name(name: str, known: list[str]) -> BadTrace:
    import difflib  # only a mistyped name needs it

    near = difflib.get_close_matches(name.strip(), known, n=1)
    meant = f"did you mean {near[0]}?  " if near else ""
    return BadTrace(
        f"synthetic has no parameter {name!r}", hint=f"{meant}it has: {', '.join(known)}"
    )


def list_parameters(parameters: TraceParameters) -> dict[str, int]:
    """Return the parameters by name, for reports."""
    return asdict(parameters)


#: Percentages of the kinds of jobs, which are 100 together.
_KINDS = ("share_pct", "one_card_pct", "several_pct", "gang_pct", "partition_pct")
#: Lowest and highest value; a percentage that is not listed lies from 0 to 100.
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


def _check_parameters(parameters: TraceParameters) -> None:
    for name, value in asdict(parameters).items():
        low, high = _BOUNDS.get(name, (0, 100))
        if not low <= value <= high:
            raise BadTrace(f"synthetic: {name}={value} is not from {low} to {high}")
    kinds = [getattr(parameters, name) for name in _KINDS]
    if sum(kinds) != 100:
        parts = " + ".join(map(str, kinds))
        raise BadTrace(f"synthetic: {' + '.join(_KINDS)} is {parts} = {sum(kinds)}, not 100")
    if parameters.low_pct + parameters.high_pct > 100:
        raise BadTrace(
            f"synthetic: low_pct + high_pct is {parameters.low_pct + parameters.high_pct}, more than 100"
        )


def _draw_jobs(
    parameters: TraceParameters, draw: random.Random, shapes: Sequence[Shape]
) -> Iterator[JobArrival]:
    """Draw jobs until they ask for the load; their instants are drawn later.

    The load is compute times time: `load_pct` percent of what all cards give in those days, in
    thousandths of a card times nanoseconds.
    """
    pool_ns = parameters.cards * parameters.days * _DAY * NANOS_PER_SECOND
    wanted = parameters.load_pct * pool_ns * WHOLE // 100
    number = 0
    total = 0
    while total < wanted:
        number += 1
        if number > MOST_JOBS:
            raise BadTrace(
                f"synthetic: this makes more than {MOST_JOBS} jobs",
                hint="fewer days, or longer jobs",
            )
        job = _draw_job(parameters, draw, number, shapes)
        total += job.shape.gpu_milli * job.shape.count * job.members * job.run_ns
        yield job


def _draw_job(
    parameters: TraceParameters, draw: random.Random, number: int, shapes: Sequence[Shape]
) -> JobArrival:
    if shapes:
        shape = shapes[int(draw.random() * len(shapes))]
        members = 1
    else:
        shape, members = _draw_shape(parameters, draw)
    seconds = _draw_seconds(parameters, draw)
    priority = _draw_priority(parameters, draw)
    limit = _draw_limit(seconds, draw) if _draw_percent(draw) < parameters.limit_pct else None
    name = f"job-{number:06d}"
    return JobArrival(
        job=name,
        at_ns=0,
        shape=shape,
        run_ns=seconds * NANOS_PER_SECOND,
        tenant=f"team-{1 + int(draw.random() * parameters.tenants)}",
        priority=priority,
        limit_seconds=limit,
        gang=name if members > 1 else "",
        members=members,
        preemptible=priority < 0,
    )


def _draw_shape(parameters: TraceParameters, draw: random.Random) -> tuple[Shape, int]:
    """Draw (shape, members): a share, a card, several cards, a gang, or a partition."""
    kind = _draw_percent(draw)
    # Partitions take the upper end of the hundred: with `partition_pct` 0, the default, traces
    # are those of the releases that knew no partitions.
    if kind >= 100 - parameters.partition_pct:
        slices = _draw_weighted(_PARTITIONS, draw)
        return Shape(slices * WHOLE // 7, profile=f"{slices}g"), 1
    if kind < parameters.share_pct:
        return Shape(_draw_weighted(_SHARES, draw)), 1
    if kind < parameters.share_pct + parameters.one_card_pct:
        return Shape(WHOLE), 1
    several = min(_draw_weighted(_SEVERAL, draw), parameters.cards_per_node, parameters.cards)
    if kind < parameters.share_pct + parameters.one_card_pct + parameters.several_pct:
        return Shape(WHOLE, count=several), 1
    # At most half the pool: a gang as large as the pool would start only when all else has ended.
    most = max(1, parameters.cards // 2 // several)
    return Shape(WHOLE, count=several), min(_draw_weighted(_GANGS, draw), most)


def _draw_priority(parameters: TraceParameters, draw: random.Random) -> int:
    kind = _draw_percent(draw)
    if kind < parameters.low_pct:
        return PRIORITIES["low"]
    return PRIORITIES["high" if kind >= 100 - parameters.high_pct else "normal"]


def _draw_seconds(parameters: TraceParameters, draw: random.Random) -> int:
    # Box and Muller: sqrt(-2 ln u) cos(2 pi v) of two uniform numbers is a normal one. Not
    # `Random.gauss`, whose sequence Python may change. `1 - u` lies in (0, 1]: no logarithm of 0.
    radius = math.sqrt(-2 * math.log(1 - draw.random()))
    normal = radius * math.cos(2 * math.pi * draw.random())
    seconds = round(parameters.median_seconds * math.exp(normal * parameters.sigma_pct / 100))
    return max(1, min(parameters.longest_seconds, seconds))


def _draw_limit(seconds: int, draw: random.Random) -> int:
    """Draw a limit of one to four times the run, rounded up to a time that users write."""
    wanted = int(seconds * (1 + 3 * draw.random()))
    for limit in _LIMITS:
        if limit >= wanted:
            return limit
    return -(-wanted // _DAY) * _DAY


def _draw_arrival(parameters: TraceParameters, draw: random.Random) -> int:
    """Draw the second of one arrival.

    N instants drawn independently from a density are a Poisson process with that rate, given that
    it has N events. The density is a cosine over the day times a factor on weekends, drawn from by
    rejection: a uniform instant stays with the probability density / highest density.
    """
    swing = parameters.day_swing_pct / 100
    weekend = parameters.weekend_pct / 100
    highest = (1 + swing) * max(1.0, weekend)
    while True:
        at = int(draw.random() * parameters.days * _DAY)
        density = 1 - swing * math.cos(2 * math.pi * (at % _DAY - _QUIETEST_SECOND) / _DAY)
        if at // _DAY % 7 >= 5:
            density *= weekend
        if draw.random() * highest < density:
            return at


def _draw_weighted(weighted: tuple[tuple[int, int], ...], draw: random.Random) -> int:
    point = draw.random() * sum(weight for _, weight in weighted)
    for value, weight in weighted:
        point -= weight
        if point < 0:
            return value
    # Rounding can leave `point` at 0 after the last weight.
    return weighted[-1][0]


def _draw_percent(draw: random.Random) -> int:
    return int(draw.random() * 100)
