"""Build the jobs of a replay from the arrivals of a trace, with roles of a gang together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpupool.model.claim import Shape
from gpupool.model.gang import Gang, GangGroup, GangRole
from gpupool.scheduling.snapshot.claims import ClassKey
from gpupool.simulation.replay.world import SimulatedJob
from gpupool.simulation.traces.trace import JobArrival


def share_equal_shapes(arrivals: Iterable[JobArrival]) -> list[JobArrival]:
    """Give equal shapes one object: a decision compares shapes often, and the same object at once."""
    known: dict[Shape, Shape] = {}
    return [replace(one, shape=known.setdefault(one.shape, one.shape)) for one in arrivals]


def group_gangs(arrivals: Sequence[JobArrival]) -> Iterator[tuple[JobArrival, ...]]:
    """Yield the arrivals, with all roles of a gang together at the place of its first role."""
    gangs: dict[str, list[JobArrival]] = {}
    for one in arrivals:
        if one.gang:
            gangs.setdefault(one.gang, []).append(one)
    for one in arrivals:
        if not one.gang:
            yield (one,)
        elif gangs[one.gang][0] is one:
            yield tuple(gangs[one.gang])


def build_jobs(group: Sequence[JobArrival]) -> Iterator[SimulatedJob]:
    """Build the jobs of one arrival, or of the roles of one gang.

    The members of an arrival are named `name.0`, `name.1`, ...
    """
    first = group[0]
    gang = _build_gang(group) if len(group) > 1 or first.members > 1 else None
    # A gang runs until its last role ends; with one role unlimited its end is unknown.
    limits = [one.limit_seconds for one in group]
    limit = None if None in limits else max(limit or 0 for limit in limits)
    key = ClassKey(
        first.tenant,
        first.priority,
        first.shape,
        limit,
        gang.id if gang else "",
        None,
        first.preemptible,
    )
    for one in group:
        for number, name in enumerate(list_members(one)):
            yield SimulatedJob(
                id=name,
                key=key,
                shape=one.shape,
                submitted_ns=one.at_ns,
                left_ns=one.run_ns,
                gang=gang,
                preemptible=one.preemptible,
                counts=one is first and number == 0,
            )


def list_members(arrival: JobArrival) -> list[str]:
    """List the names of an arrival's jobs."""
    if arrival.members == 1:
        return [arrival.job]
    return [f"{arrival.job}.{number}" for number in range(arrival.members)]


def _build_gang(group: Sequence[JobArrival]) -> Gang:
    name = group[0].gang or group[0].job
    roles: list[GangRole] = []
    members: list[str] = []
    for one in group:
        roles.append(GangRole(one.job, one.shape, one.members, one.members))
        members += list_members(one)
    return Gang(name, GangGroup(name, tuple(roles)), tuple(members))
