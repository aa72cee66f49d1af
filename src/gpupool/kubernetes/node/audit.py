"""Checks that the containers of this node stay within their shares, and reacts to those that do
not.

The comparison is that of one machine (`gpupool.audit`). A finding is an event on the pod and a
count in the metrics. With the reaction `kill` the container's processes are killed, and the kubelet
restarts it as the pod's restartPolicy says. The agent may write events and no pods, so no pod is
deleted for a finding.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from gpupool.audit.card_processes import CardProcesses
from gpupool.audit.fence_auditor import FenceAuditor
from gpupool.audit.findings import AuditFinding
from gpupool.audit.granted_time import Granted, GrantedTimeCheck
from gpupool.audit.mapping_check import FencedJob
from gpupool.audit.reactions import FindingReactions
from gpupool.kubernetes.node.container_owners import ContainerOwners
from gpupool.kubernetes.node.prepare import SHOWN, EntryPreparer, split_allocation
from gpupool.kubernetes.reporting.events import Event
from gpupool.mechanisms.fenced_files import find_fenced_files
from gpupool.probes.contract import Machine, Probe

REACTIONS: Final = ("warn", "kill")
#: Reason of the event on the pod.
REASON: Final = "PastFence"

log = logging.getLogger(__name__)


class NodeAudit:
    """The audit of one node.

    `pods` returns the node's pods, `tell` takes an event; both are called in the audit's thread.
    """

    def __init__(
        self,
        probe: Probe,
        machine: Machine,
        preparing: EntryPreparer,
        granted: Granted,
        *,
        state_dir: Path,
        driver_root: Path,
        reaction: str,
        pods: Callable[[], Iterable[Mapping[str, Any]]],
        tell: Callable[[Event], object],
    ) -> None:
        self._preparing = preparing
        self._state_dir = state_dir
        self._owners = ContainerOwners(pods)
        self._tell = tell
        #: By job and kind of finding, their number.
        self._found: Counter[tuple[str, str]] = Counter()
        self._names: dict[str, str] = {}
        self.auditor = FenceAuditor(
            CardProcesses({machine.name: probe}, self._owners.map_owners),
            FindingReactions(reaction, self._note_finding, self._kill_container),
            GrantedTimeCheck(granted),
            fenced=self._list_fenced,
            state_dir=state_dir,
            base=SHOWN,
            driver_root=driver_root,
        )
        self.auditor.update_machines({machine.name: machine})
        preparing.on_fence_change(self.auditor.wake_up)

    def count_findings(self) -> Mapping[tuple[str, str], int]:
        """Findings so far by `namespace/pod/container` and kind, of containers that are still here.

        May be called from any thread.
        """
        here = {one.job for one in self._list_fenced()}
        # A copy, because the audit's thread adds findings meanwhile.
        found = self._found.copy()
        counts = {}
        for key, count in found.items():
            if key[0] in here:
                counts[key] = count
        return counts

    def _list_fenced(self) -> list[FencedJob]:
        fenced = []
        for allocation in self._preparing.fenced_allocations():
            fenced.append(FencedJob(self._find_name(allocation), allocation, 0))
        return fenced

    def _find_name(self, allocation: str) -> str:
        """Return `namespace/pod/container`, as the container's limits have it."""
        if allocation not in self._names:
            known = find_fenced_files(allocation, self._state_dir)
            if known is None:
                return allocation
            self._names[allocation] = known.wanted.job
        return self._names[allocation]

    def _note_finding(self, one: FencedJob, finding: AuditFinding, reaction: str) -> None:
        self._found[one.job, finding.kind] += 1
        namespace, _, rest = one.job.partition("/")
        pod, _, container = rest.partition("/")
        uid, _ = split_allocation(one.allocation)
        did = "its processes were killed" if reaction == "kill" else "only told"
        note = f"container {container}: fence.{finding.kind}: {finding.text} ({did})"
        about = f"{container}/{finding.kind}"
        self._tell(Event("Pod", namespace, pod, uid, REASON, note, about, warning=True))

    def _kill_container(self, one: FencedJob, reason: str) -> None:
        killed = self._owners.kill_container(one)
        if killed:
            log.warning("container %s was killed, %d processes: %s", one.job, killed, reason)
