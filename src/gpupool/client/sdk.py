"""The Python SDK: what the command line does, for programs. Results are the shapes of
`gpupool.wire`.

from gpupool.client import Pool

with Pool() as pool:
    result = pool.run(["python", "train.py"], gpu=0.3, memory="8GiB")
    job = pool.submit(["python", "sweep.py"], gpu=1, name="sweep")
    for event in pool.watch(): ...
"""

from __future__ import annotations

import os
import shlex
import warnings
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from gpupool.base.client_settings import client_settings
from gpupool.base.errors import BadOption
from gpupool.client.attached_run import ENDED, AttachedRun
from gpupool.client.messages import path_segment
from gpupool.client.paging import iterate_items
from gpupool.client.pool_views import PoolViews
from gpupool.client.submission import job_body, resize_body
from gpupool.client.transport import Api
from gpupool.client.watch import watch_events
from gpupool.wire.answers import read_answer

if TYPE_CHECKING:
    from gpupool.base.errors import EventsReset
    from gpupool.client.chains.schedules import Schedules
    from gpupool.wire.common import Event
    from gpupool.wire.jobs import ExplainOut, JobOut, ResizedOut, SubmittedOut
    from gpupool.wire.report import ReportOut
    from gpupool.wire.views.previews import PreviewOut

#: The pool may hold a request for so long before it answers that nothing has changed.
WAIT_SECONDS = 20.0
#: Bytes of output in one answer.
LOG_PIECE = 1 << 18


class JobOptions(TypedDict, total=False):
    """Options of a share and of a job, as on the command line: numbers or text."""

    gpu: float | str
    memory: str
    count: int
    model: str
    labels: Mapping[str, str]
    sharing: str
    priority: int | str
    max_time: str
    name: str
    tenant: str
    project: str
    cpus: float | str
    host_memory: str
    topology: str
    gang: int
    gang_min: int
    gang_file: str
    reservation: str
    isolation: str
    goal: str
    host: str
    preemptible: bool
    requeue: bool
    exact: bool
    when_idle: str
    idle_after: str
    wait: bool
    fence: bool
    cwd: str
    network: str
    address: str
    security_groups: Sequence[str]
    after: Sequence[str]
    retries: int
    retry_backoff: str


