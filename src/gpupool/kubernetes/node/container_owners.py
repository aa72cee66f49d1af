"""Finds the container of a process by its cgroup, which the process cannot leave.

The kubelet reports each container's id in the pod's status.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gpupool.audit.mapping_check import FencedJob
from gpupool.kubernetes.node.prepare import allocation_of

#: A pod's uid as the kubelet's cgroup drivers write it: `pod1f-2e…` (cgroupfs), `pod1f_2e…`
#: (systemd).
_POD: Final = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")
_CONTAINER: Final = re.compile(r"[0-9a-f]{64}")
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


class ContainerOwners:
    """Owners of this node's processes. `pods` returns the node's pods. May be used from any
    thread."""

    def __init__(
        self, pods: Callable[[], Iterable[Mapping[str, Any]]], proc: Path = Path("/proc")
    ) -> None:
        self._pods = pods
        self._proc = proc

    def map_owners(self, jobs: Sequence[FencedJob]) -> Callable[[int], str | None]:
        """A function from a pid to the allocation of its container, for the allocations of these
        jobs."""
        fenced = {one.allocation for one in jobs}
        by_id, by_pod = _map_containers(self._pods())

        def find_owner(pid: int) -> str | None:
            pod, container = self._read_cgroup(pid)
            allocation = by_id.get(container) if container in by_id else by_pod.get(pod)
            return allocation if allocation in fenced else None

        return find_owner

    def kill_container(self, one: FencedJob) -> int:
        """SIGKILL every process of the container.

        A process that is forked meanwhile is found by the next audit.

        Returns:
            The number of killed processes.
        """
        find_owner = self.map_owners([one])
        killed = 0
        for entry in self._proc.iterdir():
            if entry.name.isdigit() and find_owner(int(entry.name)) == one.allocation:
                killed += _kill_process(
                    int(entry.name), lambda pid: find_owner(pid) == one.allocation
                )
        return killed

    def _read_cgroup(self, pid: int) -> tuple[str, str]:
        """Return the pod's uid and the container's id of a process; empty if it has none."""
        try:
            text = (self._proc / str(pid) / "cgroup").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return "", ""
        pod = _POD.search(text)
        container = _CONTAINER.search(text)
        return pod.group(1).replace("_", "-") if pod else "", container.group() if container else ""


def _map_containers(pods: Iterable[Mapping[str, Any]]) -> tuple[dict[str, str], dict[str, str]]:
    """Return allocations by the container's id, and by pod for pods with one container."""
    by_id: dict[str, str] = {}
    # A container runs before the kubelet reports its id; a pod with one container needs none.
    by_pod: dict[str, str] = {}
    for pod in pods:
        uid = str(pod["metadata"]["uid"])
        spec = pod.get("spec", {})
        status = pod.get("status", {})
        for kind in _STATUSES:
            for one in status.get(kind) or ():
                if container := str(one.get("containerID") or "").rpartition("//")[2]:
                    by_id[container] = allocation_of(uid, str(one["name"]))
        containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
        if len(containers) == 1:
            by_pod[uid] = allocation_of(uid, str(containers[0]["name"]))
    return by_id, by_pod


def _kill_process(pid: int, is_still_owned: Callable[[int], bool]) -> bool:
    # Through a descriptor of the process: another process may have the pid by now. The owner is
    # asked again once the descriptor holds the process.
    try:
        process = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not is_still_owned(pid):
            return False
        signal.pidfd_send_signal(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    finally:
        os.close(process)
    return True
