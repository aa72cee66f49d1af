"""What every step of a job works with: where things lie, whom it tells, which cards there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpupool.agent.checkpoint import JobDirectories
from gpupool.agent.faults import Fault
from gpupool.agent.fenced import ledger_of, used_bytes
from gpupool.agent.held import Held
from gpupool.agent.launch import LaunchSettings, view_of
from gpupool.mechanisms.arbiter import Arbiter
from gpupool.mechanisms.contract import AllocationView, Mechanism
from gpupool.mechanisms.fence import Fence, shared_directories
from gpupool.mechanisms.registry import MECHANISMS
from gpupool.model.device import Device
from gpupool.probes.contract import Probe
from gpupool.wire.fleet import JobSample, ReportIn, WorkOut


@dataclass
class Means:
    """`report` queues a report; `changed` is called when jobs begin or end to run; `sampled` takes the last sample of
    a fenced job, before the report of its end.
    """

    directories: JobDirectories
    state_dir: Path
    settings: LaunchSettings
    report: Callable[[ReportIn], None]
    cgroups_for: Callable[[str], tuple[str, ...]]
    fault: Fault
    changed: Callable[[], None]
    sampled: Callable[[JobSample], None] = lambda _sample: None
    probes: Mapping[str, Probe] = field(default_factory=dict)
    arbiter: Arbiter = field(default_factory=lambda: Arbiter(None, lambda: 0.0))
    nodes: Mapping[str, tuple[Device, ...]] = field(default_factory=dict)
    """What the last scan found."""

    def view_of(self, work: WorkOut) -> AllocationView:
        return view_of(work, self.settings, self.nodes, self.probes)

    def mechanism_of(self, held: Held) -> Mechanism:
        return MECHANISMS[held.checkpoint.mechanism]

    def divide_for(self, held: Held) -> None:
        """The arbiter divides the cards' time for whatever is fenced."""
        if held.checkpoint.mechanism == Fence.name:
            self.arbiter.add(held.key, *shared_directories(held.key, self.state_dir))

    def memory_used(self, held: Held) -> int | None:
        """Card memory that the job's processes hold now, as far as its mechanism counts it."""
        ledger = ledger_of(held.key, self.state_dir)
        return None if ledger is None else used_bytes(ledger)
