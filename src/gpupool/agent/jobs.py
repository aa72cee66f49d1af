"""The jobs of one agent, from work received to the end told: every step can be the last and be taken again.

What happens for an allocation, in this order: its checkpoint is written, a mechanism prepares its cards, the
supervisor's description is written, the supervisor starts the command once, and when that has ended the cards
are unprepared and the end is told until the server has taken it in. Whoever comes after a kill reads the
checkpoints and the supervisors' own records and goes on. Speaks with no server: reports are handed on.

A `Held` is changed under its own lock only. Slow steps run in a bounded set of worker threads.
"""

from __future__ import annotations

import enum
import errno
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gpupool.agent.arbiter import Arbiter
from gpupool.agent.cgroups import limit_host
from gpupool.agent.checkpoint import Checkpoint, JobDirectories
from gpupool.agent.faults import Fault
from gpupool.agent.fenced import job_sample, ledger_of, used_bytes
from gpupool.agent.findings import Finding
from gpupool.agent.launch import LaunchSettings, check_account, ended_report, job_spec, view_of
from gpupool.agent.orphans import reap_orphans, remove_cgroups
from gpupool.agent.reconciler import FencedJob
from gpupool.agent.supervisor import (
    AlreadyStarted,
    AlreadySupervised,
    BadSpec,
    Connection,
    ConnectionLost,
    ExitRecord,
    FailedToStart,
    JobState,
    JobStatus,
    LiveStatus,
    NotRunning,
    SupervisorError,
    inspect,
    start,
    write_spec,
)
from gpupool.agent.watch import Watch
from gpupool.base.errors import GpupoolError, NotFound
from gpupool.mechanisms.contract import FenceLevel
from gpupool.mechanisms.fence import Fence, shared_directories
from gpupool.mechanisms.regions import FenceUsage
from gpupool.mechanisms.registry import MECHANISMS, choose
from gpupool.model.device import Device
from gpupool.probes.contract import Probe
from gpupool.wire.fleet import FENCE_WHY, JobSample, ReportIn, WorkOut

PARALLEL_STARTS = 8
STOP_GRACE_SECONDS = 10
RECONNECT_SECONDS = 5.0
_RECONNECT_PAUSE_SECONDS = 0.005
TERMINAL = frozenset({"ended", "lost", "not_started"})

log = logging.getLogger(__name__)


class Phase(enum.Enum):
    WAITING = "waiting"
    """On disk, not started; the server will say whether it still wants it."""
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    """Nothing of it is left on the node; the server is told until it answers."""


@dataclass
class Held:
    """One allocation this agent has something to do with."""

    checkpoint: Checkpoint
    directory: Path
    phase: Phase
    lock: threading.RLock = field(default_factory=threading.RLock)
    connection: Connection | None = None
    supervisor_pid: int = 0
    stop_grace: int | None = None
    started_ns: int | None = None
    told: str = ""
    mounted: bool = True
    """Its private mounts were made."""
    verdict: str = ""
    """Why its fence had it ended."""
    unsized: WorkOut | None = None
    """A resize that could not be put in force yet."""

    @property
    def key(self) -> str:
        return self.checkpoint.allocation


