"""A job that belongs to its client: submitted, waited for, attached to a terminal, seen to its end.

Survives the pool's absence: the program runs under its own supervisor, so a pool that
restarts in the middle is waited for and never noticed by the program. What is told to people
comes out through `tell`; this module prints nothing. Imported before every `gpupool run`.
"""

from __future__ import annotations

import os
import time

from gpupool.base.errors import GpupoolError, ServiceUnavailable, WrongState
from gpupool.client.messages import path_segment
from gpupool.client.transport import Api

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Job = dict[str, Any]
    Tell = Callable[[str, Job], None]
    """Called with what happened ("waiting", "granted", "away", "back") and the job as last
    known."""

#: States that a job does not leave (`model.job.ENDED`; the model would cost an import).
ENDED = frozenset({"done", "failed", "stopped", "lost"})
#: A job that is placed within this time has not waited.
SETTLE_SECONDS = 2.0
#: The pool may hold a poll for so long before it answers that nothing has changed.
POLL_SECONDS = 20.0
#: A poll's answer may take that much longer than the poll: then the pool is taken for lost.
GRACE_SECONDS = 15.0
#: A submission brings a lease of 15 s; commands shorter than this never renew it.
FIRST_RENEWAL_SECONDS = 5.0
#: Between two attempts to reach a pool that is away.
AWAY_PAUSE_SECONDS = 0.2
#: The program's exit code is known by then; the pool needs a moment to free the share, and one that
#: is away must not hold up the shell.
RELEASE_SECONDS = 15.0


def exit_code_of(job: Job) -> int:
    """The exit code a shell would show for an ended job."""
    if job.get("exit_code") is not None:
        return int(job["exit_code"])
    if job.get("signal") is not None:
        return 128 + int(job["signal"])
    return 0 if job["state"] == "done" else 1


class AttachedRun:
    """One run of one job. `run()` blocks until the program has ended and its share is free
    again."""

    def __init__(
        self, api: Api, body: Job, tell: Tell, *, pty: bool, with_log: bool = False
    ) -> None:
        self.api = api
        self.body = body
        self.tell = tell
        self.pty = pty
        self.with_log = with_log
        self.key = os.urandom(16).hex()
        self.job: Job = {}
        self._away = False

    def run(self) -> int:
        """The exit code of the program. KeyboardInterrupt stops the job and is raised again."""
        try:
            self.job = self._submit()
            self._until_attachable()
            if self.job["state"] in ENDED:
                return exit_code_of(self.job)
            self.tell("granted", self.job)
            return self._attached_to_the_end()
        except KeyboardInterrupt:
            self.stop()
            raise

    def _attached_to_the_end(self) -> int:
        try:
            code = self._attach()
        except (WrongState, ServiceUnavailable):
            # Stopped before it could be attached to, or its supervisor is gone: the pool knows how
            # it ended.
            self._until_ended(RELEASE_SECONDS)
            if self.job["state"] not in ENDED:
                raise
            return exit_code_of(self.job)
        except GpupoolError:
            self._until_ended(RELEASE_SECONDS)
            raise
        self._until_ended(RELEASE_SECONDS)
        return code

    def stop(self) -> None:
        """End the job if it exists, also when the answer to the submission was interrupted."""
        try:
            if not self.job:
                # Half an answer may be left on the connection of the interrupted request.
                self.api.close()
                self.job = self._submit()
            self._request("POST", "/stop", {})
            self._until_ended(RELEASE_SECONDS)
        except ServiceUnavailable:
            return  # the lease is not renewed any more: the pool ends the job when it is back

    def _submit(self) -> Job:
        """The same request each time, so that a repetition finds the job of the first."""
        answer = self.api.request("POST", "jobs", self.body, idempotency_key=self.key)
        job: Job = answer["first"]
        return job

    def _until_attachable(self) -> None:
        seconds = SETTLE_SECONDS
        while not self.job.get("attach_socket") and self.job["state"] not in ENDED:
            self.job = self._news(seconds, lease=True) or self.job
            seconds = POLL_SECONDS
            if self.job["state"] == "pending":
                self.tell("waiting", self.job)

    def _attach(self) -> int:
        from gpupool.client.attach import attach_to_job

        attached = attach_to_job(self.job["attach_socket"], pty=self.pty, with_log=self.with_log)
        lease = _JobLease(self.api, self.job)
        try:
            code: int = attached.run_until_exit()
            return code
        finally:
            lease.end()

    def _until_ended(self, seconds: float) -> None:
        """See the job end, which frees its share; give up when the pool stays away."""
        deadline = time.monotonic() + seconds
        while self.job["state"] not in ENDED:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self.job = self._news(min(left, 5.0), lease=False) or self.job

    def _news(self, seconds: float, *, lease: bool) -> Job | None:
        """The job once it has changed, or after so many seconds; None while the pool is away."""
        query = {
            "generation": self.job["generation"],
            "wait_seconds": round(seconds, 1),
            "lease": lease,
        }
        try:
            job: Job = self._request("GET", "", None, query, seconds + GRACE_SECONDS)
        except ServiceUnavailable:
            if not self._away:
                self.tell("away", self.job)
            self._away = True
            time.sleep(AWAY_PAUSE_SECONDS)  # between two attempts to reach a pool that is not there
            return None
        if self._away:
            self._away = False
            self.tell("back", self.job)
        return job

    def _request(
        self,
        method: str,
        tail: str,
        body: Job | None,
        query: Job | None = None,
        timeout: float | None = None,
    ) -> Any:
        path = f"jobs/{path_segment(self.job['id'])}{tail}"
        return self.api.request(method, path, body, query=query, timeout=timeout)


class _JobLease:
    """Keeps a job's lease from a thread of its own while the program runs.

    A bare thread: importing `threading` costs more than many jobs take.
    """

    def __init__(self, api: Api, job: Job) -> None:
        import _thread

        self._api = api.another()
        self._job = job
        self._ended = _thread.allocate_lock()
        self._ended.acquire()
        _thread.start_new_thread(self._renew, ())

    def end(self) -> None:
        self._ended.release()

    def _renew(self) -> None:
        pause = FIRST_RENEWAL_SECONDS
        while not self._ended.acquire(timeout=pause) and self._job["state"] not in ENDED:
            try:
                self._job = self._hold()
                pause = 0.01
            except ServiceUnavailable:
                pause = 1.0
            except GpupoolError:
                return  # the pool knows no such job any more: there is nothing to hold

    def _hold(self) -> Job:
        """One long poll, which holds the lease while it is open."""
        query = {"generation": self._job["generation"], "wait_seconds": POLL_SECONDS, "lease": True}
        path = f"jobs/{path_segment(self._job['id'])}"
        job: Job = self._api.request("GET", path, query=query, timeout=POLL_SECONDS + GRACE_SECONDS)
        return job
