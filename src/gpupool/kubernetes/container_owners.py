"""Which container a process of this node belongs to: by the cgroup that the runtime put it in.

A container's processes cannot leave that cgroup. Which container has which id, the kubelet says in the pod's status.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gpupool.audit.sight import FencedJob
from gpupool.kubernetes.preparing import allocation_of

#: As the kubelet's cgroup drivers write it: `pod1f-2e…`, and systemd's `pod1f_2e…`.
_POD: Final = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")
_CONTAINER: Final = re.compile(r"[0-9a-f]{64}")
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


class ContainerOwners:
    """`pods` are those of this node as the API server has them. Any thread."""

    def __init__(self, pods: Callable[[], Iterable[Mapping[str, Any]]], proc: Path = Path("/proc")) -> None:
        self._pods, self._proc = pods, proc

    def at_this_look(self, jobs: Sequence[FencedJob]) -> Callable[[int], str | None]:
        """Which of the jobs' allocations a process belongs to."""
        fenced = {one.allocation for one in jobs}
        by_id, alone = _containers(self._pods())

        def owner(pid: int) -> str | None:
            pod, container = self._place(pid)
            allocation = by_id.get(container) if container in by_id else alone.get(pod)
            return allocation if allocation in fenced else None

        return owner

    def kill(self, one: FencedJob) -> int:
        """SIGKILL every process of the container; how many there were. One forked meanwhile is met next time."""
        owner, killed = self.at_this_look([one]), 0
        for entry in self._proc.iterdir():
            if entry.name.isdigit() and owner(int(entry.name)) == one.allocation:
                killed += _kill(int(entry.name), lambda pid: owner(pid) == one.allocation)
        return killed

    def _place(self, pid: int) -> tuple[str, str]:
        """The pod's uid and the container's id; empty for what is in none."""
        try:
            text = (self._proc / str(pid) / "cgroup").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return "", ""
        pod, container = _POD.search(text), _CONTAINER.search(text)
        return pod.group(1).replace("_", "-") if pod else "", container.group() if container else ""


def _containers(pods: Iterable[Mapping[str, Any]]) -> tuple[dict[str, str], dict[str, str]]:
    """Allocations by the container's id, and by pod where it has one container: its status may come later."""
    by_id: dict[str, str] = {}
    alone: dict[str, str] = {}
    for pod in pods:
        uid, spec, status = str(pod["metadata"]["uid"]), pod.get("spec", {}), pod.get("status", {})
        for one in (one for kind in _STATUSES for one in status.get(kind) or ()):
            if container := str(one.get("containerID") or "").rpartition("//")[2]:
                by_id[container] = allocation_of(uid, str(one["name"]))
        named = [str(one["name"]) for one in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))]
        if len(named) == 1:
            alone[uid] = allocation_of(uid, named[0])
    return by_id, alone


def _kill(pid: int, is_still_his: Callable[[int], bool]) -> bool:
    """Through a descriptor of the process, so that nobody is met who has its pid by now."""
    try:
        process = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not is_still_his(pid):
            return False
        signal.pidfd_send_signal(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    finally:
        os.close(process)
    return True
