"""Which cards a pool starts with, and the agent that looks after them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpupool.agent.faults import fault_from
from gpupool.agent.labels import labels_of
from gpupool.agent.launch import machine_file
from gpupool.agent.log_quota import quota_from
from gpupool.agent.loop import Agent, AgentConfig
from gpupool.base.client_settings import ClientSettings
from gpupool.base.errors import BadMachine
from gpupool.base.settings import PoolPaths
from gpupool.client.transport import Api
from gpupool.host.state import Marker
from gpupool.model.job_limits import USUAL, JobLimits, parse_job_limits
from gpupool.probes.contract import Machine, Probe
from gpupool.probes.registry import first_available
from gpupool.probes.simulated import SimulatedProbe, parse_sim

MADE_AT_ONCE = 32
"""Simulated nodes whose cards' files are there when the pool is; those of more are made with their first job."""


@dataclass(frozen=True)
class Cards:
    """A pool's machines, by node name."""

    probes: Mapping[str, Probe]
    machines: tuple[Machine, ...]
    simulated: bool
    fence_reaction: str | None = None
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of nodes, by name."""
    job_limits: JobLimits = USUAL

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(self.probes)

    @property
    def summary(self) -> dict[str, object]:
        """For the welcome of `gpupool up`."""
        devices = [device for machine in self.machines for device in machine.devices]
        models = {device.model: sum(other.model == device.model for other in devices) for device in devices}
        return {"simulated": self.simulated, "nodes": len(self.probes), "cards": len(devices), "models": models}

    def agent(self, pool_id: str, paths: PoolPaths) -> Agent:
        """The embedded agent: it speaks to the server over the pool's own socket, as a remote one would."""
        config = AgentConfig(
            name=self.node_names[0],
            pool_id=pool_id,
            owner_uid=os.geteuid(),
            owner_gid=os.getegid(),
            fence_reaction=self.fence_reaction,
            labels=self.labels,
            job_limits=self.job_limits,
            log_quota=quota_from(os.environ),
        )
        settings = ClientSettings(state_dir=str(paths.root))
        return Agent(config, paths, lambda: Api(settings), self.probes, fault=fault_from(os.environ))


#: Of a server whose agents run apart.
NO_CARDS = Cards({}, (), simulated=False)


def find_cards(marker: Marker, paths: PoolPaths) -> Cards:
    """The simulated machines the pool was made with, else this machine's. Raises BadMachine where there are none.

    Raises BadOption for a label of no node of the pool.
    """
    limits = parse_job_limits(marker.job_limits)
    if marker.sim is not None:
        machines = parse_sim(marker.sim, marker.pool_id)
        control = paths.root / "simulated"
        control.mkdir(mode=0o700, exist_ok=True)
        probes = {one.name: SimulatedProbe(one, control, machine_file(paths.agent, one.name)) for one in machines}
        for made in list(probes.values())[:MADE_AT_ONCE]:
            made.machine_cards()
        labels = labels_of(marker.labels, tuple(probes))
        return Cards(probes, machines, True, marker.fence_reaction, labels, limits)
    probe, answers = first_available()
    if probe is None:
        said = "; ".join(f"{which}: {answer.reason}" for which, answer in answers.items())
        raise BadMachine(
            f"no card was found on this machine ({said})",
            hint="try it with simulated ones:  gpupool up --sim 4xL40S",
        )
    labels = labels_of(marker.labels, (marker.node_name,))
    return Cards({marker.node_name: probe}, (probe.scan(),), False, marker.fence_reaction, labels, limits)
