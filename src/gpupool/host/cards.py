"""Finds the cards that a pool starts with, and creates the embedded agent for them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpupool.agent.config import AgentConfig
from gpupool.agent.jobs.faults import make_step_hook
from gpupool.agent.jobs.launch import machine_file
from gpupool.agent.labels import parse_labels
from gpupool.agent.loop import Agent
from gpupool.agent.network.tunnel_address import read_tunnel_address
from gpupool.agent.supervisor.log_quota import read_log_quota
from gpupool.base.client_settings import ClientSettings
from gpupool.base.errors import BadMachine
from gpupool.base.settings import PoolPaths
from gpupool.client.transport import Api
from gpupool.host.state.directory import PoolMarker
from gpupool.mechanisms.released_step import await_released_steps
from gpupool.model.container import USUAL_POLICY, ContainerPolicy
from gpupool.model.job_limits import USUAL, JobLimits, parse_job_limits
from gpupool.probes.contract import Machine, Probe
from gpupool.probes.registry import find_first_available
from gpupool.probes.simulated import SimulatedProbe, parse_sim

#: Simulated nodes whose cards' files are created at the start of the pool; files of further nodes
#: are created with their first job, so that a large simulated pool starts quickly.
MADE_AT_ONCE = 32


@dataclass(frozen=True)
class PoolCards:
    """A pool's machines, by node name."""

    probes: Mapping[str, Probe]
    machines: tuple[Machine, ...]
    simulated: bool
    fence_reaction: str | None = None
    #: Of nodes, by name.
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    job_limits: JobLimits = USUAL
    container_policy: ContainerPolicy = USUAL_POLICY

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(self.probes)

    @property
    def summary(self) -> dict[str, object]:
        """Counts of nodes, cards and models, for the welcome of `gpupool up`."""
        models: Counter[str] = Counter()
        for machine in self.machines:
            models.update(device.model for device in machine.devices)
        return {
            "simulated": self.simulated,
            "nodes": len(self.probes),
            "cards": models.total(),
            "models": dict(models),
        }

    def create_agent(self, pool_id: str, paths: PoolPaths) -> Agent:
        """Create the embedded agent.

        It speaks to the server over the pool's own socket, as a remote agent does.
        """
        config = AgentConfig(
            name=self.node_names[0],
            pool_id=pool_id,
            owner_uid=os.geteuid(),
            owner_gid=os.getegid(),
            fence_reaction=self.fence_reaction,
            labels=self.labels,
            job_limits=self.job_limits,
            container_policy=self.container_policy,
            log_quota=read_log_quota(os.environ),
            tunnel_address=read_tunnel_address(os.environ),
        )
        settings = ClientSettings(state_dir=str(paths.root))
        return Agent(
            config, paths, lambda: Api(settings), self.probes, fault=make_step_hook(os.environ)
        )


#: For a server whose agents run on other machines.
NO_CARDS = PoolCards({}, (), simulated=False)


def find_cards(marker: PoolMarker, paths: PoolPaths) -> PoolCards:
    """Return the simulated machines that the pool was created with, else this machine's cards.

    Blocks for a step of an earlier agent that needs the cards' driver closed.

    Raises:
        BadMachine: there are no cards.
        BadOption: a label names no node of the pool.
    """
    limits = parse_job_limits(marker.job_limits)
    policy = marker.read_container_policy(own_pool=os.geteuid() != 0)
    if marker.sim is not None:
        machines = parse_sim(marker.sim, marker.pool_id)
        control = paths.root / "simulated"
        control.mkdir(mode=0o700, exist_ok=True)
        probes = {
            one.name: SimulatedProbe(one, control, machine_file(paths.agent, one.name))
            for one in machines
        }
        for made in list(probes.values())[:MADE_AT_ONCE]:
            made.machine_cards()
        labels = parse_labels(marker.labels, tuple(probes))
        return PoolCards(probes, machines, True, marker.fence_reaction, labels, limits, policy)
    # The first look opens NVML, which a step of an earlier agent may need closed.
    await_released_steps(paths.agent)
    probe, answers = find_first_available()
    if probe is None:
        said = "; ".join(f"{which}: {answer.reason}" for which, answer in answers.items())
        raise BadMachine(
            f"no card was found on this machine ({said})",
            hint="try it with simulated ones:  gpupool up --sim 4xL40S",
        )
    labels = parse_labels(marker.labels, (marker.node_name,))
    machines = (probe.scan(),)
    found = {marker.node_name: probe}
    return PoolCards(found, machines, False, marker.fence_reaction, labels, limits, policy)
