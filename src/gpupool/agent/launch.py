"""From work to what a supervisor and a mechanism are told. Pure but for looking at device nodes and simulated cards.

Decides as whom a job runs: in a root's pool as the account the server named, else as the agent itself, and
never as anybody else.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from gpupool.agent.cgroups import device_rule
from gpupool.agent.supervisor import Bind, ExitRecord, JobSpec, Limit
from gpupool.base.errors import NotFound, Refused
from gpupool.base.units import format_mib
from gpupool.mechanisms.contract import AllocationView, GrantedDevice, JobSeat, Prepared
from gpupool.mechanisms.fence_survey import can_mount
from gpupool.model.device import Device
from gpupool.model.job_limits import USUAL, JobLimits, least
from gpupool.model.numa import format_cpus, parse_cpus
from gpupool.probes.contract import Probe
from gpupool.probes.simulated import SimulatedProbe
from gpupool.wire.fleet import NumaWork, ReportIn, WorkOut, WorkSeat

NO_LIMIT = -1
ROOT_BASE = "/run/gpupool"
_NOT_FOUND = (2, 20)  # ENOENT, ENOTDIR


@dataclass(frozen=True)
class LaunchSettings:
    """What is the same for every job of an agent."""

    pool: str
    uid: int
    gid: int
    log_max_bytes: int = 16 << 20
    log_files: int = 4
    attach_seconds: int = 30
    job_limits: JobLimits = USUAL
    fixed_hard_limits: Mapping[str, int] = field(default_factory=dict)
    """Hard limits by name that the agent cannot raise: a job gets no more, where the server granted more."""

    @property
    def base(self) -> str:
        """Below it every job finds what is mounted for it; a user's own pool cannot make a directory below /run."""
        return base_of(self.uid)

    @property
    def share_mount(self) -> str:
        return f"{self.base}/share"


def base_of(uid: int) -> str:
    """The directory of private mounts of a pool whose agent runs as that user."""
    return ROOT_BASE if uid == 0 else f"/tmp/gpupool-{uid}"


def machine_file(agent_dir: Path, node: str) -> Path:
    """The file that stands for a simulated node's cards."""
    return agent_dir / "simgpu" / node / "machine"


@dataclass(frozen=True)
class SimulatedNode:
    """The directory with the file of a node's simulated cards; by uuid what a context costs and the granule, bytes."""

    directory: Path
    costs: Mapping[str, tuple[int, int]]


def simulated_node(probe: Probe) -> SimulatedNode | None:
    """The simulated machine behind a probe, its file made if need be; None for real cards and without a file."""
    if not isinstance(probe, SimulatedProbe) or probe.machine_file is None:
        return None
    costs = {card.uuid: (card.context_bytes, card.granule_bytes) for card in probe.machine_cards()}
    if os.geteuid() == 0 and can_mount():
        # Jobs of any account write the file, and get its directory mounted; others are kept out above it.
        probe.machine_file.parent.parent.chmod(0o700)
    return SimulatedNode(probe.machine_file.parent, costs)


def view_of(
    work: WorkOut,
    settings: LaunchSettings,
    nodes: Mapping[str, tuple[Device, ...]],
    probes: Mapping[str, Probe] = MappingProxyType({}),
) -> AllocationView:
    """What a mechanism needs to know. Raises NotFound when a card is not on this agent's nodes now."""
    cards = {device.uuid: (name, device) for name, devices in nodes.items() for device in devices}
    missing = [seat for seat in work.seats if seat.uuid not in cards]
    if missing or not work.seats:
        gone = f"card {missing[0].uuid} is not on this node now" if missing else "it has no card"
        raise NotFound(f"allocation {work.allocation}: {gone}", hint="the job is placed again")
    node = cards[work.seats[0].uuid][0]
    machine = simulated_node(probes[node]) if node in probes else None
    costs = machine.costs if machine else {}
    granted = [_granted(seat, cards[seat.uuid][1], costs.get(seat.uuid)) for seat in work.seats]
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


def _granted(seat: WorkSeat, device: Device, costs: tuple[int, int] | None) -> GrantedDevice:
    context, granule = costs or (None, None)
    return GrantedDevice(device, seat.gpu_milli, seat.memory_bytes, context, granule, seat.profile)


def check_account(work: WorkOut, settings: LaunchSettings) -> None:
    """Refuse to run as anybody but whom we may run as. Raises Refused."""
    if settings.uid == 0 and work.run_as is None:
        raise Refused("no Unix account to run this job as", hint="an admin binds one: gpupool user set NAME --run-as")
    if settings.uid != 0 and work.run_as is not None and work.run_as.uid != settings.uid:
        raise Refused(
            f"the job would run as {work.run_as.name} (uid {work.run_as.uid}); "
            f"this pool runs every job as uid {settings.uid}",
            hint="a pool started by root runs every job as its own user",
        )


