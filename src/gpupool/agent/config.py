"""The settings of one agent, built once at an entry point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpupool.agent.supervisor.log_quota import LogQuota
from gpupool.model.container import USUAL_POLICY, ContainerPolicy
from gpupool.model.job_limits import USUAL, JobLimits

#: Seconds of one long poll for work, which is the agent's heartbeat.
HEARTBEAT_SECONDS: Final = 25


@dataclass(frozen=True)
class AgentConfig:
    """The settings of one agent.

    Attributes:
        name: The agent's name. With one node it is also the node's.
        pool_id: The id of the pool; it names the cgroups of jobs.
        owner_uid: The Unix account of the agent; 0 can run jobs of other accounts.
        owner_gid: Its group.
        labels: The labels of each node.
        sample_seconds: Seconds between two samples of use while a job runs.
        heartbeat_seconds: Seconds of one long poll for work.
        log_max_bytes: Bytes of one segment of a job's log.
        log_files: Segments of a job's log.
        fence_reaction: What happens to a job that bypasses its fence: warn, freeze or kill; None
            is `get_default_reaction`.
        job_limits: Limits of jobs that ask for none.
        container_policy: What containers may have.
        log_quota: Bytes of output that the node keeps.
        tunnel_address: Address of the machine for tunnels to others; empty: of its default route.
    """

    name: str
    pool_id: str
    owner_uid: int
    owner_gid: int
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sample_seconds: float = 10.0
    heartbeat_seconds: int = HEARTBEAT_SECONDS
    log_max_bytes: int = 16 << 20
    log_files: int = 4
    fence_reaction: str | None = None
    job_limits: JobLimits = USUAL
    container_policy: ContainerPolicy = USUAL_POLICY
    log_quota: LogQuota = field(default_factory=LogQuota)
    tunnel_address: str = ""


def get_default_reaction(owner_uid: int) -> str:
    """Return what happens to a job that bypasses its fence.

    Root's pool serves tenants. No tenant may lose a share to another tenant: the job is killed.
    In the pool of a single user only that user would lose work: the job gets a warning.
    """
    return "kill" if owner_uid == 0 else "warn"
