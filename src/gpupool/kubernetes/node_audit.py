"""Whether the containers of this node stay within their shares, and what happens to one that does not.

The same comparison as on one machine (`gpupool.audit`). A finding is an event on the pod and a count in the metrics.
With the reaction `kill` the container's processes are killed, and the kubelet starts it again or not, as the pod's
restartPolicy says. The agent may write events and nothing of pods, so no pod is deleted for a finding.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from gpupool.audit.answering import Answering
from gpupool.audit.card_processes import CardProcesses
from gpupool.audit.findings import Finding
from gpupool.audit.granted_time import Granted, GrantedTime
from gpupool.audit.reconciler import Reconciler
from gpupool.audit.sight import FencedJob
from gpupool.kubernetes.container_owners import ContainerOwners
from gpupool.kubernetes.events import Event
from gpupool.kubernetes.preparing import SHOWN, Preparing, parts_of
from gpupool.mechanisms.fence import fenced_files
from gpupool.probes.contract import Machine, Probe

REACTIONS: Final = ("warn", "kill")
REASON: Final = "PastFence"
"""Of the event on the pod."""

log = logging.getLogger(__name__)


class NodeAudit:
    """One node's. `pods` are the node's, `tell` takes an event; both are called in the audit's thread."""

    def __init__(
        self,
        probe: Probe,
        machine: Machine,
        preparing: Preparing,
        granted: Granted,
        *,
        state_dir: Path,
        driver_root: Path,
        reaction: str,
        pods: Callable[[], Iterable[Mapping[str, Any]]],
        tell: Callable[[Event], object],
    ) -> None:
        self._preparing, self._state_dir = preparing, state_dir
        self._owners, self._tell = ContainerOwners(pods), tell
        self._found: Counter[tuple[str, str]] = Counter()
        """By job and kind."""
        self._names: dict[str, str] = {}
        self.reconciler = Reconciler(
            CardProcesses({machine.name: probe}, self._owners.at_this_look),
            Answering(reaction, self._note, self._end),
            GrantedTime(granted),
            fenced=self._fenced,
            state_dir=state_dir,
            base=SHOWN,
            driver_root=driver_root,
        )
        self.reconciler.know({machine.name: machine})
        preparing.on_change(self.reconciler.changed)

    def counts(self) -> Mapping[tuple[str, str], int]:
        """How often something was found, by `namespace/pod/container` and kind, of those that are here. Any thread."""
        here = {one.job for one in self._fenced()}
        return {key: count for key, count in self._found.copy().items() if key[0] in here}

    def _fenced(self) -> list[FencedJob]:
        return [FencedJob(self._name(each), each, 0) for each in self._preparing.fenced()]

    def _name(self, allocation: str) -> str:
        """`namespace/pod/container`, as it stands in its limits."""
        if allocation not in self._names:
            known = fenced_files(allocation, self._state_dir)
            if known is None:
                return allocation
            self._names[allocation] = known.wanted.job
        return self._names[allocation]

    def _note(self, one: FencedJob, finding: Finding, reaction: str) -> None:
        self._found[one.job, finding.kind] += 1
        namespace, _, rest = one.job.partition("/")
        pod, _, container = rest.partition("/")
        uid, _ = parts_of(one.allocation)
        did = "its processes were killed" if reaction == "kill" else "only told"
        note = f"container {container}: fence.{finding.kind}: {finding.text} ({did})"
        about = f"{container}/{finding.kind}"
        self._tell(Event("Pod", namespace, pod, uid, REASON, note, about, warning=True))

    def _end(self, one: FencedJob, reason: str) -> None:
        killed = self._owners.kill(one)
        if killed:
            log.warning("container %s was killed, %d processes: %s", one.job, killed, reason)
