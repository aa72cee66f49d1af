"""Which processes of fenced jobs are on which card, as the cards say. Reads /proc for what belongs to whom."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from gpupool.audit import process_look
from gpupool.audit.findings import CardProcess
from gpupool.audit.sight import FencedJob
from gpupool.base.errors import GpupoolError
from gpupool.mechanisms.fence import FencedFiles
from gpupool.model.device import DeviceUsage
from gpupool.probes.contract import EndedProcess, Machine, Probe, TimesEnded, TimesProcesses

OnCards = Mapping[str, Mapping[str, Sequence[CardProcess]]]
"""Processes by allocation, then by card."""
Owners = Callable[[Sequence[FencedJob]], Callable[[int], str | None]]
"""Made of the jobs at one look: which allocation a process belongs to, None for a process of nobody's."""


def by_supervisor(jobs: Sequence[FencedJob]) -> Callable[[int], str | None]:
    """A process is its job's whose supervisor is above it."""
    of_supervisor = {one.supervisor_pid: one.allocation for one in jobs}

    def owner(pid: int) -> str | None:
        return next((of_supervisor[each] for each in process_look.parents(pid) if each in of_supervisor), None)

    return owner


class CardProcesses:
    """Not thread-safe. `owners`: see there."""

    def __init__(self, probes: Mapping[str, Probe], owners: Owners = by_supervisor) -> None:
        self._probes, self._owners = dict(probes), owners
        self._node_of: dict[str, str] = {}
        self._unasked: dict[str, str] = {}
        """Nodes whose cards could not be asked at the last look, and why not."""
        self._untimed: set[str] = set()
        """Cards whose driver does not tell how much time each process has."""

    def know(self, machines: Mapping[str, Machine]) -> None:
        """What the last scan found, by node."""
        self._node_of = {device.uuid: name for name, machine in machines.items() for device in machine.devices}

    def why_unseen(self, known: FencedFiles) -> str:
        """What these files' cards could not be asked at the last look, and why; empty when all was answered."""
        nodes = sorted({self._node_of.get(uuid, "") for uuid in known.uuids} & self._unasked.keys())
        if nodes:
            return f"its cards cannot be asked: {self._unasked[nodes[0]]}"
        untimed = sorted(self._untimed.intersection(known.uuids))
        if untimed and not known.simulated:
            return f"the driver of card {untimed[0]} does not tell the GPU time of its processes, which is not compared"
        return ""

    def of(self, looked: Iterable[tuple[FencedJob, FencedFiles]]) -> OnCards:
        """Ask the cards of these jobs. Blocks for as long as the driver does."""
        pairs = list(looked)
        owner = self._owners([one for one, _ in pairs])
        by_node: dict[str, set[str]] = {}
        for _, known in pairs:
            for uuid in known.uuids:
                by_node.setdefault(self._node_of.get(uuid, ""), set()).add(uuid)
        by_node.pop("", None)  # cards that are gone
        found: dict[str, dict[str, list[CardProcess]]] = {}
        for node, uuids in by_node.items():
            usages, times = self._asked(node, sorted(uuids))
            for uuid, usage in usages.items():
                for process in usage.processes or ():
                    allocation = owner(process.pid)
                    if allocation is not None and process_look.is_alive(process.pid):
                        had = times.get(uuid, {}).get(process.pid)
                        here = CardProcess(process_look.names(process.pid), process.memory_bytes or 0, had)
                        found.setdefault(allocation, {}).setdefault(uuid, []).append(here)
        return found

    def ended(self, uuids: Collection[str], pids: Collection[int]) -> Mapping[str, Sequence[EndedProcess]]:
        """What cards say of those of these processes that have ended, by card; nothing of a card that cannot tell."""
        found: dict[str, Sequence[EndedProcess]] = {}
        for node in sorted({self._node_of[uuid] for uuid in uuids if uuid in self._node_of}):
            probe = self._probes[node]
            if not isinstance(probe, TimesEnded):
                continue
            here = [uuid for uuid in uuids if self._node_of.get(uuid) == node]
            try:
                told = probe.ended_times(here, pids)
            except (GpupoolError, OSError):
                continue  # `of` asks the same cards at the same look, and says why they do not answer
            found |= {uuid: times.processes for uuid, times in told.items()}
        return found

    def _asked(
        self, node: str, uuids: Sequence[str]
    ) -> tuple[Mapping[str, DeviceUsage], Mapping[str, Mapping[int, int]]]:
        """What the cards of one node say; nothing when they cannot be asked, which must not hide the other nodes'."""
        probe = self._probes[node]
        try:
            times = probe.process_times(uuids) if isinstance(probe, TimesProcesses) else {}
            usages = probe.observe(uuids)
        except (GpupoolError, OSError) as error:
            self._unasked[node] = str(error)
            return {}, {}
        self._unasked.pop(node, None)
        self._untimed.difference_update(uuids)
        self._untimed.update(usages.keys() - times.keys())
        return usages, times
