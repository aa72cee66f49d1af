"""Translate the server's work into the input of a mechanism and of the supervisor, and back.

Decides under which Unix account a job runs: in a pool of root under the account that the server
names, otherwise under the agent's own, and never under another one. Reads device nodes and the
files of simulated cards; changes nothing else.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from gpupool.agent.jobs.hostfile import locate_unmounted
from gpupool.agent.supervisor.cgroups import make_device_rule
from gpupool.agent.supervisor.client import BindMount, ExitRecord, JobSpec, ResourceLimit
from gpupool.base.errors import NotFound, RequestRejection
from gpupool.base.units import format_mib
from gpupool.mechanisms.contract import AllocationView, GrantedDevice, JobSeat, PreparedAllocation
from gpupool.mechanisms.fence_survey import can_mount
from gpupool.model.device import Device
from gpupool.model.job_limits import USUAL, JobLimits, tighten
from gpupool.model.numa import format_cpus, parse_cpus
from gpupool.probes.contract import Probe
from gpupool.probes.simulated import SimulatedProbe
from gpupool.wire.fleet import NumaWork, ReportIn, WorkOut, WorkSeat

#: "unlimited" in the server's words for resource limits.
NO_LIMIT = -1
#: The directory of private mounts in a pool of root.
ROOT_BASE = "/run/gpupool"
_NOT_FOUND = (errno.ENOENT, errno.ENOTDIR)


@dataclass(frozen=True)
class LaunchSettings:
    """What every job of an agent has in common.

    Attributes:
        fixed_hard_limits: Hard limits by name that the agent cannot raise. A job gets no more,
            also where the server granted more.
    """

    pool: str
    uid: int
    gid: int
    log_max_bytes: int = 16 << 20
    log_files: int = 4
    attach_seconds: int = 30
    job_limits: JobLimits = USUAL
    fixed_hard_limits: Mapping[str, int] = field(default_factory=dict)

    @property
    def base(self) -> str:
        """The directory below which every job finds its private mounts."""
        return find_mount_base(self.uid)

    @property
    def share_mount(self) -> str:
        return f"{self.base}/share"


def find_mount_base(uid: int) -> str:
    """Find the directory of private mounts of a pool whose agent runs under this account."""
    # Only root can make a directory below /run.
    return ROOT_BASE if uid == 0 else f"/tmp/gpupool-{uid}"


def machine_file(agent_dir: Path, node: str) -> Path:
    """Return the path of the file that holds the state of a simulated node's cards."""
    return agent_dir / "simgpu" / node / "machine"


@dataclass(frozen=True)
class SimulatedNode:
    """The simulated cards of a node.

    Attributes:
        directory: The directory of the file that holds their state.
        costs: By uuid, the bytes of one context and of the allocation granule.
    """

    directory: Path
    costs: Mapping[str, tuple[int, int]]


def describe_simulated_node(probe: Probe) -> SimulatedNode | None:
    """Describe the simulated machine behind a probe; None for real cards and without a file."""
    if not isinstance(probe, SimulatedProbe) or probe.machine_file is None:
        return None
    costs = {card.uuid: (card.context_bytes, card.granule_bytes) for card in probe.machine_cards()}
    if os.geteuid() == 0 and can_mount():
        # Jobs of every account write the file through a mount of its directory; the directory
        # above keeps every other process out.
        probe.machine_file.parent.parent.chmod(0o700)
    return SimulatedNode(probe.machine_file.parent, costs)


