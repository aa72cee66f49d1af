"""The running jobs of a pool and a log of their changes.

A snapshot names its running jobs in a tuple. A tuple that a `RunningJobsRegister` made also knows
what changed since an earlier one of the same log. A reader that follows a pool from snapshot to
snapshot therefore reads a few changed jobs instead of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpupool.scheduling.snapshot.claims import RunningJob

_LEAST_KEPT = 4096

#: A job, and what is so of it from now on; None: it holds nothing any more.
JobChange = tuple[str, RunningJob | None]


class RunningJobsView(tuple[RunningJob, ...]):
    """The jobs that ran at one instant, with a position in the log of changes.

    A view is equal to a plain tuple of the same jobs.
    """

    _changes: list[JobChange]
    _position: int

    def find_changes(
        self, earlier: tuple[RunningJob, ...]
    ) -> Mapping[str, RunningJob | None] | None:
        """Return the jobs that changed since an earlier view, as they are in this view.

        Args:
            earlier: Another view, or any tuple of running jobs.

        Returns:
            Changed jobs by id, None for a job that ended. None if the changes are not known:
                `earlier`
            comes from another log, is newer, or is older than the log.
        """
        if (
            not isinstance(earlier, RunningJobsView)
            or earlier._changes is not self._changes
            or earlier._position > self._position
        ):
            return None
        return dict(self._changes[earlier._position : self._position])


class RunningJobsRegister:
    """The running jobs of one pool by id, in order of arrival.

    The log is not thread-safe. Its views are.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, RunningJob] = {}
        self._changes: list[JobChange] = []
        self._view: RunningJobsView | None = None
        #: The jobs whose cards have an owner.
        self._owning = dict[str, RunningJob]()

    def put_job(self, job: RunningJob) -> None:
        """Add a job or replace its record. Idempotent."""
        if self._jobs.get(job.job) != job:
            self._jobs[job.job] = job
            self._note(job.job, job)

    def remove_job(self, name: str) -> None:
        """Remove a job. Does nothing if the job is unknown."""
        if self._jobs.pop(name, None) is not None:
            self._note(name, None)

    def remove_all(self) -> None:
        """Remove every job."""
        for name in list(self._jobs):
            self.remove_job(name)

    def get_view(self) -> RunningJobsView:
        """Return the jobs that run now; the same object until something changes."""
        if self._view is None:
            self._view = RunningJobsView(self._jobs.values())
            self._view._changes = self._changes
            self._view._position = len(self._changes)
        return self._view

    def list_card_owners(self) -> Mapping[int, str]:
        """Return the owner of each card that serves MPS shares, by row."""
        owners = dict[int, str]()
        for job in self._owning.values():
            owners |= dict.fromkeys(job.rows, job.shape.owner)
        return owners

    def _note(self, name: str, job: RunningJob | None) -> None:
        if len(self._changes) >= max(_LEAST_KEPT, 4 * len(self._jobs)):
            self._changes = []  # a new list: views of before keep theirs and are compared job by job, once
        self._changes.append((name, job))
        self._owning.pop(name, None)
        if job is not None and job.shape.owner:
            self._owning[name] = job
        self._view = None
