"""The agent: says what its nodes have, asks what to do, does it, tells what came of it.

Embedded in `gpupool up` or on a machine of its own it is the same program and speaks to the server through
`client` only. It may be killed at any moment and started again; closing it stops no job. Idle, it wakes once
for each heartbeat, which is the long poll for work.
"""

from __future__ import annotations

import fcntl
import logging
import os
import random
import resource
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gpupool import __version__
from gpupool.agent.cgroups import detect, job_cgroups
from gpupool.agent.checkpoint import JobDirectories
from gpupool.agent.facts import node_in
from gpupool.agent.faults import Fault, no_fault
from gpupool.agent.freezing import freeze_job
from gpupool.agent.jobs import Jobs
from gpupool.agent.launch import LaunchSettings, base_of
from gpupool.agent.log_quota import LogLook, LogQuota, judge_logs
from gpupool.agent.means import Means
from gpupool.agent.observer import Observer
from gpupool.agent.pool_groups import group_name, mark_pool, remove_abandoned, remove_pool, remove_strays
from gpupool.agent.reports import Api, Reporter
from gpupool.audit.answering import Answering
from gpupool.audit.card_processes import CardProcesses
from gpupool.audit.granted_time import GrantedTime
from gpupool.audit.reconciler import Reconciler
from gpupool.audit.sight import FencedJob
from gpupool.base.backoff import Backoff
from gpupool.base.clock import wall_ns
from gpupool.base.errors import GpupoolError, PoolAlreadyRunning
from gpupool.base.health import Finding, well
from gpupool.base.instance import claim
from gpupool.base.own_limits import fixed_hard_limits
from gpupool.base.settings import PoolPaths
from gpupool.base.silence import busy
from gpupool.base.supervised import SupervisedThread
from gpupool.mechanisms.arbiter import Arbiter
from gpupool.mechanisms.fence_survey import survey
from gpupool.model.job_limits import USUAL, JobLimits
from gpupool.probes.accounting import accounting_off
from gpupool.probes.contract import Machine, Probe
from gpupool.wire.fleet import ReportIn, WorkPage
from gpupool_native import arbiter_path

