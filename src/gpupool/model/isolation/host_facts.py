"""What a node has that decides which mechanisms it can offer. Facts only."""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.model.isolation.host_kind import HostKind


@dataclass(frozen=True)
class HostFacts:
    """What a node has, as its agent found it.

    Attributes:
        root: the agent is root.
        own_pool: agent and jobs are one user, so a job can change what the agent wrote.
        cgroups: the hierarchy of device rules: `v2`, `v1` or `none`.
        cgroup_version: 2 where the whole node uses cgroup v2; 1 for v1 and hybrid nodes; 0 for none.
        kernel: release of the kernel, as uname(2) says.
        kernel_modules: modules that are loaded.
        iommu: the kernel has IOMMU groups.
        tools: programs of `host_facts.TOOLS` that are in the path.
        hosts: what this agent can hand an allocation to.
        machine: directory with the file of a simulated node's cards; empty on a real one.
    """

    root: bool = False
    own_pool: bool = True
    cgroups: str = "none"
    cgroup_version: int = 0
    kernel: str = ""
    kernel_modules: frozenset[str] = frozenset()
    iommu: bool = False
    tools: frozenset[str] = frozenset()
    hosts: tuple[HostKind, ...] = (HostKind.PROCESS,)
    machine: str = ""

    @property
    def closes_devices(self) -> bool:
        """Whether a job can open no device node but those that it was given."""
        return self.root and not self.own_pool and self.cgroups != "none"
