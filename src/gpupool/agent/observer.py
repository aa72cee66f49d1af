"""Looking at cards and jobs while there is something to see: samples of use, and news of health.

Asleep while no job runs; real cards are looked at with each heartbeat as well, because others may use them.
Foreign processes are shown and never touched.
"""

from __future__ import annotations

import logging
import pwd
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from gpupool.agent.fenced import job_sample
from gpupool.agent.usage import TreeUsage, read_processes, trees
from gpupool.base.errors import GpupoolError
from gpupool.base.silence import busy
from gpupool.base.supervised import SupervisedThread
from gpupool.mechanisms.regions import FenceUsage
from gpupool.model.device import DeviceUsage, Process
from gpupool.probes.contract import HealthEvent, Machine, Probe
from gpupool.wire.fleet import DeviceSample, JobSample, ProcessOut, UsageOut

WATCHED_PROBES = 32
"""A thread waits for the events of each of so many probes; more of them are asked with each heartbeat."""
_EVENT_WAIT_SECONDS = 3600.0

log = logging.getLogger(__name__)


class Observer:
    """`running` gives the supervisor's process of each job, `ledgers` what their fences say; `tell` takes what was
    seen.
    """

    def __init__(
        self,
        probes: Mapping[str, Probe],
        running: Callable[[], Mapping[str, int]],
        tell: Callable[[Sequence[DeviceSample], Sequence[JobSample]], None],
        wall_ns: Callable[[], int],
        sample_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        ledgers: Callable[[], Mapping[str, FenceUsage]] = dict,
    ) -> None:
        self._probes, self._running, self._tell, self._wall_ns = dict(probes), running, tell, wall_ns
        self._sample_seconds = sample_seconds
        self._machines: dict[str, Machine] = {}
        self._told: dict[str, tuple[str, str]] = {}
        self._clock, self._due, self._ledgers = clock, 0.0, ledgers
        self._wake = threading.Condition()
        self._closing = self._asked = False
        watched = self._probes.items() if len(self._probes) <= WATCHED_PROBES else ()
        self._asks_health = not watched
        self._threads = [SupervisedThread("agent-observer", self._run)]
        self._threads += [
            SupervisedThread(f"agent-health-{name}", partial(self._events, probe)) for name, probe in watched
        ]

    def know(self, machines: Mapping[str, Machine]) -> None:
        """What the last scan found, by node."""
        self._machines = dict(machines)
        self._told = {d.uuid: (d.health.value, d.health_reason) for m in machines.values() for d in m.devices}

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Closes the probes too: that is how those who wait for their events wake."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        for probe in self._probes.values():
            probe.close()

    def join(self, seconds: float | None = None) -> None:
        for thread in self._threads:
            thread.join(seconds)

    def changed(self) -> None:
        """Jobs begin or end to run: the next sample may be due sooner or not at all."""
        with self._wake:
            self._wake.notify()

    def heartbeat(self) -> None:
        """Look at what nobody tells of by itself."""
        if self._asks_health or any(not machine.simulated for machine in self._machines.values()):
            with self._wake:
                self._asked = True
                self._wake.notify()

    def sample(self) -> None:
        """One look at everything there is to see."""
        running = self._running()
        seen = trees(read_processes(), running.values()) if running else {}
        ours = {job: seen[pid] for job, pid in running.items() if pid in seen}
        usages = self._usages()
        devices = self._device_samples(usages, ours)
        if self._asks_health:
            devices += self._health_samples()
        ledgers = self._ledgers() if ours else {}
        self._tell(devices, [job_sample(job, tree, usages, ledgers.get(job)) for job, tree in ours.items()])

    def _run(self) -> None:
        while self._next():
            try:
                with busy():
                    self.sample()
            except (GpupoolError, OSError) as error:
                log.warning("could not sample: %s", error)

    def _next(self) -> bool:
        """Sleep until a sample is due, or for good while no job runs; False when closing."""
        with self._wake:
            while not (self._closing or self._asked):
                busy, left = bool(self._running()), self._due - self._clock()
                if busy and left <= 0:
                    break
                self._wake.wait(left if busy else None)
            self._asked = False
            self._due = self._clock() + self._sample_seconds
            return not self._closing

    def _usages(self) -> dict[str, DeviceUsage]:
        found: dict[str, DeviceUsage] = {}
        for name, machine in self._machines.items():
            seen = self._probes[name].observe([device.uuid for device in machine.devices])
            found |= {uuid: usage for uuid, usage in seen.items() if usage != DeviceUsage()}
        return found

    def _device_samples(self, usages: Mapping[str, DeviceUsage], ours: Mapping[str, TreeUsage]) -> list[DeviceSample]:
        mine = frozenset(pid for tree in ours.values() for pid in tree.pids)
        return [
            DeviceSample(
                uuid=uuid,
                usage=_usage_out(usage, self._wall_ns()),
                unmanaged=[process_out(one) for one in usage.processes or () if one.pid not in mine],
            )
            for uuid, usage in usages.items()
        ]

    def _health_samples(self) -> list[DeviceSample]:
        told = [
            self._news(HealthEvent(uuid, health, reason))
            for probe in self._probes.values()
            for uuid, (health, reason) in probe.health().items()
        ]
        return [sample for samples in told for sample in samples]

    def _events(self, probe: Probe) -> None:
        try:
            while not self._closing:
                for event in probe.wait_events(_EVENT_WAIT_SECONDS):
                    log.warning("card %s: %s %s", event.uuid, event.health.value, event.reason)
                    self._tell(self._news(event, probe), ())
        except (GpupoolError, OSError) as error:
            log.warning("%s tells no events any more, it is asked with each heartbeat: %s", probe.name, error)
            self._asks_health = True

    def _news(self, event: HealthEvent, probe: Probe | None = None) -> list[DeviceSample]:
        """The cards whose health differs from what was told; all of a probe's where the driver named none."""
        said = {event.uuid: (event.health, event.reason)} if event.uuid else probe.health() if probe else {}
        news = {uuid: (health.value, reason[:200]) for uuid, (health, reason) in said.items() if uuid}
        news = {uuid: state for uuid, state in news.items() if self._told.get(uuid) != state}
        self._told |= news
        return [
            DeviceSample(uuid=uuid, usage=UsageOut(), health=health, health_reason=reason)
            for uuid, (health, reason) in news.items()
        ]


def process_out(process: Process) -> ProcessOut:
    """A process that is not ours, as the kernel and the account database name it."""
    return ProcessOut(
        pid=process.pid,
        user=None if process.uid is None else _user(process.uid),
        name=process.name or _command(process.pid) or "unknown",
        memory_bytes=process.memory_bytes,
        started_ns=process.started_at_ns,
    )


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _usage_out(usage: DeviceUsage, at_ns: int) -> UsageOut:
    return UsageOut(
        utilization_percent=usage.utilization_percent,
        memory_used_bytes=usage.memory_used_bytes,
        power_watts=usage.power_watts,
        temperature_celsius=usage.temperature_celsius,
        at_ns=at_ns,
    )