class Pool(PoolViews):
    """One pool, found as the command line finds it, or named by its state directory or URL.

    Belongs to one thread. Errors are those of `gpupool.base.errors`, with their public codes.
    """

    def __init__(
        self,
        state_dir: str | os.PathLike[str] | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
    ) -> None:
        if state_dir is not None and url is not None:
            raise BadOption("a pool has a state directory or a URL, not both")
        named = None if state_dir is None else os.fspath(state_dir)
        settings = client_settings(state_dir=named)
        if url is not None:
            settings.state_dir = None
            settings.url = url
        if token is not None:
            settings.token = token
        self.api = Api(settings)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection up; jobs are not touched."""
        self.api.close()

    def submit(
        self, command: str | Sequence[str], *, array: int | None = None, **asked: Unpack[JobOptions]
    ) -> SubmittedOut:
        """Hand in a command, or an array of them; returns at once."""
        from gpupool.wire.jobs import SubmittedOut

        body = self._body(command, asked, array=array, attached=False)
        answer = self.api.request("POST", "jobs", body, idempotency_key=os.urandom(16).hex())
        return read_answer(SubmittedOut, answer)

    def preview(
        self, command: str | Sequence[str], *, array: int | None = None, **asked: Unpack[JobOptions]
    ) -> PreviewOut:
        """Say where a submission would go, or why it would wait; submit nothing."""
        return self.preview_body(self._body(command, asked, array=array, attached=False))

    def run(self, command: str | Sequence[str], **asked: Unpack[JobOptions]) -> JobOut:
        """Run a command with this process's stdin, stdout and stderr; blocks until it has ended and
        its share is free.

        Only on the pool's own machine. KeyboardInterrupt stops the job.
        """
        from gpupool.wire.jobs import JobOut

        if not self.local:
            raise BadOption("run() needs a pool on this machine", hint="use submit() and logs()")
        running = AttachedRun(
            self.api, self._body(command, asked, array=None, attached=True), _ignore_news, pty=False
        )
        running.run()
        return read_answer(JobOut, running.job)

    @property
    def local(self) -> bool:
        """Whether the pool is on this machine."""
        return self.api.local

    def jobs(self, *, all: bool = False, **filters: Any) -> Iterator[JobOut]:  # noqa: A002  # the API's own word
        """Jobs, newest first. `filters` are state, name, tenant, project, user, live, q and sort."""
        from gpupool.wire.jobs import JobOut

        for item in iterate_items(self.api, "jobs", {"all": all or None, **filters}):
            yield read_answer(JobOut, item)

    def job(self, name: str) -> JobOut:
        """One job by name or id; `last` is your newest."""
        from gpupool.wire.jobs import JobOut

        return read_answer(JobOut, self.api.request("GET", f"jobs/{path_segment(name)}"))

    def wait(self, name: str) -> JobOut:
        """Block until the job has ended."""
        job = self.job(name)
        while job.state not in ENDED:
            query = {"generation": job.generation, "wait_seconds": WAIT_SECONDS}
            job = read_answer(
                type(job), self.api.request("GET", f"jobs/{path_segment(job.id)}", query=query)
            )
        return job

    def resize(
        self, name: str, *, gpu: float | str | None = None, memory: str | None = None
    ) -> ResizedOut:
        """Another share per card for a running job, in force when this returns unless `applied` is
        false.

        Raises RequestRejection's classes when its cards have no room for it; then nothing has changed.
        """
        from gpupool.wire.jobs import ResizedOut

        body = resize_body(None if gpu is None else str(gpu), memory)
        path = f"jobs/{path_segment(name)}/resize"
        return read_answer(
            ResizedOut, self.api.request("POST", path, body, query={"wait_seconds": WAIT_SECONDS})
        )

    def suspend(self, name: str) -> JobOut:
        """Move a running job's memory to the host and free its share; returns when its node has
        answered.

        `suspension.state` is "suspended" then, or "failed" with the reason in `suspension.note`.
        """
        return self._move_job(name, "suspend")

    def resume(self, name: str) -> JobOut:
        """Bring a suspended job back to its cards; returns when its node has answered.

        `suspension` is None then, or "suspended" with the reason in `suspension.note`. Raises
        RequestRejection's classes when its cards have no room for it; then nothing has changed.
        """
        return self._move_job(name, "resume")

    def _move_job(self, name: str, verb: str) -> JobOut:
        from gpupool.wire.jobs import JobOut

        path = f"jobs/{path_segment(name)}/{verb}"
        answer = self.api.request("POST", path, {}, query={"wait_seconds": WAIT_SECONDS})
        while (answer["suspension"] or {}).get("state") in ("suspending", "resuming"):
            query = {"generation": answer["generation"], "wait_seconds": WAIT_SECONDS}
            answer = self.api.request("GET", f"jobs/{path_segment(answer['id'])}", query=query)
        return read_answer(JobOut, answer)

    def stop(self, name: str, *, grace_seconds: int | None = None) -> list[JobOut]:
        """Ask for the end of a job, or of an array's live jobs. Does not wait for it."""
        from gpupool.wire.jobs import JobOut

        body = {} if grace_seconds is None else {"grace_seconds": grace_seconds}
        stopped = self.api.request("POST", f"jobs/{path_segment(name)}/stop", body)
        return [read_answer(JobOut, job) for job in stopped]

    def logs(self, name: str, *, follow: bool = False, offset: int = 0) -> Iterator[bytes]:
        """A job's output in pieces; with `follow` until the job has ended."""
        while True:
            query = {
                "offset": offset,
                "limit": LOG_PIECE,
                "wait_seconds": WAIT_SECONDS if follow else 0,
            }
            piece = self.api.request("GET", f"jobs/{path_segment(name)}/logs", query=query)
            data = b64decode(piece["data"])
            if data:
                yield data
            offset = piece["next_offset"]
            if piece["ended"] or not (data or follow):
                return

    def explain(self, name: str = "last") -> ExplainOut:
        """Why a job waits, or why it runs where it runs."""
        from gpupool.wire.jobs import ExplainOut

        return read_answer(
            ExplainOut, self.api.request("GET", f"jobs/{path_segment(name)}/explain")
        )

    @property
    def schedules(self) -> Schedules:
        """Jobs that are submitted again and again."""
        from gpupool.client.chains.schedules import Schedules

        return Schedules(self.api, partial(self._body, array=None, attached=False))

    def watch(
        self,
        after: int = 0,
        *,
        epoch: str | None = None,
        kinds: Iterable[str] | None = None,
        on_reset: Callable[[EventsReset], object] | None = None,
    ) -> Iterator[Event]:
        """Every event above `after`, once and in order, over reconnects and restarts of the pool;
        never ends.

        `epoch` is the `event_epoch` of the pool that `after` is from. When the pool was restored,
        its event log is another one: `on_reset` is called (default: a RuntimeWarning), then the
        events after the end of that log follow.
        """
        from gpupool.wire.common import Event

        wanted = None if kinds is None else frozenset(kinds)
        for item in watch_events(
            self.api, after, epoch=epoch, kinds=wanted, on_reset=on_reset or _warn_of_reset
        ):
            yield read_answer(Event, item)

    def report(
        self,
        since: str | datetime = "24h",
        until: str | datetime = "now",
        *,
        by: str | Sequence[str] = "tenant",
        tenant: str | None = None,
        prices: Mapping[str, object] | None = None,
        cpu_price: object = None,
        memory_price: object = None,
        rule: str = "max",
        currency: str | None = None,
    ) -> ReportOut:
        """Report what each tenant used; the rows add up to the capacity exactly.

        `prices` are per card and hour, by model or `*`; the other two are per processor and hour,
        and per GiB of main memory and hour.
        """
        from gpupool.wire.report import ReportOut

        query = {
            "since": _instant(since),
            "until": _instant(until),
            "by": by if isinstance(by, str) else ",".join(by),
            "tenant": tenant,
            "price": [f"{model}:{price}" for model, price in (prices or {}).items()],
            "cpu_price": None if cpu_price is None else str(cpu_price),
            "memory_price": None if memory_price is None else str(memory_price),
            "rule": rule,
            "currency": currency,
        }
        return read_answer(ReportOut, self.api.request("GET", "report", query=query))

    def _body(
        self,
        command: str | Sequence[str],
        asked: JobOptions | Mapping[str, Any],
        *,
        array: int | None,
        attached: bool,
    ) -> dict[str, Any]:
        given: dict[str, Any] = dict(asked)
        for key in ("gpu", "priority", "cpus"):
            if key in given:
                given[key] = str(given[key])
        given["labels"] = [f"{key}={value}" for key, value in given.get("labels", {}).items()]
        argv = shlex.split(command) if isinstance(command, str) else list(command)
        return job_body(argv, array=array, attached=attached, local=self.local, **given)


def _instant(when: str | datetime) -> str:
    return when if isinstance(when, str) else when.isoformat()


def _warn_of_reset(error: EventsReset) -> None:
    warnings.warn(
        f"{error.message}; going on after event {error.details['last_event']}",
        RuntimeWarning,
        stacklevel=3,
    )


def _ignore_news(_what: str, _job: dict[str, Any]) -> None:
    """A program asks `explain` itself."""
