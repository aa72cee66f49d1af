"""Victims: what running work could give back, and what that would cost; gangs as a whole.

The cost of a job is the work that would be lost: the time since it last saved (or started) times
the compute that it holds. These are facts about running jobs; other modules choose the beneficiary.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.scheduling.quota.eviction_units import list_eviction_units
from gpupool.scheduling.snapshot.claims import RunningJob

#: Above every priority.
ABOVE_ALL_PRIORITIES = 1 << 31


@dataclass(frozen=True)
class PreemptionRules:
    """Which jobs may be evicted, and how often.

    `evicted` counts by tenant its jobs evicted within the last hour. `grace_s` is how long a job
    gets to save its work; the scheduler only reports it.
    """

    enabled: bool = True
    #: Whether borrowed quota is reclaimed by eviction; otherwise its owner waits for the jobs'
    #: ends.
    reclaims: bool = True
    #: Whether use above a fair share is reclaimed too, for claims within theirs (`fair_share`).
    fair: bool = True
    grace_s: int = 60
    #: Evictions of one tenant's jobs in an hour; None is no limit.
    per_hour: int | None = 60
    #: A job that started less than this ago is left alone: else it would lose its start-up
    #: repeatedly.
    protected_s: int = 300
    evicted: Mapping[str, int] = field(default_factory=dict)

    def count_left(self, tenant: str) -> int | None:
        """Count the evictions that the tenant has left in this hour; None is no limit."""
        return (
            None if self.per_hour is None else max(0, self.per_hour - self.evicted.get(tenant, 0))
        )


#: The rules of a host that sets none.
DEFAULT_PREEMPTION_RULES = PreemptionRules()


@dataclass(frozen=True)
class Victim:
    """Jobs that are evicted together: one job, a whole running gang, or the members that it needs."""

    jobs: tuple[RunningJob, ...]
    #: Lost work by job.
    lost_seconds: tuple[int, ...]
    #: Members of the gang that may leave before it, and leave with it.
    spare: tuple[Victim, ...] = ()

    @property
    def tenant(self) -> str:
        """The tenant of all its jobs."""
        return self.jobs[0].tenant

    @cached_property
    def job_ids(self) -> tuple[str, ...]:
        """The ids of its jobs."""
        return tuple(job.job for job in self.jobs)

    @cached_property
    def milli(self) -> int:
        """Compute that it holds, in milli-devices."""
        return sum(sum(job.milli) for job in self.jobs)

    @cached_property
    def rows(self) -> list[int]:
        """Rows of its cards."""
        return list(chain.from_iterable(job.rows for job in self.jobs))

    @cached_property
    def priority(self) -> int:
        """The highest priority of its jobs."""
        return max(job.priority for job in self.jobs)

    @cached_property
    def cost(self) -> int:
        """Lost work in milli-device-seconds."""
        each = zip(self.jobs, self.lost_seconds, strict=True)
        return sum(lost * sum(job.milli) for job, lost in each)

    @cached_property
    def price(self) -> int:
        """Lost work with that of the members that leave with it."""
        return self.cost + sum(one.cost for one in self.spare)

    @cached_property
    def count(self) -> int:
        """Number of jobs that leave with it, its own included."""
        return len(self.jobs) + len(self.spare)

    @cached_property
    def key(self) -> tuple[int, int, int, str]:
        """Cheapest first, then fewest jobs, then the one that started last."""
        return self.price, self.count, -max(job.started_ns for job in self.jobs), self.jobs[0].job

    def is_evictable_for(self, priority: int) -> bool:
        """Whether all its jobs are preemptible and of lower priority."""
        return self.priority < priority and all(job.preemptible for job in self.jobs)


def list_victims(running: Iterable[RunningJob], now_ns: int) -> list[Victim]:
    """List every running job that is not leaving already, with the members that it takes along."""
    spare = dict[str, Victim]()
    found = list[Victim]()
    for unit in list_eviction_units(running):
        if any(job.beneficiary for job in unit.jobs):
            continue
        with_it = tuple(_make_victim((job,), now_ns) for job in unit.spare)
        for one in with_it:
            spare[one.jobs[0].job] = one
        name = unit.jobs[0].job
        # A spare member is one object, alone in the list and in its gang's `spare`: it is released
        # once, though it may be chosen by both ways (`add_spare_members` compares identity).
        found.append(spare[name] if name in spare else _make_victim(unit.jobs, now_ns, with_it))
    return found


def add_spare_members(victims: Iterable[Victim]) -> list[Victim]:
    """Return these victims, each once, with those that leave because of them."""
    found = dict[int, Victim]()
    for victim in victims:
        found.update((id(one), one) for one in (victim, *victim.spare))
    return list(found.values())


def list_jobs(victims: Iterable[Victim]) -> list[RunningJob]:
    """List the jobs of all these victims."""
    return list(chain.from_iterable(victim.jobs for victim in victims))


def remove_victims(victims: Iterable[Victim], gone: Iterable[Victim]) -> list[Victim]:
    """Return the victims that are left, without references to those that have gone."""
    names = {job.job for job in list_jobs(gone)}
    left = list[Victim]()
    for one in victims:
        if one.jobs[0].job not in names:
            left.append(replace(one, spare=_filter_spare(one.spare, names)) if one.spare else one)
    return left


def _filter_spare(spare: Iterable[Victim], gone: Container[str]) -> tuple[Victim, ...]:
    return tuple(one for one in spare if one.jobs[0].job not in gone)


def _make_victim(jobs: Sequence[RunningJob], now_ns: int, spare: tuple[Victim, ...] = ()) -> Victim:
    # By name: `jobs[0]` names the victim in keys and messages, whatever order the host lists jobs
    # in.
    ordered = tuple(sorted(jobs, key=lambda job: job.job))
    return Victim(ordered, tuple(compute_lost_work_seconds(job, now_ns) for job in ordered), spare)


def compute_lost_work_seconds(job: RunningJob, now_ns: int) -> int:
    """Compute the work in seconds that an eviction throws away."""
    # Whole seconds, and never below 0: clocks of hosts differ, and a job may have saved "in the
    # future".
    return max(0, now_ns - max(job.started_ns, job.saved_ns or job.started_ns)) // NANOS_PER_SECOND


def select_evictable(
    victims: Iterable[Victim], priority: int, rules: PreemptionRules, now_ns: int
) -> list[Victim]:
    """Select the victims that a claim of that priority may evict.

    All their jobs must be preemptible, of lower priority, and past their protected start.
    """
    protected_ns = rules.protected_s * NANOS_PER_SECOND
    found = list[Victim]()
    for victim in victims:
        # Its spare members leave with it, so they must be evictable too.
        for one in (victim, *victim.spare):
            newest_ns = max(job.started_ns for job in one.jobs)
            if not one.is_evictable_for(priority) or newest_ns + protected_ns > now_ns:
                break
        else:
            found.append(victim)
    return found


class EvictionBudgets:
    """Evictions left per tenant, as a plan uses them up."""

    def __init__(self, rules: PreemptionRules) -> None:
        self._rules = rules
        self._used: Counter[str] = Counter()

    def is_allowed(self, victims: Sequence[Victim]) -> bool:
        """Whether all of these may be evicted, beside those that already are."""
        asked: Counter[str] = Counter()
        for victim in victims:
            asked[victim.tenant] += len(victim.jobs)
        return all(self._is_covered(tenant, count) for tenant, count in asked.items())

    def can_free(self, victims: Iterable[Victim], milli: int) -> bool:
        """Whether as many as may be evicted hold that much compute; an upper bound."""
        held: dict[str, list[int]] = defaultdict(list)
        for victim in victims:
            held[victim.tenant].append(victim.milli)
        most = 0
        for tenant, each in held.items():
            left = self._count_left(tenant)
            most += sum(sorted(each, reverse=True)[: len(each) if left is None else left])
        return bool(held) and most >= milli

    def record_evictions(self, victims: Iterable[Victim]) -> None:
        """Count these evictions."""
        for victim in victims:
            self._used[victim.tenant] += len(victim.jobs)

    def _is_covered(self, tenant: str, count: int) -> bool:
        left = self._count_left(tenant)
        return left is None or count <= left

    def _count_left(self, tenant: str) -> int | None:
        left = self._rules.count_left(tenant)
        return None if left is None else max(0, left - self._used[tenant])
