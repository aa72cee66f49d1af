"""What running work could give back, and what that would cost: the candidates for eviction, gangs as a whole.

The price of a job is the work that would be lost, the time since it last saved (or since it started) times the compute
that it holds. Pure facts about running jobs; whom it would help is looked for elsewhere.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from gpupool.scheduling.snapshot import Running
from gpupool.scheduling.units import units

SECOND = 10**9
HIGHEST = 1 << 31
"""Above every priority."""


@dataclass(frozen=True)
class PreemptionRules:
    """Who may be evicted, and how often. `evicted` counts, per tenant, its jobs evicted within the last hour.

    `grace_s` is how long a job gets to save its work; deciding only tells it to whoever acts.
    """

    enabled: bool = True
    reclaims: bool = True
    """Whether borrowed quota is taken back by evicting who runs on it; else its owner waits for their ends."""
    fair: bool = True
    """Whether what is held beyond a tenant's due is taken back too, for claims within theirs (`fair_share`)."""
    grace_s: int = 60
    per_hour: int | None = 60
    """Of one tenant's jobs; None is no limit."""
    protected_s: int = 300
    """A job that started less than this ago is left alone: else it would lose its start-up again and again."""
    evicted: Mapping[str, int] = field(default_factory=dict)

    def left(self, tenant: str) -> int | None:
        return None if self.per_hour is None else max(0, self.per_hour - self.evicted.get(tenant, 0))


GENTLE = PreemptionRules()


@dataclass(frozen=True)
class Victim:
    """Jobs that are evicted together: one, or all of a gang that run, or those that it cannot do without."""

    jobs: tuple[Running, ...]
    lost_seconds: tuple[int, ...]
    """By job."""
    spare: tuple[Victim, ...] = ()
    """Members of the gang that may leave before it, and leave with it."""

    @property
    def tenant(self) -> str:
        return self.jobs[0].tenant

    @cached_property
    def milli(self) -> int:
        return sum(sum(job.milli) for job in self.jobs)

    @cached_property
    def rows(self) -> list[int]:
        return [row for job in self.jobs for row in job.rows]

    @cached_property
    def priority(self) -> int:
        return max(job.priority for job in self.jobs)

    @cached_property
    def cost(self) -> int:
        """Lost milli-device-seconds."""
        each = zip(self.jobs, self.lost_seconds, strict=True)
        return sum(lost * sum(job.milli) for job, lost in each)

    @cached_property
    def price(self) -> int:
        """What is lost when it leaves, with those that leave with it."""
        return self.cost + sum(one.cost for one in self.spare)

    @cached_property
    def count(self) -> int:
        """Jobs that leave when it does."""
        return len(self.jobs) + len(self.spare)

    @cached_property
    def key(self) -> tuple[int, int, int, str]:
        """Cheapest first, then fewest jobs, then the one that started last."""
        return self.price, self.count, -max(job.started_ns for job in self.jobs), self.jobs[0].job

    def yields_to(self, priority: int) -> bool:
        """Whether it may be evicted for that priority alone: all of its jobs are preemptible, and lower."""
        return self.priority < priority and all(job.preemptible for job in self.jobs)


def together(running: Iterable[Running], now_ns: int) -> list[Victim]:
    """Every running job that is not told to leave already, with those that it would take along."""
    stay = (unit for unit in units(running) if not any(job.leaving_for for job in unit.jobs))
    spare = dict[str, Victim]()
    found = list[Victim]()
    for unit in stay:
        with_it = tuple(_victim((job,), now_ns) for job in unit.spare)
        spare |= {one.jobs[0].job: one for one in with_it}
        name = unit.jobs[0].job
        found.append(spare[name] if name in spare else _victim(unit.jobs, now_ns, with_it))
    return found


def whole(victims: Iterable[Victim]) -> list[Victim]:
    """These, each once, with those that leave because of them."""
    return list({id(one): one for victim in victims for one in (victim, *victim.spare)}.values())


def without(victims: Iterable[Victim], gone: Iterable[Victim]) -> list[Victim]:
    """Those that are left, of which none takes one along that has gone."""
    names = {job.job for one in gone for job in one.jobs}
    left = [one for one in victims if one.jobs[0].job not in names]
    return [replace(one, spare=_kept(one.spare, names)) if one.spare else one for one in left]


def _kept(spare: Iterable[Victim], gone: Container[str]) -> tuple[Victim, ...]:
    return tuple(one for one in spare if one.jobs[0].job not in gone)


def _victim(jobs: Sequence[Running], now_ns: int, spare: tuple[Victim, ...] = ()) -> Victim:
    ordered = tuple(sorted(jobs, key=lambda job: job.job))
    return Victim(ordered, tuple(lost_seconds(job, now_ns) for job in ordered), spare)


def lost_seconds(job: Running, now_ns: int) -> int:
    """Work that an eviction throws away."""
    return max(0, now_ns - max(job.started_ns, job.saved_ns or job.started_ns)) // SECOND


def of_lower_priority(victims: Iterable[Victim], priority: int, rules: PreemptionRules, now_ns: int) -> list[Victim]:
    """Those that a claim of that priority may evict: all of their jobs are preemptible, lower, and past their start."""
    return [
        victim
        for victim in victims
        if all(
            one.yields_to(priority) and all(job.started_ns + rules.protected_s * SECOND <= now_ns for job in one.jobs)
            for one in (victim, *victim.spare)
        )
    ]


class Budgets:
    """Evictions that are left per tenant, as a plan uses them up."""

    def __init__(self, rules: PreemptionRules) -> None:
        self._rules = rules
        self._used: Counter[str] = Counter()

    def allow(self, victims: Sequence[Victim]) -> bool:
        """Whether all of these may be evicted, beside those that already are."""
        asked: Counter[str] = Counter()
        for victim in victims:
            asked[victim.tenant] += len(victim.jobs)
        return all(self._covers(tenant, count) for tenant, count in asked.items())

    def could_free(self, victims: Iterable[Victim], milli: int) -> bool:
        """Whether as many as may be evicted hold that much; an upper bound."""
        held: dict[str, list[int]] = defaultdict(list)
        for victim in victims:
            held[victim.tenant].append(victim.milli)
        most = 0
        for tenant, each in held.items():
            left = self._left(tenant)
            most += sum(sorted(each, reverse=True)[: len(each) if left is None else left])
        return bool(held) and most >= milli

    def use(self, victims: Iterable[Victim]) -> None:
        for victim in victims:
            self._used[victim.tenant] += len(victim.jobs)

    def _covers(self, tenant: str, count: int) -> bool:
        left = self._left(tenant)
        return left is None or count <= left

    def _left(self, tenant: str) -> int | None:
        left = self._rules.left(tenant)
        return None if left is None else max(0, left - self._used[tenant])