@dataclass(frozen=True)
class Near:
    """Where a job runs beside its cards; None is anywhere. `unheld` says what of it this host cannot give."""

    cpus: str | None = None
    memory_nodes: str | None = None
    unheld: str = ""


def near_cards(parts: Sequence[NumaWork], usable: Collection[int]) -> Near:
    """All processors of the NUMA nodes that its own are of: how much of their time it has is its cgroup's to say.

    Nothing is bound that need not be: all that is usable is no restriction, and memory is a preference.
    """
    listed = [parse_cpus(part.cpus) for part in parts if part.cpu_milli]
    wanted = {cpu for cpus in listed for cpu in cpus}
    here = wanted & set(usable)
    numbers = [part.numa for part in parts if part.host_bytes]
    unheld = f"processors {format_cpus(wanted)} of its NUMA node are not on this host" if wanted and not here else ""
    keep = format_cpus(here) if here and here != set(usable) else None
    return Near(keep, format_cpus(numbers) if numbers else None, unheld)


def job_spec(
    work: WorkOut, prepared: Prepared, settings: LaunchSettings, cgroups: tuple[str, ...], near: Near = Near()
) -> JobSpec:
    """What the supervisor is to start. What the mechanism says wins over the caller's environment."""
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
        cpus=near.cpus,
        memory_nodes=near.memory_nodes,
        limits=_limits(work.limits, settings.fixed_hard_limits),
        stdio="attach" if work.attached else "log",
        log_max_bytes=settings.log_max_bytes,
        log_files=settings.log_files,
        share_directory=os.path.abspath(prepared.share_dir),
        share_mount=settings.share_mount,
        binds=tuple(Bind(os.path.abspath(one.source), one.target, one.writable) for one in prepared.mounts),
        unmounted_environment=_unmounted(work, prepared),
        max_seconds=work.max_seconds,
        grace_seconds=work.grace_seconds,
        attach_seconds=settings.attach_seconds,
        cgroups=cgroups,
        device_deny=device_rules(prepared.deny_nodes) if cgroups else (),
        owner_uid=settings.uid,
    )


def _unmounted(work: WorkOut, prepared: Prepared) -> dict[str, str]:
    """The environment of a job for which nothing could be mounted: libraries are found by variables or not at all."""
    own = work.env.get("LD_LIBRARY_PATH")
    path = [*prepared.library_path, *([own] if own else [])]
    return {**prepared.unmounted, **({"LD_LIBRARY_PATH": ":".join(path)} if prepared.library_path else {})}


def device_rules(paths: Iterable[str]) -> tuple[str, ...]:
    """`c 195:1 rwm` for each device node that is there; one that is not needs no rule."""
    return tuple(device_rule(Path(path)) for path in paths if Path(path).exists())


def ended_report(allocation: str, generation: int, record: ExitRecord) -> ReportIn:
    """How a job ended, in the words of the wire. One that could not start has a code as shells count."""
    return ReportIn(
        allocation=allocation,
        generation=generation,
        state="ended",
        reason=_reason(record)[:400],
        exit_code=_code(record),
        signal=record.signal,
        started_ns=record.started_ns or None,
        ended_ns=record.ended_ns or None,
        cpu_milliseconds=(record.user_us + record.system_us) // 1000,
        max_rss_bytes=record.max_rss_bytes,
    )


def _code(record: ExitRecord) -> int | None:
    if record.state != "failed_to_start":
        return record.exit_code
    if record.stage == "attach":
        return None
    return 127 if record.errno in _NOT_FOUND and record.stage == "exec" else 126


def _reason(record: ExitRecord) -> str:
    if record.state == "failed_to_start" and record.stage == "exec" and record.errno:
        return f"{record.message}: {os.strerror(record.errno)}"
    if record.out_of_memory_bytes is not None and _looks_killed(record):
        return out_of_memory(record.out_of_memory_bytes)
    return record.message or record.reason


def _looks_killed(record: ExitRecord) -> bool:
    """The command itself, or the one below a shell, which says so by its code."""
    ended = record.reason in ("exited", "signalled")
    return ended and (record.signal == signal.SIGKILL or record.exit_code == 128 + signal.SIGKILL)


def out_of_memory(limit_bytes: int) -> str:
    """Why the kernel ended it, with what it may use and what gives it more."""
    limit = f" of {format_mib(limit_bytes)}" if limit_bytes else ""
    return f"out of host memory: it reached its limit{limit}; --host-memory SIZE gives it more"


def _limits(granted: Mapping[str, tuple[int, int]], fixed: Mapping[str, int]) -> dict[str, Limit]:
    """What is granted as far as this agent can give it. The server knows its caller's limits, but no agent's."""
    limits: dict[str, Limit] = {}
    for name, (soft, hard) in granted.items():
        top = least(hard, fixed.get(name, NO_LIMIT))
        limits[name] = Limit(_limit(least(soft, top)), _limit(top))
    return limits


def _limit(value: int) -> int | None:
    return None if value == NO_LIMIT else value
