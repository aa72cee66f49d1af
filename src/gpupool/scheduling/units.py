"""What leaves its seats together: a job, a gang, or a member that its gang goes on without.

Of each role of a gang those members stay that started first (of equals those on the first cards, so that those who may
leave sit together), as many as the role needs; whoever runs beyond that is spare and may leave alone. Where it is not
known how many a role needs, the gang leaves as a whole. A member that is leaving already is not counted: when too few
stay, the whole gang is leaving.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpupool.scheduling.snapshot import Running


@dataclass(frozen=True)
class Unit:
    """Jobs that leave together, and those of their gang that could have left before them and then leave too."""

    jobs: tuple[Running, ...]
    spare: tuple[Running, ...] = ()


def units(running: Iterable[Running]) -> list[Unit]:
    """Every running job is in one of them, in the order in which they are given; a gang's spare members follow it."""
    gangs: dict[str, list[Running]] = defaultdict(list)
    alone = dict[str, Running]()
    for job in running:
        if job.gang:
            gangs[job.gang].append(job)
        else:
            alone[job.job] = job
    found = [Unit((job,)) for job in alone.values()]
    for jobs in gangs.values():
        found += _of_gang(jobs)
    return found


def _of_gang(jobs: Sequence[Running]) -> list[Unit]:
    staying = [job for job in jobs if not job.leaving_for]
    spare = _spare(staying)
    if spare is None:
        return [Unit(tuple(jobs))]
    beyond = {job.job for job in spare}
    leaving = [Unit((job,)) for job in jobs if job.leaving_for]
    core = tuple(job for job in staying if job.job not in beyond)
    return [*([Unit(core, tuple(spare))] if core else []), *(Unit((job,)) for job in spare), *leaving]


def _spare(staying: Sequence[Running]) -> list[Running] | None:
    """Those beyond what their roles need, who started first before the others; None where the gang has no such."""
    roles: dict[str, list[Running]] = defaultdict(list)
    for job in staying:
        roles[job.role].append(job)
    found = list[Running]()
    for members in roles.values():
        least = max((job.least for job in members if job.least is not None), default=None)
        if least is None or len(members) < least:
            return None
        found += sorted(members, key=_order)[least:]
    return sorted(found, key=_order)


def _order(job: Running) -> tuple[int, tuple[int, ...], str]:
    return job.started_ns, job.rows, job.job
