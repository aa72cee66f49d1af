"""Dependencies that all job steps share: paths, the report queue, the devices of the nodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpupool.agent.jobs.checkpoint import JobDirectories
from gpupool.agent.jobs.container_start import RUNTIME, contain_view
from gpupool.agent.jobs.faults import StepHook
from gpupool.agent.jobs.helpers import HelperProcesses
from gpupool.agent.jobs.launch import LaunchSettings, make_allocation_view
from gpupool.agent.jobs.local_allocation import LocalAllocation
from gpupool.agent.monitoring.fence_counters import read_fence_usage, sum_used_bytes
from gpupool.agent.monitoring.idle_clock import IdleClock
from gpupool.agent.network.zones.zoned_networks import ZonedNetworks
from gpupool.agent.vm.host import VmHost
from gpupool.mechanisms.arbiter import ArbiterProcess
from gpupool.mechanisms.contract import AllocationView, HostKind, Mechanism
from gpupool.mechanisms.fence import FenceMechanism
from gpupool.mechanisms.fenced_files import locate_directories
from gpupool.mechanisms.offers.host_facts import read_host_facts
from gpupool.mechanisms.registry import MECHANISMS
from gpupool.model.container import USUAL_POLICY, ContainerPolicy
from gpupool.model.device import Device
from gpupool.model.isolation.host_facts import HostFacts
from gpupool.probes.contract import Probe
from gpupool.wire.fleet import ReportIn, WorkOut
from gpupool.wire.samples import JobSample


def _drop_sample(_sample: JobSample) -> None:
    """Ignore a sample: nothing collects samples here."""


def _make_absent_arbiter() -> ArbiterProcess:
    """Make an arbiter without a program: every share keeps its static part of the time."""
    return ArbiterProcess(None, lambda: 0.0)


def _read_usual_facts() -> HostFacts:
    """Read the facts of a host of which no agent knows more."""
    return read_host_facts(own_pool=os.geteuid() != 0, cgroups="none")


@dataclass
class JobContext:
    """The dependencies of the job steps.

    Attributes:
        directories: The directories of jobs on disk.
        state_dir: Where mechanisms keep their state.
        settings: What every job of the agent has in common.
        queue_report: Queues a report for the server; never blocks.
        find_cgroups: The cgroups of a job, by its id.
        reach_step: Called at each named step (`jobs.faults`).
        announce_change: Called when a job begins or ends to run.
        queue_last_sample: Takes the last sample of a fenced job, before the report of its end.
        probes: The probe of each node.
        arbiter: Divides the time of the cards among fenced jobs.
        nodes: The devices of each node, as the last scan found them.
        read_host_facts: Reads what decides which mechanisms this node offers.
        idle_clock: Measures for how long the cards of a job have no work of it.
        helpers: The processes that allocations need beside their jobs.
        networks: Attaches jobs to networks.
        container_policy: What containers may have.
    """

    directories: JobDirectories
    state_dir: Path
    settings: LaunchSettings
    queue_report: Callable[[ReportIn], None]
    find_cgroups: Callable[[str], tuple[str, ...]]
    reach_step: StepHook
    announce_change: Callable[[], None]
    queue_last_sample: Callable[[JobSample], None] = _drop_sample
    probes: Mapping[str, Probe] = field(default_factory=dict)
    arbiter: ArbiterProcess = field(default_factory=_make_absent_arbiter)
    nodes: Mapping[str, tuple[Device, ...]] = field(default_factory=dict)
    container_policy: ContainerPolicy = USUAL_POLICY
    read_host_facts: Callable[[], HostFacts] = _read_usual_facts
    idle_clock: IdleClock = field(default_factory=IdleClock)
    helpers: HelperProcesses = field(init=False)
    networks: ZonedNetworks = field(init=False)

    def __post_init__(self) -> None:
        root = self.state_dir / "helpers"
        self.helpers = HelperProcesses(root, self.settings.uid, self.find_cgroups)
        self.networks = ZonedNetworks(self.state_dir / "network")

    def make_view(self, work: WorkOut) -> AllocationView:
        """Make what a mechanism needs to know. Raises NotFound if a card is not on the nodes."""
        view = make_allocation_view(work, self.settings, self.nodes, self.probes)
        view = replace(view, cgroups=self.find_cgroups(work.job))
        if work.vm is not None:
            return replace(view, host=HostKind.VM)
        return view if work.container is None else contain_view(view)

    @property
    def vms(self) -> VmHost:
        """The VMs of this agent."""
        return VmHost(self.state_dir / "vms", self.state_dir, self.reach_step)

    def get_mechanism(self, allocation: LocalAllocation) -> Mechanism:
        """Return the mechanism that prepared the allocation."""
        return MECHANISMS[allocation.checkpoint.mechanism]

    def is_plain(self, allocation: LocalAllocation) -> bool:
        """Whether the job's command runs on this machine itself, in no container and no VM."""
        is_vm = (self.state_dir / "vms" / allocation.checkpoint.job).exists()
        return not is_vm and not (allocation.directory / RUNTIME).exists()

    def add_to_arbiter(self, allocation: LocalAllocation) -> None:
        """Let the arbiter divide the cards' time for a fenced allocation. Idempotent."""
        if allocation.checkpoint.mechanism == FenceMechanism.name:
            directories = locate_directories(allocation.key, self.state_dir)
            self.arbiter.add_share(allocation.key, *directories)

    def read_memory_used(self, allocation: LocalAllocation) -> int | None:
        """Return the bytes of card memory that the job uses; None where no fence counts them."""
        usage = read_fence_usage(allocation.key, self.state_dir)
        return None if usage is None else sum_used_bytes(usage)
