"""The agent: registers its nodes, polls the server for work, applies it and reports the results.

Embedded in `gpupool up` or alone it is the same program. It may be killed at any moment; closing it
stops no job. While idle it wakes once for each heartbeat, which is the long poll for work.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote

from gpupool.agent.agent_cgroups import AgentCgroups
from gpupool.agent.card_modes import CardModeChanger
from gpupool.agent.config import HEARTBEAT_SECONDS, AgentConfig, get_default_reaction
from gpupool.agent.jobs.checkpoint import JobDirectories
from gpupool.agent.jobs.faults import StepHook, ignore_step
from gpupool.agent.jobs.job_context import JobContext
from gpupool.agent.jobs.jobs import Jobs
from gpupool.agent.jobs.launch import find_mount_base
from gpupool.agent.log_trimmer import LogTrimmer
from gpupool.agent.monitoring.observer import UsageObserver
from gpupool.agent.network.engine import NetworkEngine
from gpupool.agent.network.planes.plane_reports import PlaneReports
from gpupool.agent.nodes import AgentNodes
from gpupool.agent.process_setup import (
    allow_many_files,
    find_arbiter_program,
    lock_state,
    make_launch_settings,
)
from gpupool.agent.relay.control import StreamControl
from gpupool.agent.reports import Api, Reporter
from gpupool.agent.supervisor.freeze import freeze_job
from gpupool.agent.work_reading import WorkReader
from gpupool.audit.card_processes import CardProcesses
from gpupool.audit.fence_auditor import FenceAuditor
from gpupool.audit.granted_time import GrantedTimeCheck
from gpupool.audit.mapping_check import FencedJob
from gpupool.audit.reactions import FindingReactions
from gpupool.base.backoff import Backoff
from gpupool.base.clock import wall_ns
from gpupool.base.errors import GpupoolError
from gpupool.base.health import CheckFinding
from gpupool.base.instance import claim_directory
from gpupool.base.settings import PoolPaths
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.mechanisms.arbiter import ArbiterProcess
from gpupool.probes.contract import Probe
from gpupool.wire.fleet import ReportIn, WorkPage
from gpupool.wire.samples import JobSample

#: Seconds beyond the long poll after which a server counts as silent.
_ANSWER_SECONDS: Final = 20.0
#: Seconds between two removals of old job directories.
_CLEAN_SECONDS: Final = 3600.0

log = logging.getLogger(__name__)


class Agent:
    """One agent: `start`, then `close` and `join`."""

    def __init__(
        self,
        config: AgentConfig,
        paths: PoolPaths,
        make_api: Callable[[], Api],
        probes: Mapping[str, Probe],
        *,
        fault: StepHook = ignore_step,
        random_part: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], int] = wall_ns,
    ) -> None:
        """Make the agent; nothing is read or started yet.

        Args:
            make_api: Called once in each thread that speaks to the server.
            probes: The probe of each node.
            fault: Called at each named step of a job; tests kill the agent there.
            random_part: Shortens the pauses of retries; a number from 0 to 1.
            clock: Monotonic seconds.
            wall: The time now in nanoseconds since 1970.
        """
        self._config = config
        self._paths = paths
        self._make_api = make_api
        self._probes = dict(probes)
        self._clock = clock
        self._wall = wall
        self._backoff = Backoff(random_part)
        self._cgroups = AgentCgroups(config.pool_id, config.owner_uid)
        self._reaction = config.fence_reaction or get_default_reaction(config.owner_uid)
        self._nodes = AgentNodes(
            config, probes, paths.agent, cgroups=self._cgroups.kind, fence_reaction=self._reaction
        )
        self._reporter = Reporter(
            config.name, make_api, self._confirm_report, random_part, paths.agent / "faults"
        )
        self._arbiter = ArbiterProcess(find_arbiter_program(), random_part, self._note_process)
        self._directories = JobDirectories(paths.jobs, shared=config.owner_uid == 0)
        self._log_trimmer = LogTrimmer(
            self._directories,
            config.log_quota,
            jobs=paths.jobs,
            clock=clock,
            heartbeat_seconds=config.heartbeat_seconds,
        )
        self.jobs = Jobs(self._make_job_context(fault))
        self._streams = StreamControl(config.name, make_api, self.jobs.find_running, random_part)
        self._modes = CardModeChanger(paths.agent)
        self._reader = WorkReader(self._reporter)
        self._engine = NetworkEngine(paths.agent, config, self._reader.put_network)
        self._planes = PlaneReports(self._nodes, self._reporter.put_planes)
        self._observer = UsageObserver(
            self._probes,
            self.jobs.list_supervisors,
            self._reporter.put_samples,
            wall,
            config.sample_seconds,
            ledgers=self.jobs.read_fence_usage,
            idle_clock=self.jobs.idle_clock,
            tell_fault=self._reporter.put_fault,
        )
        reactions = FindingReactions(
            self._reaction, self.jobs.report_finding, self.jobs.end_violator, self._freeze_job
        )
        self._auditor = FenceAuditor(
            CardProcesses(self._probes),
            reactions,
            GrantedTimeCheck(self._arbiter.query_status),
            fenced=self.jobs.list_fenced_jobs,
            state_dir=paths.agent,
            base=find_mount_base(config.owner_uid),
        )
        first = (self.jobs, self._reporter, self._observer, self._streams)
        self._parts = (*first, self._auditor, self._arbiter, self._engine)
        self._closing = threading.Event()
        # Set by a stale report: the agent and the server do not have the same allocations.
        self._has_diverged = threading.Event()
        # Held while the agent starts or closes: one of them comes first.
        self._life = threading.Lock()
        self._has_begun = False
        self._last_clean = clock()
        self._last_heartbeat = clock()
        self._lock_file = -1
        self._thread = SupervisedThread("agent-work", self._run)

    def _make_job_context(self, fault: StepHook) -> JobContext:
        return JobContext(
            self._directories,
            self._paths.agent,
            make_launch_settings(self._config),
            self._reporter.put,
            container_policy=self._config.container_policy,
            find_cgroups=self._cgroups.find_job_groups,
            reach_step=fault,
            announce_change=self._announce_change,
            queue_last_sample=self._queue_last_sample,
            probes=self._probes,
            arbiter=self._arbiter,
            read_host_facts=self._nodes.read_host_facts,
        )

    def start(self) -> None:
        """Lock the state directory, continue the jobs that are there, and begin to work.

        Does nothing once the agent is closed, also by another thread. Looks once at each job.

        Raises:
            PoolAlreadyRunning: Another agent has the state directory.
        """
        with self._life:
            if not self._closing.is_set():
                self._begin()

    def _begin(self) -> None:
        self._lock_file = lock_state(self._paths)
        claim_directory(self._paths.root)
        self._cgroups.set_up(self._paths.root)
        allow_many_files()
        self._remove_old_jobs()
        self._log_trimmer.trim()
        self._scan()
        self.jobs.start()
        self.jobs.recover_jobs()
        self._cgroups.remove_old(self._paths.root, self.jobs.list_job_ids())
        for part in (self._reporter, self._observer, self._auditor, self._streams, self._thread):
            part.start()
        self._has_begun = True

    def close(self) -> None:
        """Stop working; no job is stopped. Idempotent; a start that is under way comes first."""
        self._closing.set()
        self._thread.stop()
        with self._life:
            for part in self._parts:
                part.close()

    def join(self, seconds: float = 10.0) -> None:
        """Block until the steps that are under way are done, each part for at most `seconds`.

        A long poll that the server still holds is left to end by itself.
        """
        if not self._has_begun:
            return
        for part in self._parts:
            part.join(seconds)
        self._cgroups.remove_unused()
        os.close(self._lock_file)

    # Work ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        api = self._make_api()
        try:
            while not self._closing.is_set():
                try:
                    self._serve(api)
                except GpupoolError as error:
                    pause = self._backoff.pause()
                    log.warning("no word from the server, again in %.2f s: %s", pause, error)
                    self._log_trimmer.trim_if_due()  # jobs write on while the server is away
                    self._closing.wait(pause)
        finally:
            api.close()

    def _serve(self, api: Api) -> None:
        """Register, agree on the live allocations, then apply work as it comes.

        Returns after a stale report: the two do not agree. Both also begin again after each error.

        Raises:
            GpupoolError: The server did not answer, or refused.
        """
        with mark_busy():
            self._nodes.register(api)
        page = self._poll(api, 0)
        self._backoff.reset()
        self._thread.mark_well()
        self.jobs.end_unlisted_jobs(page.live or ())
        self._apply_page(api, page)
        self._reporter.put_ready()
        cursor = max(page.cursor, 1)  # 0 would mean to begin from the start
        while not self._closing.is_set():
            page = self._poll(api, cursor)
            with mark_busy():
                self._handle_page(api, page)
            cursor = max(cursor, page.cursor)
            if self._has_diverged.is_set():
                self._has_diverged.clear()
                return

    def _handle_page(self, api: Api, page: WorkPage) -> None:
        self._apply_page(api, page)
        self._log_trimmer.trim_if_due()
        next_heartbeat = self._last_heartbeat + self._config.heartbeat_seconds
        if not page.work or self._clock() >= next_heartbeat:
            self._last_heartbeat = self._clock()
            self._beat(api)

    def _poll(self, api: Api, after: int) -> WorkPage:
        """Wait for work. A server that does not answer in time is an error."""
        wait_seconds = self._modes.limit_wait(self._config.heartbeat_seconds)
        answer = api.request(
            "GET",
            f"nodes/{quote(self._config.name)}/work",
            query={"after": after, "wait_seconds": wait_seconds},
            timeout=HEARTBEAT_SECONDS + _ANSWER_SECONDS,
        )
        return self._reader.read_page(answer)

    def _apply_page(self, api: Api, page: WorkPage) -> None:
        for work in page.work:
            if self._closing.is_set():
                return
            self.jobs.apply_work(work)
        self._engine.apply_work(page.network)
        self._modes.add(page.modes)
        self._advance_modes(api)

    def _beat(self, api: Api) -> None:
        self.jobs.retry_unfinished()
        self._observer.request_sample()
        if self._rescan():
            self._nodes.register(api)

    # Devices -------------------------------------------------------------------------------------

    def _scan(self) -> None:
        self._nodes.scan()
        self.jobs.set_devices(self._nodes.list_devices())
        self._observer.set_machines(self._nodes.machines)
        self._auditor.update_machines(self._nodes.machines)
        self._planes.report()

    def _advance_modes(self, api: Api) -> None:
        """Take the next steps of switches; a card in its new mode is registered first."""
        reports = self._modes.advance(self._nodes.index_devices())
        if any(report.state != "switching" for report in reports):
            self._scan()
            self._nodes.register(api)
        self._reporter.put_modes(reports)

    def _rescan(self) -> bool:
        """Scan real devices again; whether some came, went, or are other than was registered."""
        if self._nodes.is_simulated():
            return False
        before = self._nodes.read_registered()
        self._scan()
        return before != self._nodes.read_registered()

    # What the parts of the agent call ------------------------------------------------------------

    def check_log_quota(self) -> CheckFinding:
        """Return whether the output of jobs was within its quota at the last look."""
        return self._log_trimmer.check_quota()

    def _queue_last_sample(self, sample: JobSample) -> None:
        self._reporter.put_samples((), (sample,))

    def _note_process(self, allocation: str, pid: int) -> None:
        self._auditor.note_slot(allocation, pid)

    def _freeze_job(self, job: FencedJob) -> None:
        freeze_job(job.supervisor_pid, self._probes.values())

    def _announce_change(self) -> None:
        self._observer.note_job_change()
        self._auditor.wake_up()

    def _confirm_report(self, report: ReportIn, is_stale: bool) -> None:
        self.jobs.confirm_report(report, is_stale)
        if is_stale:
            self._has_diverged.set()
        if self._clock() - self._last_clean >= _CLEAN_SECONDS:
            self._last_clean = self._clock()
            self._remove_old_jobs()
            self.jobs.remove_unused_vms()

    def _remove_old_jobs(self) -> None:
        self._directories.remove_old_jobs(self._wall() / NANOS_PER_SECOND)