class Jobs:
    """Thread-safe. `report` queues a report; `changed` is called when jobs begin or end to run; `sampled` takes the
    last sample of a fenced job, before the report of its end.
    """

    def __init__(
        self,
        directories: JobDirectories,
        state_dir: Path,
        settings: LaunchSettings,
        report: Callable[[ReportIn], None],
        *,
        cgroups_for: Callable[[str], tuple[str, ...]],
        fault: Fault,
        changed: Callable[[], None],
        sampled: Callable[[JobSample], None] = lambda _sample: None,
        probes: Mapping[str, Probe] = MappingProxyType({}),
        arbiter: Arbiter | None = None,
    ) -> None:
        self._directories, self._state_dir, self._settings = directories, state_dir, settings
        self._report, self._cgroups_for, self._fault, self._changed = report, cgroups_for, fault, changed
        self._sampled = sampled
        self._watch = Watch(self._heard, self._began)
        self._lock = threading.Lock()
        self._held: dict[str, Held] = {}
        self._nodes: Mapping[str, tuple[Device, ...]] = {}
        self._probes, self._arbiter = dict(probes), arbiter or Arbiter(None, lambda: 0.0)
        self._workers = ThreadPoolExecutor(PARALLEL_STARTS, thread_name_prefix="agent-start")
        self._closing = threading.Event()

    def start(self) -> None:
        self._watch.start()

    def close(self) -> None:
        """Look away. No job is stopped, no directory is touched."""
        self._closing.set()
        self._workers.shutdown(wait=False, cancel_futures=True)
        self._watch.close()

    def join(self, seconds: float | None = None) -> None:
        self._workers.shutdown(wait=True)
        self._watch.join(seconds)

    def know_cards(self, nodes: Mapping[str, tuple[Device, ...]]) -> None:
        """What the last scan found, by node."""
        self._nodes = dict(nodes)

    def running(self) -> dict[str, int]:
        """Supervisor's process by job, for every job that runs."""
        with self._lock:
            held = list(self._held.values())
        return {one.checkpoint.job: one.supervisor_pid for one in held if one.phase is Phase.RUNNING}

    def ledgers(self) -> dict[str, FenceUsage]:
        """By job: what the fences say of every job that runs in one."""
        with self._lock:
            held = [one for one in self._held.values() if one.phase is Phase.RUNNING]
        found = {one.checkpoint.job: ledger_of(one.key, self._state_dir) for one in held}
        return {job: ledger for job, ledger in found.items() if ledger is not None}

    def fenced(self) -> list[FencedJob]:
        """Every job that runs in a fence."""
        with self._lock:
            held = [one for one in self._held.values() if one.phase is Phase.RUNNING and one.supervisor_pid]
        return [
            FencedJob(one.checkpoint.job, one.key, one.supervisor_pid, one.mounted)
            for one in held
            if one.checkpoint.mechanism == Fence.name
        ]

    def tell_finding(self, one: FencedJob, finding: Finding, reaction: str) -> None:
        """What a fence found is an event of the job."""
        held = self._get(one.allocation)
        if held is not None:
            reason = f"{finding.text} ({reaction})"
            generation = held.checkpoint.generation
            self._report(_report(one.allocation, generation, "noticed", notice=finding.kind, reason=reason))

    def condemn(self, one: FencedJob, reason: str) -> None:
        """End a job at once for having left its fence."""
        held = self._get(one.allocation)
        if held is not None and held.phase is not Phase.ENDED:
            held.verdict = held.verdict or f"ended by its fence: {reason}"
            self._end(held, 0)

    def counts(self) -> dict[str, int]:
        with self._lock:
            phases = [one.phase for one in self._held.values()]
        return {phase.value: phases.count(phase) for phase in Phase}

    # What the server wants -----------------------------------------------------------------------------

    def recover(self) -> None:
        """Take up what an agent before us left: its jobs, and preparations of which nothing else is known."""
        for found in self._directories.unfinished():
            if found.checkpoint is None:
                self._end_unknown(found.directory)
                continue
            held = Held(found.checkpoint, found.directory, Phase.WAITING)
            self._remember(held)
            self._guarded(self._found, held, inspect(found.directory))
        for mechanism in MECHANISMS.values():
            for allocation, seen in mechanism.observe(self._state_dir).items():
                if self._get(allocation) is None:
                    mechanism.unprepare(allocation, seen.generation, self._state_dir)

    def take(self, work: WorkOut) -> None:
        """Make true what the server wants of one allocation. Idempotent; blocks for nothing slow."""
        held = self._get(work.allocation)
        if work.want == "stop":
            self._stop(work, held)
        elif held is None or held.phase is Phase.WAITING:
            self._begin(work, held)
        elif held.phase is not Phase.RUNNING:
            return
        elif work.want == "resize":
            self._submit(self._resize, held, work)
        elif not work.started or held.checkpoint.generation != work.generation:
            self._submit(self._tell_anew, held, work.generation)

    def reconcile(self, live: Iterable[str]) -> None:
        """End everything that the server no longer counts as held."""
        wanted = frozenset(live)
        with self._lock:
            unwanted = [one for key, one in self._held.items() if key not in wanted]
        for held in unwanted:
            if held.phase is not Phase.ENDED:
                log.warning("allocation %s is not the server's any more: ending it", held.key)
                self._end(held, STOP_GRACE_SECONDS)

    def tend(self) -> None:
        """Look again after jobs whose supervisor could not be spoken with, or whose end could not be finished."""
        with self._lock:
            begun = [one for one in self._held.values() if one.phase in (Phase.STARTING, Phase.RUNNING)]
        for held in (one for one in begun if one.connection is None):
            self._submit(self._reconnect, held)
        for held in begun:
            if (work := held.unsized) is not None:
                self._submit(self._resize, held, work)

    def answered(self, report: ReportIn, stale: bool) -> None:
        """The server has taken a report in; a stale one means that the allocation is not ours any more."""
        held = self._get(report.allocation)
        if held is None:
            return
        if report.state in TERMINAL and held.phase is Phase.ENDED:
            self._fault("end-acknowledged")
            self._forget(held, ran=report.state != "not_started")
        elif stale and held.phase is not Phase.ENDED:
            log.warning("allocation %s is stale: ending it", held.key)
            self._end(held, STOP_GRACE_SECONDS)

    # Beginning -----------------------------------------------------------------------------------------

    def _begin(self, work: WorkOut, held: Held | None) -> None:
        directory = self._directories.path(work.job)
        other = self._other_of(work)
        if work.started and (held is not None or not (directory / "exit").exists()):
            self._tell_lost(work, held, "nothing of it is left on its node")
        elif other is not None:
            self._end(other, STOP_GRACE_SECONDS)
            self._tell_lost(work, held, "another run of this job was found on its node and ended")
        else:
            held = held or Held(_checkpoint(work, ""), directory, Phase.STARTING)
            held.phase = Phase.STARTING
            self._remember(held)
            self._submit(self._start, held, work)

    def _tell_lost(self, work: WorkOut, held: Held | None, reason: str) -> None:
        if held is None:
            self._report(_report(work.allocation, work.generation, "lost", reason=reason))
        else:
            self._submit(self._close_books, held, _report(held.key, work.generation, "lost", reason=reason))

    def _start(self, held: Held, work: WorkOut) -> None:
        if held.phase is not Phase.STARTING:
            return
        try:
            self._fault("work-received")
            if held.stop_grace is not None:
                self._never(held, "stopped before it started")
                return
            self._steps(held, work)
        except NotFound as error:
            self._never(held, error.message)
        except GpupoolError as error:
            self._refuse(held, error.message)
        except (BadSpec, SupervisorError) as error:
            self._refuse(held, str(error))
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            self._refuse(held, "the disk of its node is full" if full else f"its node could not start it: {error}")

    def _steps(self, held: Held, work: WorkOut) -> None:
        """Write ahead, prepare, describe, start."""
        check_account(work, self._settings)
        view = view_of(work, self._settings, self._nodes, self._probes)
        mechanism = choose(view)
        held.checkpoint = _checkpoint(work, mechanism.name)
        if work.earlier_runs and not work.started:
            self._directories.begin_anew(held.checkpoint)
        self._fault("begun-anew")
        self._directories.write(held.checkpoint)
        self._fault("checkpoint-written")
        status = inspect(held.directory)
        if status.state is JobState.NOT_STARTED:
            prepared = mechanism.prepare(view, self._state_dir)
            self._divide_for(held)
            self._fault("prepared")
            groups = self._cgroups_for(work.job)
            spec = job_spec(work, prepared, self._settings, groups)
            self._limit_host(held, work, groups)
            write_spec(held.directory, spec)
            self._fault("spec-written")
            status = _start_once(held.directory)
            self._fault("shim-started")
        if status.state is JobState.NOT_STARTED:
            raise SupervisorError("its supervisor ended without starting it")
        self._found(held, status)
        if work.want == "resize" and held.phase is Phase.RUNNING:
            self._resize(held, work)

    def _limit_host(self, held: Held, work: WorkOut, groups: tuple[str, ...]) -> None:
        """Where the job's cgroup cannot hold it to its processors and memory, that is told."""
        unheld = limit_host(groups, work.cpu_milli, work.host_bytes) if work.cpu_milli or work.host_bytes else ""
        if unheld:
            self._report(_report(held.key, work.generation, "noticed", notice="host", reason=unheld))

    # Resizing ------------------------------------------------------------------------------------------

    def _resize(self, held: Held, work: WorkOut) -> None:
        """Put another size in force. The server asks again until it is told, also after a kill at any line.

        The checkpoint comes first, so that whatever ends the job meanwhile names the later generation.
        """
        if held.phase is not Phase.RUNNING or work.generation < held.checkpoint.generation:
            return
        held.unsized = work
        held.checkpoint = replace(held.checkpoint, generation=work.generation)
        self._directories.write(held.checkpoint)
        self._fault("resize-noted")
        mechanism = MECHANISMS[held.checkpoint.mechanism]
        mechanism.resize(view_of(work, self._settings, self._nodes, self._probes), self._state_dir)
        self._arbiter.changed(held.key)
        self._fault("resized")
        held.unsized = None
        used = self._memory_used(held)
        self._report(_report(held.key, work.generation, "resized", gpu_memory_bytes=used))

    def _memory_used(self, held: Held) -> int | None:
        """Card memory that the job's processes hold now, as far as its mechanism counts it."""
        ledger = ledger_of(held.key, self._state_dir)
        return None if ledger is None else used_bytes(ledger)

    # Found in some state -------------------------------------------------------------------------------

    def _found(self, held: Held, status: JobStatus) -> None:
        """Go on from what a job's directory says."""
        if status.state is JobState.RUNNING:
            self._reconnect(held)
        elif status.state is JobState.ENDED and status.exit is not None:
            self._ended(held, status.exit)
        elif status.state is JobState.DIED:
            self._died(held)
        elif held.phase is not Phase.WAITING:
            self._never(held, "its node could not start it")

    def _reconnect(self, held: Held) -> None:
        """Speak with the supervisor. One that is just beginning or ending has no ear for some milliseconds."""
        if held.connection is not None or held.phase is Phase.ENDED:
            return
        pauses = int(RECONNECT_SECONDS / _RECONNECT_PAUSE_SECONDS)
        for _ in range(pauses):
            status = inspect(held.directory)
            if status.state is not JobState.RUNNING:
                self._found(held, status)
                return
            held.phase = Phase.RUNNING
            try:
                self._adopt(held)
                return
            except (NotRunning, ConnectionLost):
                if self._closing.wait(_RECONNECT_PAUSE_SECONDS):
                    return
            except SupervisorError as error:
                log.warning("job %s cannot be spoken with yet: %s", held.checkpoint.job, error)
                return

    def _adopt(self, held: Held) -> None:
        """Raises SupervisorError; then nothing has changed."""
        connection = Connection(held.directory)
        self._divide_for(held)
        try:
            if held.checkpoint.attached:
                self._watch.await_start(held.key, held.directory)
            connection.subscribe()
            held.connection = connection
            self._tell_progress(held, False)
        except BaseException:
            held.connection = None
            connection.close()
            raise
        self._changed()
        if held.stop_grace is not None:
            connection.stop(held.stop_grace)
        self._hear(held)

    def _divide_for(self, held: Held) -> None:
        """The arbiter divides the cards' time for whatever is fenced."""
        if held.checkpoint.mechanism == Fence.name:
            self._arbiter.add(held.key, *shared_directories(held.key, self._state_dir))

    def _tell_progress(self, held: Held, again: bool) -> None:
        """Tell that it is prepared for its client, or runs. Once for each, unless `again`."""
        if held.connection is None:
            return
        live = self._settled(held.connection)
        held.supervisor_pid, held.started_ns = live.supervisor_pid, live.started_ns or None
        state = "prepared" if live.state == "waiting" else "running"
        if held.told == state and not again:
            return
        held.told = state
        level, why = self._fence_of(held, live)
        self._report(
            _report(
                held.key,
                held.checkpoint.generation,
                state,
                attach_socket=str(held.directory / "sock") if held.checkpoint.attached else None,
                fence=level.value,
                fence_why=why[:FENCE_WHY],
                started_ns=held.started_ns,
                pid=live.pid or None,
            )
        )
        self._fault("start-reported")

    def _settled(self, connection: Connection) -> LiveStatus:
        """Past the few milliseconds in which the command is being started and its mounts are not made yet."""
        pauses = int(RECONNECT_SECONDS / _RECONNECT_PAUSE_SECONDS)
        for _ in range(pauses):
            live = connection.status()
            if live.state != "starting" or self._closing.wait(_RECONNECT_PAUSE_SECONDS):
                break
        return live

    def _fence_of(self, held: Held, live: LiveStatus) -> tuple[FenceLevel, str]:
        """What holds the job: as prepared, or less where its mounts were refused."""
        mechanism = MECHANISMS[held.checkpoint.mechanism]
        held.mounted = not live.share_refused
        if live.share_refused and isinstance(mechanism, Fence):
            mechanism.weaken(held.key, f"its private mounts were refused ({live.share_refused})", self._state_dir)
        return mechanism.held(held.key, self._state_dir)

    def _tell_anew(self, held: Held, generation: int) -> None:
        """The server has not heard that it runs, or not under the generation that counts."""
        if held.checkpoint.generation != generation:
            held.checkpoint = replace(held.checkpoint, generation=generation)
            self._directories.write(held.checkpoint)
        self._tell_progress(held, True)

    # Hearing -------------------------------------------------------------------------------------------

    def _heard(self, key: str) -> None:
        """In the watching thread: never waits for a lock that a slow step may hold."""
        held = self._get(key)
        if held is None:
            return
        if held.lock.acquire(blocking=False):
            try:
                self._guard(self._hear, held)
            finally:
                held.lock.release()
        else:
            self._submit(self._hear, held)

    def _began(self, key: str) -> None:
        held = self._get(key)
        if held is not None:
            self._submit(self._tell_progress, held, False)

    def _hear(self, held: Held) -> None:
        """Read what the supervisor has to say, and listen for the next."""
        if held.connection is None:
            return
        try:
            news = held.connection.read_event()
        except SupervisorError:
            self._hang_up(held)
            self._submit(self._reconnect, held)
            return
        if news is None:
            self._watch.listen(held.key, held.connection.fileno())
        else:
            self._found(held, inspect(held.directory))

    def _hang_up(self, held: Held) -> None:
        if held.connection is not None:
            self._watch.forget(held.connection.fileno())
            held.connection.close()
            held.connection = None
            self._watch.forget_start(held.key)

    # Ending --------------------------------------------------------------------------------------------

    def _stop(self, work: WorkOut, held: Held | None) -> None:
        if held is not None:
            self._end(held, work.grace_seconds)
            return
        directory = self._directories.path(work.job)
        earlier = work.earlier_runs and not work.started  # then what lies there is not of this allocation
        record = inspect(directory).exit if directory.is_dir() and not earlier else None
        if record is not None:
            self._report(ended_report(work.allocation, work.generation, record))
            return
        state = "lost" if work.started else "not_started"
        self._report(_report(work.allocation, work.generation, state, reason="nothing of it is on its node"))

    def _end(self, held: Held, grace: int) -> None:
        if held.phase is not Phase.ENDED:
            held.stop_grace = grace
            self._submit(self._send_stop, held)

    def _send_stop(self, held: Held) -> None:
        """Behind a start that is under way, since both hold the lock."""
        if held.phase is Phase.WAITING:
            self._never(held, "stopped before it started")
        elif held.connection is not None and held.stop_grace is not None:
            try:
                held.connection.stop(held.stop_grace)
            except SupervisorError as error:
                log.warning("job %s could not be told to stop: %s", held.checkpoint.job, error)
            self._hear(held)
        elif held.phase is Phase.RUNNING:
            self._reconnect(held)

    def _ended(self, held: Held, record: ExitRecord) -> None:
        self._fault("exit-seen")
        if held.told == "prepared" and record.state == "ended":
            self._tell_ran(held, record)
        report = ended_report(held.key, held.checkpoint.generation, record)
        if held.verdict:
            report = report.model_copy(update={"reason": held.verdict[:400]})
        self._close_books(held, report)

    def _tell_ran(self, held: Held, record: ExitRecord) -> None:
        """It was over before its start was told: whoever watches hears of both."""
        held.told = "running"
        level, why = MECHANISMS[held.checkpoint.mechanism].held(held.key, self._state_dir)
        facts = {"fence": level.value, "fence_why": why[:FENCE_WHY], "started_ns": record.started_ns}
        self._report(_report(held.key, held.checkpoint.generation, "running", **facts))

    def _died(self, held: Held) -> None:
        """The supervisor was killed: end what it left, and say that nobody knows how the command ended."""
        reaped = reap_orphans(held.directory)
        log.warning(
            "the supervisor of job %s died; %d processes it left were ended, %d could not be",
            held.checkpoint.job,
            reaped.killed,
            len(reaped.remaining),
        )
        reason = "its supervisor died; how the command ended is unknown"
        self._close_books(held, _report(held.key, held.checkpoint.generation, "lost", reason=reason))

    def _never(self, held: Held, reason: str) -> None:
        self._close_books(held, _report(held.key, held.checkpoint.generation, "not_started", reason=reason))

    def _refuse(self, held: Held, reason: str) -> None:
        """It cannot run here, nor anywhere else: it has failed before it began."""
        log.warning("job %s cannot run: %s", held.checkpoint.job, reason)
        self._close_books(held, _report(held.key, held.checkpoint.generation, "ended", reason=reason, exit_code=126))

    def _close_books(self, held: Held, report: ReportIn) -> None:
        """Give the cards back and tell the end. Once; after a failure `tend` comes here again."""
        if held.phase is Phase.ENDED:
            return
        self._hang_up(held)
        remove_cgroups(held.directory)
        if (ledger := ledger_of(held.key, self._state_dir)) is not None:
            self._sampled(job_sample(held.checkpoint.job, None, {}, ledger))
        self._arbiter.remove(held.key)
        if held.checkpoint.mechanism:
            mechanism = MECHANISMS[held.checkpoint.mechanism]
            mechanism.unprepare(held.key, held.checkpoint.generation, self._state_dir)
        self._fault("unprepared")
        held.phase = Phase.ENDED
        self._report(report)
        self._changed()

    def _forget(self, held: Held, *, ran: bool) -> None:
        """The end is told. The directory stays for its log, unless nothing ran or another allocation has it."""
        with held.lock, self._lock:
            if self._held.get(held.key) is not held:
                return
            job = held.checkpoint.job
            theirs = any(one is not held and one.checkpoint.job == job for one in self._held.values())
            if not theirs and held.directory.is_dir():
                self._directories.finish(job) if ran else self._directories.remove(job)
            del self._held[held.key]
        self._fault("directory-finished")

    def _end_unknown(self, directory: Path) -> None:
        """A directory whose checkpoint cannot be read: whatever runs in it belongs to nobody."""
        log.error("%s/allocation.json is damaged: ending what runs there", directory)
        status = inspect(directory)
        try:
            if status.state is JobState.RUNNING:
                with Connection(directory) as connection:
                    connection.stop(STOP_GRACE_SECONDS)
                return  # its end is found by the next agent
            if status.state is JobState.DIED:
                reap_orphans(directory)
            self._directories.finish(directory.name)
        except (SupervisorError, BadSpec, OSError) as error:
            log.error("%s: %s", directory, error)

    # Small things --------------------------------------------------------------------------------------

    def _get(self, allocation: str) -> Held | None:
        with self._lock:
            return self._held.get(allocation)

    def _remember(self, held: Held) -> None:
        with self._lock:
            self._held[held.key] = held

    def _other_of(self, work: WorkOut) -> Held | None:
        """Another allocation of the same job that still has something here."""
        with self._lock:
            same = [one for key, one in self._held.items() if one.checkpoint.job == work.job and key != work.allocation]
        return next((one for one in same if one.phase is not Phase.ENDED), None)

    def _submit(self, step: Callable[..., None], held: Held, *arguments: Any) -> None:
        try:
            self._workers.submit(self._guarded, step, held, *arguments)
        except RuntimeError:  # the workers take nothing more
            if not self._closing.is_set():
                raise

    def _guarded(self, step: Callable[..., None], held: Held, *arguments: Any) -> None:
        with held.lock:
            self._guard(step, held, *arguments)

    def _guard(self, step: Callable[..., None], held: Held, *arguments: Any) -> None:
        """One job's trouble must not end the thread that serves them all.

        A supervisor that went away in the middle of a word has most likely ended: look at once. What else
        fails is tried again by `tend`.
        """
        try:
            step(held, *arguments)
        except SupervisorError as error:
            log.info("job %s: %s", held.checkpoint.job, error)
            self._hang_up(held)
            self._submit(self._reconnect, held)
        except (GpupoolError, BadSpec, OSError) as error:
            log.exception("job %s: %s", held.checkpoint.job, error)
            self._hang_up(held)


def _checkpoint(work: WorkOut, mechanism: str) -> Checkpoint:
    return Checkpoint(work.allocation, work.generation, work.job, mechanism, work.attached)


def _report(allocation: str, generation: int, state: Any, **facts: Any) -> ReportIn:
    facts["reason"] = facts.get("reason", "")[:400]
    return ReportIn(allocation=allocation, generation=generation, state=state, **facts)


def _start_once(directory: Path) -> JobStatus:
    """Start, or find that it was started before; either way where it stands now."""
    try:
        return start(directory)
    except (AlreadyStarted, AlreadySupervised, FailedToStart):
        return inspect(directory)
    except SupervisorError:
        # The process that was called may have been killed after the supervisor began: the directory knows.
        status = inspect(directory)
        if status.state is JobState.NOT_STARTED:
            raise
        return status
