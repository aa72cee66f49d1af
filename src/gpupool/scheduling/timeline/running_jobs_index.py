"""Index of running jobs: by gang, by the beneficiary of their eviction, and by end time.

Lives with the planning state from snapshot to snapshot and follows what came, went or was evicted,
so that nothing about running jobs is computed anew for each plan. It decides nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping
from collections.abc import Set as AbstractSet

from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.running_jobs_log import RunningJobsView
from gpupool.scheduling.timeline.job_end_times import JobEndTimes

Group = dict[str, RunningJob]


class RunningJobsIndex:
    """Running jobs by what plans ask; `follow` makes it that of a snapshot.

    Answers depend on that snapshot alone, not on earlier ones.
    """

    def __init__(self) -> None:
        #: Number of jobs looked at so far: the cost of following.
        self.looked = 0

    def begin(self, cards: CardTable) -> None:
        """Start with the cards of a pool on which no job runs."""
        self.ends = JobEndTimes(cards)
        self._seen: tuple[RunningJob, ...] = ()
        self._jobs: Group = {}
        self._gangs: defaultdict[str, Group] = defaultdict(dict)
        self._leaving: defaultdict[str, Group] = defaultdict(dict)
        self._reserved: Group = {}
        self._guessed: Group = {}
        self._preemptible = 0

    def follow(self, running: tuple[RunningJob, ...]) -> None:
        """Follow the jobs that run now, on the same cards."""
        if running is self._seen:
            return
        # A view knows its own log of changes; a plain tuple is compared job by job, with the same
        # result.
        changed = running.find_changes(self._seen) if isinstance(running, RunningJobsView) else None
        for name, job in (self._find_changes(running) if changed is None else changed).items():
            self.looked += 1
            if name in self._jobs:
                self._remove_job(self._jobs[name])
            if job is not None:
                self._add_job(job)
        self._seen = running

    # --- answers -------------------------------------------------------------------------

    def list_gang_members(self, gang: str) -> list[RunningJob]:
        """Return the members of the gang that run."""
        return self._sort_group(self._gangs.get(gang, {}))

    @property
    def running_gangs(self) -> AbstractSet[str]:
        """Gangs of which a member runs."""
        return self._gangs.keys()

    def list_leaving_for(self, job: str) -> list[RunningJob]:
        """Return the jobs being evicted for this job or gang."""
        return self._sort_group(self._leaving.get(job, {}))

    def is_awaited_by(self, job: str) -> bool:
        """Whether a job is being evicted for this job or gang."""
        return job in self._leaving

    def list_beneficiaries(self) -> list[str]:
        """Return the jobs and gangs for which a job is being evicted."""
        return sorted(self._leaving)

    def list_leaving(self) -> list[RunningJob]:
        """Return the jobs being evicted, by beneficiary."""
        return self.list_leaving_for_others(())

    def list_leaving_for_others(self, waits: Container[str]) -> list[RunningJob]:
        """Return the jobs being evicted for a claim that no longer waits: others may count on their
        seats.
        """
        found = list[RunningJob]()
        for name in sorted(self._leaving):
            if name not in waits:
                found += self.list_leaving_for(name)
        return found

    def list_reserved(self) -> list[RunningJob]:
        """Return the jobs that run in a reservation."""
        return self._sort_group(self._reserved)

    def list_guessed(self) -> list[RunningJob]:
        """Return the jobs whose end is an estimate, not a limit."""
        return self._sort_group(self._guessed)

    @property
    def has_evictable_jobs(self) -> bool:
        """Whether a job is being evicted or could be."""
        return bool(self._preemptible or self._leaving)

    # --- changes -------------------------------------------------------------------------

    def _find_changes(self, running: tuple[RunningJob, ...]) -> Mapping[str, RunningJob | None]:
        self.looked += len(running)
        now = {job.job: job for job in running}
        known = self._jobs
        changed = dict[str, RunningJob | None]()
        for name in known:
            if name not in now:
                changed[name] = None
        # By identity: a host makes a new object for a job that has changed.
        for name, job in now.items():
            if known.get(name) is not job:
                changed[name] = job
        return changed

    def _add_job(self, job: RunningJob) -> None:
        self._jobs[job.job] = job
        self.ends.add_job(job)
        if job.gang:
            self._gangs[job.gang][job.job] = job
        if job.beneficiary:
            self._leaving[job.beneficiary][job.job] = job
        if job.reservation is not None:
            self._reserved[job.job] = job
        if job.guessed:
            self._guessed[job.job] = job
        self._preemptible += job.preemptible

    def _remove_job(self, job: RunningJob) -> None:
        del self._jobs[job.job]
        self.ends.remove_job(job.job)
        _remove_from_group(self._gangs, job.gang, job)
        _remove_from_group(self._leaving, job.beneficiary, job)
        self._reserved.pop(job.job, None)
        self._guessed.pop(job.job, None)
        self._preemptible -= job.preemptible

    def _sort_group(self, group: Group) -> list[RunningJob]:
        """Sort a group, so that the order does not depend on earlier snapshots."""
        self.looked += len(group)
        return sorted(group.values(), key=lambda job: (job.started_ns, job.job))


def _remove_from_group(groups: dict[str, Group], name: str, job: RunningJob) -> None:
    if name:
        del groups[name][job.job]
        if not groups[name]:
            del groups[name]
