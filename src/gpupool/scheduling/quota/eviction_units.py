"""Units of eviction: a job, a gang, or a member that its gang does not need.

Of each role of a gang the members that started first stay, as many as the role needs. Among equals
those on the first cards stay, so that members that may leave sit together. A member beyond that is
spare and may leave alone. Where the need of a role is not known, the gang leaves as a whole. A
member that is leaving already is not counted: when too few stay, the whole gang is leaving.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpupool.scheduling.snapshot.claims import RunningJob


@dataclass(frozen=True)
class EvictionUnit:
    """Jobs that leave together, and the spare members of their gang that leave with them."""

    jobs: tuple[RunningJob, ...]
    spare: tuple[RunningJob, ...] = ()


def list_eviction_units(running: Iterable[RunningJob]) -> list[EvictionUnit]:
    """Divide running jobs into units, in the given order; a gang's spare members follow it."""
    gangs: dict[str, list[RunningJob]] = defaultdict(list)
    alone = dict[str, RunningJob]()
    for job in running:
        if job.gang:
            gangs[job.gang].append(job)
        else:
            alone[job.job] = job
    found = [EvictionUnit((job,)) for job in alone.values()]
    for jobs in gangs.values():
        found += _split_gang(jobs)
    return found


def _split_gang(jobs: Sequence[RunningJob]) -> list[EvictionUnit]:
    staying = [job for job in jobs if not job.beneficiary]
    spare = _find_spare_members(staying)
    if spare is None:
        return [EvictionUnit(tuple(jobs))]
    beyond = {job.job for job in spare}
    leaving = [EvictionUnit((job,)) for job in jobs if job.beneficiary]
    core = tuple(job for job in staying if job.job not in beyond)
    return [
        *([EvictionUnit(core, tuple(spare))] if core else []),
        *(EvictionUnit((job,)) for job in spare),
        *leaving,
    ]


def _find_spare_members(staying: Sequence[RunningJob]) -> list[RunningJob] | None:
    """Return members beyond what their roles need, oldest first; None where the gang has none."""
    roles: dict[str, list[RunningJob]] = defaultdict(list)
    for job in staying:
        roles[job.role].append(job)
    found = list[RunningJob]()
    for members in roles.values():
        least = max(
            (job.role_minimum for job in members if job.role_minimum is not None), default=None
        )
        # Fewer than needed run: the gang is on its way out (or in), and no member is spare.
        if least is None or len(members) < least:
            return None
        # Those that run longest stay: they would lose most work.
        found += sorted(members, key=_order_by_start)[least:]
    return sorted(found, key=_order_by_start)


def _order_by_start(job: RunningJob) -> tuple[int, tuple[int, ...], str]:
    # Members of a gang start in one plan, so the row decides, and at last the name.
    return job.started_ns, job.rows, job.job
