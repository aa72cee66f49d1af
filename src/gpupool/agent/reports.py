"""Telling the server: a queue and one thread that posts it, at once and in order, as long as it takes.

A report stays in the queue until the server has answered; an agent that dies finds what it owes in its job
directories. Knows neither jobs nor supervisors: who queued a report is told when it was taken in.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gpupool.base.backoff import Backoff
from gpupool.base.errors import BadInput, GpupoolError
from gpupool.base.silence import ROUND_SECONDS, busy
from gpupool.base.supervised import SupervisedThread
from gpupool.wire.fleet import DeviceSample, JobSample, ReportIn, ReportsIn, ReportsOut

BATCH = 1000
ANSWER_SECONDS = 30.0

log = logging.getLogger(__name__)


class Api(Protocol):
    """What an agent needs of `client.transport.Api`. Belongs to one thread."""

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Any = None,
        timeout: float | None = None,
        whole_state: bool = False,
    ) -> Any: ...

    def close(self) -> None: ...


class Reporter:
    """`put` from any thread. `answered` is called in the reporter's thread with each report and whether its
    generation was stale.
    """

    def __init__(
        self,
        agent: str,
        make_api: Callable[[], Api],
        answered: Callable[[ReportIn, bool], None],
        random: Callable[[], float],
    ) -> None:
        self._path = f"nodes/{agent}/reports"
        self._make_api, self._answered = make_api, answered
        self._backoff = Backoff(random)
        self._news = threading.Condition()
        self._reports: list[ReportIn] = []
        self._devices: dict[str, DeviceSample] = {}
        self._jobs: dict[str, JobSample] = {}
        self._ready = self._closing = False
        self._thread = SupervisedThread("agent-reports", self._run)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop posting. What is queued and terminal is told again by the next agent, from disk."""
        with self._news:
            self._closing = True
            self._news.notify()

    def join(self, seconds: float | None = None) -> None:
        self._thread.join(seconds)

    def put(self, report: ReportIn) -> None:
        with self._news:
            self._reports.append(report)
            self._news.notify()

    def put_samples(self, devices: Sequence[DeviceSample], jobs: Sequence[JobSample]) -> None:
        """Samples are news: a younger one replaces an older one that has not been told yet."""
        if not devices and not jobs:
            return
        with self._news:
            self._devices |= {sample.uuid: sample for sample in devices}
            self._jobs |= {sample.job: sample for sample in jobs}
            self._news.notify()

    def put_ready(self) -> None:
        """Everything this agent had is queued; the server hears of it with the last of it."""
        with self._news:
            self._ready = True
            self._news.notify()

    def _run(self) -> None:
        api = self._make_api()
        while (batch := self._take()) is not None:
            try:
                self._post(api, batch)
                self._backoff.reset()
            except Exception as error:  # noqa: BLE001  logged there, and told again
                # Reports are idempotent: what the server took in before this error is told once more.
                self._failed(batch, error)
        api.close()

    def _take(self) -> ReportsIn | None:
        """Wait for something to tell; None when closing."""
        with self._news:
            while not (self._closing or self._reports or self._devices or self._jobs or self._ready):
                self._news.wait()
            if self._closing:
                return None
            taken, self._reports = self._reports[:BATCH], self._reports[BATCH:]
            ready = self._ready and not self._reports
            body = ReportsIn(
                reports=taken, devices=list(self._devices.values()), jobs=list(self._jobs.values()), ready=ready
            )
            self._devices, self._jobs = {}, {}
            self._ready = self._ready and not ready
            return body

    def _post(self, api: Api, body: ReportsIn) -> None:
        try:
            with busy(ANSWER_SECONDS + ROUND_SECONDS):
                answer = api.request("POST", self._path, _json(body), timeout=ANSWER_SECONDS)
        except BadInput as error:
            self._refused(api, body, error)
            return
        stale = frozenset(ReportsOut.model_validate(answer).stale)
        for report in body.reports:
            with busy():
                self._answered(report, report.allocation in stale)

    def _refused(self, api: Api, body: ReportsIn, error: BadInput) -> None:
        """One report that the server cannot read must not hold up the others: tell them one by one."""
        if len(body.reports) + bool(body.devices or body.jobs) + body.ready <= 1:
            log.error("the server refuses what this agent tells, which is dropped: %s", error)
            return
        for report in body.reports:
            self._post(api, ReportsIn(reports=[report], ready=False))
        if body.devices or body.jobs:
            self._post(api, ReportsIn(devices=body.devices, jobs=body.jobs, ready=False))
        if body.ready:
            self._post(api, ReportsIn(ready=True))

    def _failed(self, body: ReportsIn, error: Exception) -> None:
        """Queue it again, before what came since; wait, but not when closing."""
        with self._news:
            self._reports[:0] = body.reports
            self._devices = {sample.uuid: sample for sample in body.devices} | self._devices
            self._jobs = {sample.job: sample for sample in body.jobs} | self._jobs
            self._ready = self._ready or body.ready
            pause = self._backoff.pause()
            outage = isinstance(error, GpupoolError)
            log.warning(
                "could not report (%d waiting), again in %.2f s: %s",
                len(self._reports),
                pause,
                error,
                exc_info=None if outage else error,
            )
            self._news.wait_for(lambda: self._closing, pause)


def _json(body: ReportsIn) -> dict[str, Any]:
    return body.model_dump(mode="json", exclude_defaults=True)