def make_allocation_view(
    work: WorkOut,
    settings: LaunchSettings,
    nodes: Mapping[str, tuple[Device, ...]],
    probes: Mapping[str, Probe] = MappingProxyType({}),
) -> AllocationView:
    """Make what a mechanism needs to know of an allocation.

    Args:
        work: What the server wants.
        settings: What every job of the agent has in common.
        nodes: The devices of each node.
        probes: The probe of each node; needed for simulated cards only.

    Raises:
        NotFound: A card of the work, or the node of work without cards, is not here now.
    """
    cards: dict[str, tuple[str, Device]] = {}
    for name, devices in nodes.items():
        for device in devices:
            cards[device.uuid] = (name, device)
    missing = [seat for seat in work.seats if seat.uuid not in cards]
    node = cards[work.seats[0].uuid][0] if work.seats and not missing else work.node
    if missing or node not in nodes:
        gone = f"card {missing[0].uuid} is not on this node now" if missing else "its node is gone"
        raise NotFound(f"allocation {work.allocation}: {gone}", hint="the job is placed again")
    # Work without a card sees nothing of the node's simulated cards either.
    simulated = work.seats and node in probes
    machine = describe_simulated_node(probes[node]) if simulated else None
    costs = machine.costs if machine else {}
    granted = [
        _make_granted_device(seat, cards[seat.uuid][1], costs.get(seat.uuid)) for seat in work.seats
    ]
    as_other = settings.uid == 0 and work.run_as is not None
    return AllocationView(
        pool=settings.pool,
        allocation=work.allocation,
        generation=work.generation,
        job=work.job,
        tenant=work.tenant,
        sharing=work.sharing,
        granted=tuple(granted),
        node_devices=nodes[node],
        seat=JobSeat(
            base=settings.base,
            uid=work.run_as.uid if work.run_as and as_other else settings.uid,
            gid=work.run_as.gid if work.run_as and as_other else settings.gid,
            own_pool=settings.uid != 0,
        ),
        fence=work.fence,
        priority=work.priority,
        machine=machine.directory if machine else None,
    )


def _make_granted_device(
    seat: WorkSeat, device: Device, costs: tuple[int, int] | None
) -> GrantedDevice:
    context, granule = costs or (None, None)
    sizes = (seat.gpu_milli, seat.memory_bytes)
    return GrantedDevice(device, *sizes, context, granule, seat.profile, seat.start)


def check_account(work: WorkOut, settings: LaunchSettings) -> None:
    """Check that the agent may run the job under its account. Raises RequestRejection."""
    if settings.uid == 0 and work.run_as is None:
        raise RequestRejection(
            "no Unix account to run this job as",
            hint="an admin binds one: gpupool user set NAME --run-as",
        )
    if settings.uid != 0 and work.run_as is not None and work.run_as.uid != settings.uid:
        raise RequestRejection(
            f"the job would run as {work.run_as.name} (uid {work.run_as.uid}); "
            f"this pool runs every job as uid {settings.uid}",
            hint="a pool started by root runs every job as its own user",
        )


@dataclass(frozen=True)
class NumaBinding:
    """The processors and memory nodes near a job's cards, as lists in the kernel's format.

    Attributes:
        cpus: Where the job runs; None is anywhere.
        memory_nodes: Whose memory it prefers; None is any.
        shortfall: What this host cannot give, as a text for people.
    """

    cpus: str | None = None
    memory_nodes: str | None = None
    shortfall: str = ""


def bind_to_numa_nodes(parts: Sequence[NumaWork], usable: Collection[int]) -> NumaBinding:
    """Bind a job to all processors of its NUMA nodes.

    How much processor time the job has is limited by its cgroup. A job that may use every usable
    processor is not bound, and memory is a preference only.

    Args:
        parts: What the job has on each NUMA node.
        usable: The processors that this agent may use.
    """
    wanted: set[int] = set()
    for part in parts:
        if part.cpu_milli:
            wanted.update(parse_cpus(part.cpus))
    here = wanted & set(usable)
    memory_nodes = [part.numa for part in parts if part.host_bytes]
    shortfall = ""
    if wanted and not here:
        shortfall = f"processors {format_cpus(wanted)} of its NUMA node are not on this host"
    return NumaBinding(
        cpus=format_cpus(here) if here and here != set(usable) else None,
        memory_nodes=format_cpus(memory_nodes) if memory_nodes else None,
        shortfall=shortfall,
    )


