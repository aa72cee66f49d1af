"""Reads what this node has that decides which mechanisms it can offer. Changes nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from gpupool.model.isolation.host_facts import HostFacts
from gpupool.model.isolation.host_kind import HostKind

#: Programs that some mechanism or host of allocations needs.
TOOLS = (
    "nvidia-smi",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "podman",
    "qemu-system-x86_64",
    "amd-smi",
    "xpu-smi",
)


def read_host_facts(
    *,
    own_pool: bool,
    cgroups: str,
    root: Path = Path("/"),
) -> HostFacts:
    """Read the facts of a node.

    Args:
        own_pool: agent and jobs are one user.
        cgroups: the hierarchy of device rules.
        root: where the node's root is seen.
    """
    groups = root / "sys/kernel/iommu_groups"
    tools = frozenset(tool for tool in TOOLS if shutil.which(tool))
    return HostFacts(
        root=os.geteuid() == 0,
        own_pool=own_pool,
        cgroups=cgroups,
        cgroup_version=_read_cgroup_version(root),
        kernel=os.uname().release,
        kernel_modules=_read_modules(root),
        iommu=groups.is_dir() and any(groups.iterdir()),
        tools=tools,
        hosts=_list_hosts(tools),
    )


def _list_hosts(tools: frozenset[str]) -> tuple[HostKind, ...]:
    """List what an allocation can be handed to, by the programs that are installed."""
    hosts = [HostKind.PROCESS]
    if "podman" in tools:
        hosts.append(HostKind.CONTAINER)
    if "qemu-system-x86_64" in tools:
        hosts.append(HostKind.VM)
    return tuple(hosts)


def _read_cgroup_version(root: Path) -> int:
    place = root / "sys/fs/cgroup"
    # A hybrid node mounts v2 at `unified`, without the controllers, which v1 has.
    if (place / "cgroup.controllers").is_file():
        return 2
    return 1 if place.is_dir() and any(place.iterdir()) else 0


def _read_modules(root: Path) -> frozenset[str]:
    try:
        text = (root / "proc/modules").read_text(encoding="utf-8")
    except FileNotFoundError:  # a kernel without loadable modules
        return frozenset()
    return frozenset(line.split(" ", 1)[0] for line in text.splitlines())
