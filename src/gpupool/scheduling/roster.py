"""Who sits on the pool's cards, as the scheduler asks for it: by gang, by whom they leave for, and when each has ended.

Lives with its board from snapshot to snapshot and is changed by what came, went or was told to leave in between; so
what depends on running jobs is not made anew for each plan. It decides nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping
from collections.abc import Set as AbstractSet

from gpupool.scheduling.ends import Ends
from gpupool.scheduling.runs import Runs
from gpupool.scheduling.snapshot import Cards, Running

Group = dict[str, Running]


class Roster:
    """`follow` makes it that of a snapshot; what it answers depends on that alone, not on what it followed before."""

    def __init__(self) -> None:
        self.looked = 0
        """At so many jobs, every look counted: what following has cost."""

    def begin(self, cards: Cards) -> None:
        """The cards of a pool, with nobody on them."""
        self.ends = Ends(cards)
        self._seen: tuple[Running, ...] = ()
        self._jobs: Group = {}
        self._gangs: defaultdict[str, Group] = defaultdict(dict)
        self._leaving: defaultdict[str, Group] = defaultdict(dict)
        self._reserved: Group = {}
        self._guessed: Group = {}
        self._preemptible = 0

    def follow(self, running: tuple[Running, ...]) -> None:
        """Be as these run now, on the same cards as before."""
        if running is self._seen:
            return
        changed = running.since(self._seen) if isinstance(running, Runs) else None
        for name, job in (self._compared(running) if changed is None else changed).items():
            self.looked += 1
            if name in self._jobs:
                self._go(self._jobs[name])
            if job is not None:
                self._come(job)
        self._seen = running

    # --- answers -------------------------------------------------------------------------

    def of_gang(self, gang: str) -> list[Running]:
        """Members that run."""
        return self._in_order(self._gangs.get(gang, {}))

    @property
    def running_gangs(self) -> AbstractSet[str]:
        """Gangs of which a member runs."""
        return self._gangs.keys()

    def leaving_for(self, job: str) -> list[Running]:
        """Who was told to give its seats back to this job or gang."""
        return self._in_order(self._leaving.get(job, {}))

    def awaits(self, job: str) -> bool:
        """Whether anybody is leaving for this job or gang."""
        return job in self._leaving

    def awaited(self) -> list[str]:
        """The jobs and gangs for which somebody is leaving."""
        return sorted(self._leaving)

    def freed_beside(self, waits: Container[str]) -> list[Running]:
        """Who is leaving for a job or a gang that does not wait any more: others may count on what it gives back."""
        return [job for name in sorted(self._leaving) if name not in waits for job in self.leaving_for(name)]

    def reserved(self) -> list[Running]:
        """Those that run in a reservation."""
        return self._in_order(self._reserved)

    def guessed(self) -> list[Running]:
        """Those whose end no limit tells, only the past."""
        return self._in_order(self._guessed)

    @property
    def anyone_leaves(self) -> bool:
        """Whether there is anybody who is leaving, or could be told to."""
        return bool(self._preemptible or self._leaving)

    # --- changes -------------------------------------------------------------------------

    def _compared(self, running: tuple[Running, ...]) -> Mapping[str, Running | None]:
        self.looked += len(running)
        now, known = {job.job: job for job in running}, self._jobs
        gone: dict[str, Running | None] = {name: None for name in known if name not in now}
        return gone | {name: job for name, job in now.items() if known.get(name) is not job}

    def _come(self, job: Running) -> None:
        self._jobs[job.job] = job
        self.ends.come(job)
        if job.gang:
            self._gangs[job.gang][job.job] = job
        if job.leaving_for:
            self._leaving[job.leaving_for][job.job] = job
        if job.reservation is not None:
            self._reserved[job.job] = job
        if job.guessed:
            self._guessed[job.job] = job
        self._preemptible += job.preemptible

    def _go(self, job: Running) -> None:
        del self._jobs[job.job]
        self.ends.go(job.job)
        _out(self._gangs, job.gang, job)
        _out(self._leaving, job.leaving_for, job)
        self._reserved.pop(job.job, None)
        self._guessed.pop(job.job, None)
        self._preemptible -= job.preemptible

    def _in_order(self, group: Group) -> list[Running]:
        """The same whatever was followed before."""
        self.looked += len(group)
        return sorted(group.values(), key=lambda job: (job.started_ns, job.job))


def _out(groups: dict[str, Group], name: str, job: Running) -> None:
    if name:
        del groups[name][job.job]
        if not groups[name]:
            del groups[name]