def make_job_spec(
    work: WorkOut,
    prepared: PreparedAllocation,
    settings: LaunchSettings,
    cgroups: tuple[str, ...],
    binding: NumaBinding = NumaBinding(),
) -> JobSpec:
    """Make the description of a job for the supervisor.

    The mechanism's environment overrides the caller's.
    """
    as_root = settings.uid == 0 and work.run_as is not None
    return JobSpec(
        job_id=work.job,
        arguments=tuple(work.argv),
        directory=work.cwd,
        environment={**work.env, **prepared.env},
        uid=work.run_as.uid if work.run_as and as_root else None,
        gid=work.run_as.gid if work.run_as and as_root else None,
        groups=tuple(work.run_as.groups) if work.run_as and as_root else (),
        umask=work.umask,
        cpus=binding.cpus,
        memory_nodes=binding.memory_nodes,
        limits=_make_limits(work.limits, settings.fixed_hard_limits),
        stdio="attach" if work.attached else "log",
        log_max_bytes=settings.log_max_bytes,
        log_files=settings.log_files,
        share_directory=os.path.abspath(prepared.share_dir),
        share_mount=settings.share_mount,
        binds=tuple(
            BindMount(os.path.abspath(one.source), one.target, one.writable)
            for one in prepared.mounts
        ),
        unmounted_environment=_make_unmounted_environment(work, prepared),
        max_seconds=work.max_seconds,
        grace_seconds=work.grace_seconds,
        attach_seconds=settings.attach_seconds,
        cgroups=cgroups,
        device_deny=make_device_rules(prepared.deny_nodes) if cgroups else (),
        owner_uid=settings.uid,
    )


def _make_unmounted_environment(work: WorkOut, prepared: PreparedAllocation) -> dict[str, str]:
    """Make the environment of a job whose mounts fail: it finds libraries by variables only."""
    environment = {**prepared.unmounted, **locate_unmounted(work, prepared)}
    if prepared.library_path:
        path = list(prepared.library_path)
        own = work.env.get("LD_LIBRARY_PATH")
        if own:
            path.append(own)
        environment["LD_LIBRARY_PATH"] = ":".join(path)
    return environment


def make_device_rules(paths: Iterable[str]) -> tuple[str, ...]:
    """Make the rule of each device node that exists, like `c 195:1 rwm`."""
    return tuple(make_device_rule(Path(path)) for path in paths if Path(path).exists())


def make_end_report(allocation: str, generation: int, record: ExitRecord) -> ReportIn:
    """Make the report of a job's end from the supervisor's record.

    A job that could not start has the exit code that a shell would give: 126 or 127.
    """
    return ReportIn(
        allocation=allocation,
        generation=generation,
        state="ended",
        reason=_describe_end(record)[:400],
        exit_code=_find_exit_code(record),
        signal=record.signal,
        started_ns=record.started_ns or None,
        ended_ns=record.ended_ns or None,
        cpu_milliseconds=(record.user_us + record.system_us) // 1000,
        max_rss_bytes=record.max_rss_bytes,
    )


def _find_exit_code(record: ExitRecord) -> int | None:
    if record.state != "failed_to_start":
        return record.exit_code
    if record.stage == "attach":
        return None
    return 127 if record.errno in _NOT_FOUND and record.stage == "exec" else 126


def _describe_end(record: ExitRecord) -> str:
    if record.state == "failed_to_start" and record.stage == "exec" and record.errno:
        return f"{record.message}: {os.strerror(record.errno)}"
    if record.out_of_memory_bytes is not None and _is_killed(record):
        return describe_out_of_memory(record.out_of_memory_bytes)
    return record.message or record.reason


def _is_killed(record: ExitRecord) -> bool:
    """Whether SIGKILL ended the command, or a command below its shell (exit code 128 + 9)."""
    ended = record.reason in ("exited", "signalled")
    return ended and (record.signal == signal.SIGKILL or record.exit_code == 128 + signal.SIGKILL)


def describe_out_of_memory(limit_bytes: int) -> str:
    """Describe an end by the kernel for want of host memory.

    Args:
        limit_bytes: The limit of the job; 0 where it is unknown.
    """
    limit = f" of {format_mib(limit_bytes)}" if limit_bytes else ""
    return f"out of host memory: it reached its limit{limit}; --host-memory SIZE gives it more"


def _make_limits(
    granted: Mapping[str, tuple[int, int]], fixed: Mapping[str, int]
) -> dict[str, ResourceLimit]:
    """Make the limits of a job: what was granted, as far as this agent can give it.

    The server knows the limits of its caller, but not those of an agent.
    """
    limits: dict[str, ResourceLimit] = {}
    for name, (soft, hard) in granted.items():
        top = tighten(hard, fixed.get(name, NO_LIMIT))
        limits[name] = ResourceLimit(_convert_limit(tighten(soft, top)), _convert_limit(top))
    return limits


def _convert_limit(value: int) -> int | None:
    return None if value == NO_LIMIT else value
