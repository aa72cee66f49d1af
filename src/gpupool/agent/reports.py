"""Posts reports and samples to the server: a queue, and one thread that empties it in order.

A report stays in the queue until the server has accepted it. An agent that dies finds the reports
that are still due in its job directories. Must not know jobs or supervisors: a callback learns of
each accepted report.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

from gpupool.agent.monitoring.fault_journal import MOST_WAITING, FaultJournal
from gpupool.agent.network.flows.flow_reports import join_reports
from gpupool.base.backoff import Backoff
from gpupool.base.errors import BadInput, GpupoolError
from gpupool.base.silence import ROUND_SECONDS, mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.wire.answers import read_answer
from gpupool.wire.faults.incidents import CardFaultIn
from gpupool.wire.fleet import ReportIn, ReportsIn, ReportsOut
from gpupool.wire.modes import ModeReport
from gpupool.wire.network.engine import NetworkEngineReport
from gpupool.wire.network.planes import PlaneReading
from gpupool.wire.samples import DeviceSample, JobSample

#: Reports of one request; no list of `ReportsIn` takes fewer.
BATCH = 1000
#: Samples of jobs, which come with the reports of their ends.
JOBS = 10_000
#: Seconds after which a server that does not answer counts as away.
ANSWER_SECONDS = 30.0

log = logging.getLogger(__name__)

Sample = TypeVar("Sample")


class Api(Protocol):
    """The part of `client.transport.Api` that an agent uses. Belongs to one thread."""

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Any = None,
        timeout: float | None = None,
        whole_state: bool = False,
    ) -> Any:
        """Send one request and return the answer. Raises GpupoolError."""

    def close(self) -> None:
        """Close the connection."""


class Reporter:
    """The queue of reports and its thread. The methods are thread-safe and never block."""

    def __init__(
        self,
        agent: str,
        make_api: Callable[[], Api],
        confirm: Callable[[ReportIn, bool], None],
        random: Callable[[], float],
        faults: Path,
    ) -> None:
        """Make the reporter; `start` begins to post.

        Args:
            agent: The agent's name.
            make_api: Makes the connection of the reporter's thread.
            confirm: Called in that thread with each accepted report and whether the server called
                its generation stale.
            random: Shortens the pauses of retries; a number from 0 to 1.
            faults: Where XIDs wait on disk until the server has them.
        """
        self._path = f"nodes/{agent}/reports"
        self._make_api = make_api
        self._confirm = confirm
        self._backoff = Backoff(random)
        self._news = threading.Condition()
        self._reports: list[ReportIn] = []
        self._devices: dict[str, DeviceSample] = {}
        self._jobs: dict[str, JobSample] = {}
        self._modes: dict[str, ModeReport] = {}
        self._journal = FaultJournal(faults)
        self._faults: list[CardFaultIn] = []
        self._network: NetworkEngineReport | None = None
        self._planes: PlaneReading | None = None
        self._ready = self._closing = False
        self._thread = SupervisedThread("agent-reports", self._run)

    def start(self) -> None:
        """Start to post; first of all the XIDs that an earlier agent left."""
        self._faults = self._journal.read()
        self._thread.start()

    def close(self) -> None:
        """Stop posting. The next agent reports the ends in the queue again, from disk."""
        with self._news:
            self._closing = True
            self._news.notify()

    def join(self, seconds: float | None = None) -> None:
        """Wait for the end of the thread, for at most `seconds`."""
        self._thread.join(seconds)

    def put(self, report: ReportIn) -> None:
        """Queue a report."""
        with self._news:
            self._reports.append(report)
            self._news.notify()

    def put_samples(self, devices: Sequence[DeviceSample], jobs: Sequence[JobSample]) -> None:
        """Queue samples; a new one replaces an older one that is still in the queue."""
        if not devices and not jobs:
            return
        with self._news:
            self._devices |= {sample.uuid: sample for sample in devices}
            self._jobs |= {sample.job: sample for sample in jobs}
            self._news.notify()

    def put_fault(self, fault: CardFaultIn) -> None:
        """Queue an XID, which is kept on disk until the server has it. Blocks for the disk."""
        self._journal.add(fault)
        with self._news:
            self._faults.append(fault)
            self._news.notify()
        self._drop_old_faults()

    def _drop_old_faults(self) -> None:
        """Keep the newest XIDs alone, in the queue and on disk. Blocks for the disk."""
        with self._news:
            dropped = self._faults[:-MOST_WAITING]
            self._faults = self._faults[-MOST_WAITING:]
        if dropped:
            log.error("the oldest XIDs are dropped, %d: too many wait", len(dropped))
            self._journal.remove(dropped)

    def put_modes(self, reports: Sequence[ModeReport]) -> None:
        """Queue what became of switches; a new report replaces an older one of the same card."""
        if not reports:
            return
        with self._news:
            self._modes |= {report.uuid: report for report in reports}
            self._news.notify()

    def put_network(self, report: NetworkEngineReport) -> None:
        """Queue what an engine of networks is; a new report replaces the state of an older one."""
        with self._news:
            self._network = _join_reports(self._network, report)
            self._news.notify()

    def put_planes(self, reading: PlaneReading) -> None:
        """Queue what the machine shows of planes; a new reading replaces an older one."""
        with self._news:
            self._planes = reading
            self._news.notify()

    def put_ready(self) -> None:
        """Queue the mark "ready", behind every report that is in the queue now."""
        with self._news:
            self._ready = True
            self._news.notify()

    def _run(self) -> None:
        api = self._make_api()
        while (batch := self._take_batch()) is not None:
            try:
                self._post(api, batch)
                self._backoff.reset()
            except Exception as error:  # noqa: BLE001  logged there, and posted again
                # Reports are idempotent: those that the server accepted before this error are
                # posted once more.
                self._requeue(batch, error)
        api.close()

    def _take_batch(self) -> ReportsIn | None:
        """Wait for something to post; None when closing."""
        with self._news:
            while not (
                self._closing
                or self._reports
                or self._devices
                or self._jobs
                or self._modes
                or self._faults
                or self._network
                or self._planes
                or self._ready
            ):
                self._news.wait()
            if self._closing:
                return None
            ready = self._ready and len(self._reports) <= BATCH
            devices = dict(islice(self._devices.items(), BATCH))
            jobs = dict(islice(self._jobs.items(), JOBS))
            modes = dict(islice(self._modes.items(), BATCH))
            body = ReportsIn(
                reports=self._reports[:BATCH],
                devices=list(devices.values()),
                jobs=list(jobs.values()),
                modes=list(modes.values()),
                faults=self._faults[:BATCH],
                network=self._network,
                planes=self._planes,
                ready=ready,
            )
            # Only now: what is taken before an error would be lost.
            self._reports = self._reports[BATCH:]
            self._devices = _drop_keys(self._devices, devices)
            self._jobs = _drop_keys(self._jobs, jobs)
            self._modes = _drop_keys(self._modes, modes)
            self._faults = self._faults[BATCH:]
            self._network = None
            self._planes = None
            self._ready = self._ready and not ready
            return body

    def _post(self, api: Api, body: ReportsIn) -> None:
        try:
            with mark_busy(ANSWER_SECONDS + ROUND_SECONDS):
                answer = api.request("POST", self._path, _json(body), timeout=ANSWER_SECONDS)
        except BadInput as error:
            self._post_one_by_one(api, body, error)
            return
        self._journal.remove(body.faults)
        stale = frozenset(read_answer(ReportsOut, answer).stale)
        for report in body.reports:
            with mark_busy():
                self._confirm(report, report.allocation in stale)

    def _post_one_by_one(self, api: Api, body: ReportsIn, error: BadInput) -> None:
        """Post the parts of a refused batch alone, so that one bad report delays no other."""
        parts = (body.devices or body.jobs, body.modes, body.network, body.planes, body.ready)
        count = len(body.reports) + len(body.faults) + sum(map(bool, parts))
        if count == 1 and len(body.devices) + len(body.jobs) > 1:
            # What a job's program writes is in its sample: a bad one costs no other job its own.
            for half in _halve_samples(body):
                self._post(api, half)
            return
        if count <= 1:
            log.error("the server refuses what this agent tells, which is dropped: %s", error)
            self._journal.remove(body.faults)
            return
        for report in body.reports:
            self._post(api, ReportsIn(reports=[report], ready=False))
        if body.devices or body.jobs:
            self._post(api, ReportsIn(devices=body.devices, jobs=body.jobs, ready=False))
        for fault in body.faults:
            self._post(api, ReportsIn(faults=[fault], ready=False))
        if body.modes:
            self._post(api, ReportsIn(modes=body.modes, ready=False))
        if body.network:
            self._post(api, ReportsIn(network=body.network))
        if body.planes:
            self._post(api, ReportsIn(planes=body.planes))
        if body.ready:
            self._post(api, ReportsIn(ready=True))

    def _requeue(self, body: ReportsIn, error: Exception) -> None:
        """Queue a batch again, before what came since, and pause unless closing."""
        with self._news:
            self._reports[:0] = body.reports
            self._devices = {sample.uuid: sample for sample in body.devices} | self._devices
            self._jobs = {sample.job: sample for sample in body.jobs} | self._jobs
            self._modes = {report.uuid: report for report in body.modes} | self._modes
            self._faults[:0] = body.faults
            self._network = _join_reports(body.network, self._network)
            self._planes = self._planes or body.planes
            self._ready = self._ready or body.ready
        self._drop_old_faults()
        with self._news:
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


def _join_reports(
    before: NetworkEngineReport | None, after: NetworkEngineReport | None
) -> NetworkEngineReport | None:
    """Return the newer state, with the records of flows of both."""
    if before is None or after is None:
        return before or after
    flows = join_reports([*before.flows, *after.flows])
    return after.model_copy(update={"flows": flows})


def _halve_samples(body: ReportsIn) -> tuple[ReportsIn, ReportsIn]:
    """Split a request of samples alone: cards from jobs, else either into halves."""
    if body.devices and body.jobs:
        return ReportsIn(devices=body.devices), ReportsIn(jobs=body.jobs)
    cards = len(body.devices) // 2
    jobs = len(body.jobs) // 2
    return (
        ReportsIn(devices=body.devices[:cards], jobs=body.jobs[:jobs]),
        ReportsIn(devices=body.devices[cards:], jobs=body.jobs[jobs:]),
    )


def _drop_keys(queue: dict[str, Sample], taken: Container[str]) -> dict[str, Sample]:
    return {key: one for key, one in queue.items() if key not in taken}


def _json(body: ReportsIn) -> dict[str, Any]:
    return body.model_dump(mode="json", exclude_defaults=True)
