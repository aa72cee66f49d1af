"""Samples the use of cards and jobs, and watches the health of cards.

It sleeps while no job runs. Real cards are sampled with each heartbeat as well, because processes
outside the pool may use them; these are reported and never changed.
"""

from __future__ import annotations

import logging
import pwd
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from gpupool.agent.monitoring.fence_counters import make_job_sample
from gpupool.agent.monitoring.idle_clock import IdleClock
from gpupool.agent.monitoring.terminal_use import measure_terminal_rest
from gpupool.agent.monitoring.usage import TreeUsage, read_processes, sum_process_trees
from gpupool.base.errors import GpupoolError, ProbeSuspended
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.mechanisms.regions import FenceUsage
from gpupool.model.device import DeviceProcess, DeviceUsage
from gpupool.probes.contract import HealthEvent, Machine, Probe
from gpupool.wire.faults.incidents import CardFaultIn
from gpupool.wire.samples import DeviceSample, JobSample, ProcessOut, UsageOut

#: With up to so many probes a thread waits for the events of each; more probes are asked with each
#: heartbeat instead.
WATCHED_PROBES = 32
_EVENT_WAIT_SECONDS = 3600.0

log = logging.getLogger(__name__)


class UsageObserver:
    """The thread that samples, and one thread for the events of each probe."""

    def __init__(
        self,
        probes: Mapping[str, Probe],
        running: Callable[[], Mapping[str, int]],
        tell: Callable[[Sequence[DeviceSample], Sequence[JobSample]], None],
        wall_ns: Callable[[], int],
        sample_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        ledgers: Callable[[], Mapping[str, FenceUsage]] = dict,
        idle_clock: IdleClock | None = None,
        tell_fault: Callable[[CardFaultIn], None] | None = None,
    ) -> None:
        """Make the observer; `start` begins to sample.

        Args:
            probes: The probe of each node.
            running: Returns the supervisor's process of each running job.
            tell: Takes the samples of devices and of jobs; never blocks.
            wall_ns: The time now in nanoseconds since 1970.
            sample_seconds: Seconds between two samples while a job runs.
            clock: Monotonic seconds.
            ledgers: Returns the usage counters of each job with a fence.
            idle_clock: Measures for how long a job's cards have no work of it.
            tell_fault: Takes each XID of a card.
        """
        self._probes = dict(probes)
        self._running = running
        self._tell = tell
        self._wall_ns = wall_ns
        self._clock = clock
        self._ledgers = ledgers
        self._idle_clock = idle_clock or IdleClock(clock)
        self._tell_fault = tell_fault
        self._next_sample = 0.0
        self._sample_seconds = sample_seconds
        self._machines: dict[str, Machine] = {}
        # The health of each card, as it was reported last.
        self._reported_health: dict[str, tuple[str, str]] = {}
        self._wake = threading.Condition()
        self._closing = False
        self._is_sample_requested = False
        watched = self._probes.items() if len(self._probes) <= WATCHED_PROBES else ()
        self._asks_health = not watched
        self._threads = [SupervisedThread("agent-observer", self._run)]
        self._threads += [
            SupervisedThread(f"agent-health-{name}", partial(self._watch_events, probe))
            for name, probe in watched
        ]

    def set_machines(self, machines: Mapping[str, Machine]) -> None:
        """Replace the machines by what the last scan found, by node."""
        self._machines = dict(machines)
        reported = {}
        for machine in machines.values():
            for device in machine.devices:
                reported[device.uuid] = (device.health.value, device.health_reason)
        self._reported_health = reported

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Let the threads end. Closes the probes too, which wakes the threads that wait there."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        for probe in self._probes.values():
            probe.close()

    def join(self, seconds: float | None = None) -> None:
        """Wait for the end of each thread, for at most `seconds`."""
        for thread in self._threads:
            thread.join(seconds)

    def note_job_change(self) -> None:
        """Note that a job began or ended: the next sample may be due sooner or not at all."""
        with self._wake:
            self._wake.notify()

    def request_sample(self) -> None:
        """Request a sample where cards are used from outside, or have no health events."""
        if self._asks_health or any(not machine.simulated for machine in self._machines.values()):
            with self._wake:
                self._is_sample_requested = True
                self._wake.notify()

    def sample(self) -> None:
        """Sample every card and every job. Blocks for the drivers."""
        running = self._running()
        seen = sum_process_trees(read_processes(), running.values()) if running else {}
        ours = {job: seen[pid] for job, pid in running.items() if pid in seen}
        usages = self._read_usages()
        devices = self._make_device_samples(usages, ours)
        if self._asks_health:
            devices += self._make_health_samples()
        ledgers = self._ledgers() if ours else {}
        samples = []
        for job, tree in ours.items():
            idle = self._idle_clock.measure(job, ledgers.get(job))
            sample = make_job_sample(job, tree, usages, ledgers.get(job))
            rest = measure_terminal_rest(tree.terminal, self._wall_ns())
            more = {"idle_milliseconds": idle, "terminal_milliseconds": rest}
            samples.append(sample.model_copy(update=more))
        self._idle_clock.keep_only(ours)
        self._tell(devices, samples)

    def _run(self) -> None:
        while self._wait_until_due():
            try:
                with mark_busy():
                    self.sample()
            except (GpupoolError, OSError) as error:
                log.warning("could not sample: %s", error)

    def _wait_until_due(self) -> bool:
        """Sleep until a sample is due, or for good while no job runs; False when closing."""
        with self._wake:
            while not (self._closing or self._is_sample_requested):
                has_jobs = bool(self._running())
                seconds = self._next_sample - self._clock()
                if has_jobs and seconds <= 0:
                    break
                self._wake.wait(seconds if has_jobs else None)
            self._is_sample_requested = False
            self._next_sample = self._clock() + self._sample_seconds
            return not self._closing

    def _read_usages(self) -> dict[str, DeviceUsage]:
        found: dict[str, DeviceUsage] = {}
        for name, machine in self._machines.items():
            uuids = [device.uuid for device in machine.devices]
            try:
                seen = self._probes[name].observe(uuids)
            except ProbeSuspended as reason:
                # Their last values would be shown as if they were of now.
                log.info("the cards of %s are not sampled: %s", name, reason.message)
                found |= dict.fromkeys(uuids, DeviceUsage())
                continue
            found |= {uuid: usage for uuid, usage in seen.items() if usage != DeviceUsage()}
        return found

    def _make_device_samples(
        self, usages: Mapping[str, DeviceUsage], ours: Mapping[str, TreeUsage]
    ) -> list[DeviceSample]:
        pool_pids: set[int] = set()
        for tree in ours.values():
            pool_pids |= tree.pids
        samples = []
        for uuid, usage in usages.items():
            foreign = [one for one in usage.processes or () if one.pid not in pool_pids]
            samples.append(
                DeviceSample(
                    uuid=uuid,
                    usage=_describe_usage(usage, self._wall_ns()),
                    unmanaged=[describe_process(one) for one in foreign],
                )
            )
        return samples

    def _make_health_samples(self) -> list[DeviceSample]:
        samples = []
        for probe in self._probes.values():
            try:
                found = probe.health()
            except ProbeSuspended:
                continue  # what is known of its cards holds
            for uuid, (health, reason) in found.items():
                samples += self._find_health_changes(HealthEvent(uuid, health, reason))
        return samples

    def _watch_events(self, probe: Probe) -> None:
        try:
            while not self._closing:
                for event in probe.wait_events(_EVENT_WAIT_SECONDS):
                    log.warning("card %s: %s %s", event.uuid, event.health.value, event.reason)
                    self._report_fault(event)
                    self._tell(self._find_health_changes(event, probe), ())
        except (GpupoolError, OSError) as error:
            log.warning(
                "%s tells no events any more, it is asked with each heartbeat: %s",
                probe.name,
                error,
            )
            self._asks_health = True

    def _report_fault(self, event: HealthEvent) -> None:
        """Report the XID of an event: also one that changes no card's health is evidence."""
        if self._tell_fault is None or event.xid is None or event.uuid is None:
            return
        recovery = None if event.recovery is None else event.recovery.value
        self._tell_fault(
            CardFaultIn(uuid=event.uuid, xid=event.xid, at_ns=self._wall_ns(), recovery=recovery)
        )

    def _find_health_changes(
        self, event: HealthEvent, probe: Probe | None = None
    ) -> list[DeviceSample]:
        """Find the cards whose health differs from the reported one.

        An event without a card is about all cards of its probe.
        """
        if event.uuid:
            found = {event.uuid: (event.health, event.reason)}
        elif probe:
            found = dict(probe.health())
        else:
            found = {}
        samples = []
        for uuid, (health, reason) in found.items():
            state = (health.value, reason[:200])
            if not uuid or self._reported_health.get(uuid) == state:
                continue
            self._reported_health[uuid] = state
            samples.append(
                DeviceSample(
                    uuid=uuid, usage=UsageOut(), health=health.value, health_reason=state[1]
                )
            )
        return samples


def describe_process(process: DeviceProcess) -> ProcessOut:
    """Describe a process outside the pool, as the kernel and the account database name it."""
    return ProcessOut(
        pid=process.pid,
        user=None if process.uid is None else _find_user_name(process.uid),
        name=process.name or _read_command(process.pid) or "unknown",
        memory_bytes=process.memory_bytes,
        started_ns=process.started_at_ns,
    )


def _find_user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _read_command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _describe_usage(usage: DeviceUsage, at_ns: int) -> UsageOut:
    return UsageOut(
        utilization_percent=usage.utilization_percent,
        memory_used_bytes=usage.memory_used_bytes,
        power_watts=usage.power_watts,
        energy_millijoules=usage.energy_millijoules,
        temperature_celsius=usage.temperature_celsius,
        at_ns=at_ns,
    )