HEARTBEAT_SECONDS = 25
_ANSWER_SECONDS = HEARTBEAT_SECONDS + 20.0
_CLEAN_SECONDS = 3600.0
#: Seconds at least between two looks at the logs: a look is one stat for each segment of each job.
_TRIM_SECONDS = 5.0
_MANY_FILES = 65536

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AgentConfig:
    """Who an agent is. With one node its name is the node's."""

    name: str
    pool_id: str
    owner_uid: int
    owner_gid: int
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By node."""
    sample_seconds: float = 10.0
    heartbeat_seconds: int = HEARTBEAT_SECONDS
    log_max_bytes: int = 16 << 20
    log_files: int = 4
    fence_reaction: str | None = None
    """What befalls a fenced job that has more than its share: warn, freeze, kill; None: as suits the pool."""
    job_limits: JobLimits = USUAL
    log_quota: LogQuota = field(default_factory=LogQuota)


def default_reaction(owner_uid: int) -> str:
    """Root's pool serves people who did not agree to be crowded out: it ends who does. In one's own pool the fence is
    advice, and the only one that an end would hurt is its owner.
    """
    return "kill" if owner_uid == 0 else "warn"


class Agent:
    """`start`, then `close` and `join`. `make_api` is called once in each thread that speaks to the server."""

    def __init__(
        self,
        config: AgentConfig,
        paths: PoolPaths,
        make_api: Callable[[], Api],
        probes: Mapping[str, Probe],
        *,
        fault: Fault = no_fault,
        random_part: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], int] = wall_ns,
    ) -> None:
        self._config, self._paths, self._make_api, self._probes = config, paths, make_api, dict(probes)
        self._clock, self._wall, self._backoff = clock, wall, Backoff(random_part)
        self._directories = JobDirectories(paths.jobs, shared=config.owner_uid == 0)
        self._cgroups = detect(uid=config.owner_uid)
        self._group = config.pool_id
        self._reporter = Reporter(config.name, make_api, self._answered, random_part)
        self._arbiter = Arbiter(_arbiter_program(), random_part, self._process_entered)
        settings = LaunchSettings(
            config.pool_id,
            config.owner_uid,
            config.owner_gid,
            config.log_max_bytes,
            config.log_files,
            job_limits=config.job_limits,
            fixed_hard_limits=fixed_hard_limits(),
        )
        self.jobs = Jobs(
            Means(
                self._directories,
                paths.agent,
                settings,
                self._reporter.put,
                cgroups_for=self._cgroups_for,
                fault=fault,
                changed=self._jobs_changed,
                sampled=lambda sample: self._reporter.put_samples((), (sample,)),
                probes=self._probes,
                arbiter=self._arbiter,
            )
        )
        self._observer = Observer(
            self._probes,
            self.jobs.running,
            self._reporter.put_samples,
            wall,
            config.sample_seconds,
            ledgers=self.jobs.ledgers,
        )
        self._reaction = config.fence_reaction or default_reaction(config.owner_uid)
        self._reconciler = Reconciler(
            CardProcesses(self._probes),
            Answering(self._reaction, self.jobs.tell_finding, self.jobs.condemn, self._freeze_job),
            GrantedTime(self._arbiter.status),
            fenced=self.jobs.fenced,
            state_dir=paths.agent,
            base=base_of(config.owner_uid),
        )
        self._machines: dict[str, Machine] = {}
        self._log_look: LogLook | None = None
        self._closing, self._disagreed = threading.Event(), threading.Event()
        self._life, self._begun = threading.Lock(), False
        self._cleaned = self._tended = self._trimmed = clock()
        self._lock_file = -1
        self._thread = SupervisedThread("agent-work", self._run)

    def start(self) -> None:
        """Take the state's lock, take up what was left, begin. Raises PoolAlreadyRunning for a second agent.

        Once closed, also from another thread, it does not begin any more.
        """
        with self._life:
            if not self._closing.is_set():
                self._begin()

    def _begin(self) -> None:
        self._lock_file = _take_lock(self._paths)
        claim(self._paths.root)
        self._group = group_name(self._config.pool_id, self._paths.root)
        _allow_many_files()
        self._directories.clean(self._wall() / 1e9)
        self._trim_logs()
        self._scan()
        self.jobs.start()
        self.jobs.recover()
        self._tend_groups()
        self._reporter.start()
        self._observer.start()
        self._reconciler.start()
        self._thread.start()
        self._begun = True

    def _tend_groups(self) -> None:
        """Clear away the cgroups that agents before us left, this pool's and those of pools that are gone."""
        mark_pool(self._cgroups, self._group, self._paths.root)
        remove_strays(self._cgroups, self._group, self.jobs.names())
        for found in remove_abandoned(self._cgroups):
            if found.processes:
                log.warning("processes %s are of the pool at %s, which is gone", list(found.processes), found.root)

    def close(self) -> None:
        """Stop working, without stopping any job: at once, or when a start that is under way has come through."""
        self._closing.set()
        self._thread.stop()
        with self._life:
            self._reporter.close()
            self.jobs.close()
            self._observer.close()
            self._reconciler.close()
            self._arbiter.close()

    def join(self, seconds: float = 10.0) -> None:
        """Wait for what is under way; a long poll that the server still holds is left to end by itself."""
        if not self._begun:
            return
        self.jobs.join(seconds)
        self._reporter.join(seconds)
        self._observer.join(seconds)
        self._reconciler.join(seconds)
        self._arbiter.join(seconds)
        remove_pool(self._cgroups, self._group)  # where no job is left in it
        remove_pool(self._cgroups, self._config.pool_id)  # as 0.1.0 named it; its jobs go on under this name
        os.close(self._lock_file)

    # Working -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        api = self._make_api()
        try:
            while not self._closing.is_set():
                try:
                    self._work(api)
                except GpupoolError as error:
                    pause = self._backoff.pause()
                    log.warning("no word from the server, again in %.2f s: %s", pause, error)
                    self._tend_logs()  # jobs write on while the server is away
                    self._closing.wait(pause)
        finally:
            api.close()

    def _work(self, api: Api) -> None:
        """Register, agree on what is held, then do what comes. Raises with the server's first missing answer.

        A server that was away may be a new one, so agreeing begins anew after each silence; and after a report
        that the server called stale, which says that the two do not agree.
        """
        with busy():
            self._register(api)
        page = self._poll(api, 0)
        self._backoff.reset()
        self._thread.well()
        self.jobs.reconcile(page.live or ())
        self._take(page)
        self._reporter.put_ready()
        cursor = max(page.cursor, 1)  # 0 would mean to begin anew
        while not self._closing.is_set():
            page = self._poll(api, cursor)
            with busy():
                self._take_in(api, page)
            cursor = max(cursor, page.cursor)
            if self._disagreed.is_set():
                self._disagreed.clear()
                return

    def _take_in(self, api: Api, page: WorkPage) -> None:
        self._take(page)
        self._tend_logs()
        if not page.work or self._clock() >= self._tended + self._config.heartbeat_seconds:
            self._tended = self._clock()
            self._heartbeat(api)

    def _poll(self, api: Api, after: int) -> WorkPage:
        """Wait for work; a server that does not answer is given up by its time."""
        wait = self._config.heartbeat_seconds
        answer = api.request(
            "GET",
            f"nodes/{quote(self._config.name)}/work",
            query={"after": after, "wait_seconds": wait},
            timeout=_ANSWER_SECONDS,
        )
        return WorkPage.model_validate(answer)

    def _take(self, page: WorkPage) -> None:
        for work in page.work:
            if self._closing.is_set():
                return
            self.jobs.take(work)

    def _heartbeat(self, api: Api) -> None:
        self.jobs.tend()
        self._observer.heartbeat()
        if self._rescan():
            self._register(api)

    def _tend_logs(self) -> None:
        if self._clock() - self._trimmed >= min(_TRIM_SECONDS, self._config.heartbeat_seconds):
            self._trimmed = self._clock()
            self._trim_logs()

    def _trim_logs(self) -> None:
        """Drop what is over the quota. A disk that fails is told and looked at again: the agent's work goes on."""
        try:
            look = self._directories.trim_logs(*self._config.log_quota.bounds(self._paths.jobs))
        except OSError as error:
            log.warning("logs could not be held to their quota: %s", error)
            return
        self._log_look = look
        if look.dropped:
            log.warning("%d bytes of job output were dropped: over the quota of logs", look.dropped)

    def logs_check(self) -> Finding:
        """Whether the output of jobs is within its quota, by the latest look."""
        return well("not looked at yet") if self._log_look is None else judge_logs(self._log_look)

    # Cards ---------------------------------------------------------------------------------------------

    def _scan(self) -> None:
        self._machines = {name: probe.scan() for name, probe in self._probes.items()}
        self.jobs.know_cards({name: machine.devices for name, machine in self._machines.items()})
        self._observer.know(self._machines)
        self._reconciler.know(self._machines)

    def _rescan(self) -> bool:
        """Look whether real cards came or went; simulated ones never do."""
        if all(machine.simulated for machine in self._machines.values()):
            return False
        before = {name: {d.uuid for d in machine.devices} for name, machine in self._machines.items()}
        self._scan()
        return before != {name: {d.uuid for d in machine.devices} for name, machine in self._machines.items()}

    def _register(self, api: Api) -> None:
        for name, machine in self._machines.items():
            facts = {**self._facts(), "fence": self._fence_facts(machine.simulated)}
            if off := accounting_off(self._probes[name], [device.uuid for device in machine.devices]):
                facts["accounting"] = off
            body = node_in(machine, self._config.name, self._config.labels.get(name, {}), facts)
            api.request("PUT", f"nodes/{quote(name)}", body.model_dump(mode="json"), whole_state=True)

    def _facts(self) -> dict[str, Any]:
        return {
            "agent_version": __version__,
            "hostname": socket.gethostname(),
            "cgroups": self._cgroups.kind,
            "owner_uid": self._config.owner_uid,
        }

    def _fence_facts(self, simulated: bool) -> dict[str, Any]:
        own_pool = self._config.owner_uid != 0
        return {**survey(own_pool=own_pool, simulated=simulated).facts(), "reaction": self._reaction}

    def _cgroups_for(self, job: str) -> tuple[str, ...]:
        return job_cgroups(self._cgroups, self._group, job)

    def _process_entered(self, allocation: str, pid: int) -> None:
        self._reconciler.entered(allocation, pid)

    def _freeze_job(self, one: FencedJob) -> None:
        freeze_job(one.supervisor_pid, self._probes.values())

    def _jobs_changed(self) -> None:
        self._observer.changed()
        self._reconciler.changed()

    # Told ----------------------------------------------------------------------------------------------

    def _answered(self, report: ReportIn, stale: bool) -> None:
        self.jobs.answered(report, stale)
        if stale:
            self._disagreed.set()
        if self._clock() - self._cleaned >= _CLEAN_SECONDS:
            self._cleaned = self._clock()
            self._directories.clean(self._wall() / 1e9)


def _take_lock(paths: PoolPaths) -> int:
    path = paths.agent / "lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise PoolAlreadyRunning(
            f"another agent works in {paths.agent}", hint="stop it first, or give this one another --state-dir"
        ) from None
    return descriptor


def _arbiter_program() -> Path | None:
    """Without it every share has its static part of each tenth of a second."""
    program = arbiter_path()
    return program if program.exists() else None


def _allow_many_files() -> None:
    """One socket for each running job: ask for as many descriptors as we may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, _MANY_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
