"""Running jobs as they come and go: whoever keeps them notes each change, and every view knows those since another.

A snapshot names its running jobs in a tuple. One that a `Register` made also tells what changed since an earlier one of
its own, so that who follows a pool from snapshot to snapshot looks at three jobs and not at ten thousand.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpupool.scheduling.snapshot import Running

_LEAST_KEPT = 4096

Change = tuple[str, Running | None]
"""A job, and what is so of it from now on; None: it holds nothing any more."""


class Runs(tuple[Running, ...]):
    """What ran at one instant, and its place in the list of changes; equal to a plain tuple of the same jobs."""

    _changes: list[Change]
    _position: int

    def since(self, earlier: tuple[Running, ...]) -> Mapping[str, Running | None] | None:
        """By name the jobs that changed since then, as they are now; None where that is not known (any more)."""
        if not isinstance(earlier, Runs) or earlier._changes is not self._changes or earlier._position > self._position:
            return None
        return dict(self._changes[earlier._position : self._position])


class Register:
    """The running jobs of one pool by name, in the order in which they came. Not thread-safe; its views are."""

    def __init__(self) -> None:
        self._jobs: dict[str, Running] = {}
        self._changes: list[Change] = []
        self._view: Runs | None = None

    def put(self, job: Running) -> None:
        """It holds these seats from now on."""
        if self._jobs.get(job.job) != job:
            self._jobs[job.job] = job
            self._note(job.job, job)

    def drop(self, name: str) -> None:
        """It holds nothing any more; nothing happens where it held nothing before."""
        if self._jobs.pop(name, None) is not None:
            self._note(name, None)

    def clear(self) -> None:
        for name in list(self._jobs):
            self.drop(name)

    def view(self) -> Runs:
        """What runs now; the same one until something changes."""
        if self._view is None:
            self._view = Runs(self._jobs.values())
            self._view._changes, self._view._position = self._changes, len(self._changes)
        return self._view

    def _note(self, name: str, job: Running | None) -> None:
        if len(self._changes) >= max(_LEAST_KEPT, 4 * len(self._jobs)):
            self._changes = []  # a new list: views of before keep theirs and are compared job by job, once
        self._changes.append((name, job))
        self._view = None
