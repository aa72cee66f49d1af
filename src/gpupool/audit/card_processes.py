"""Lists the processes of fenced jobs on each card, as the cards report them.

Reads /proc to find the job of a process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from gpupool.audit import proc_reader
from gpupool.audit.findings import CardProcess
from gpupool.audit.mapping_check import FencedJob
from gpupool.base.errors import GpupoolError
from gpupool.mechanisms.fenced_files import FencedFiles
from gpupool.model.device import DeviceUsage
from gpupool.probes.contract import EndedProcess, EndedTimeProbe, Machine, Probe, ProcessTimeProbe

#: Processes by allocation, then by card.
OnCards = Mapping[str, Mapping[str, Sequence[CardProcess]]]
#: Made of the jobs at one look: returns the allocation of a process, None for a process outside
#: all of them.
Owners = Callable[[Sequence[FencedJob]], Callable[[int], str | None]]


def map_by_supervisor(jobs: Sequence[FencedJob]) -> Callable[[int], str | None]:
    """Return a function that finds the allocation of a process by its job's supervisor.

    The supervisor adopts orphans of its job, so a daemon's chain of parents ends there too.
    """
    of_supervisor = {one.supervisor_pid: one.allocation for one in jobs}

    def find_owner(pid: int) -> str | None:
        for each in proc_reader.iterate_parents(pid):
            if each in of_supervisor:
                return of_supervisor[each]
        return None

    return find_owner


class CardProcesses:
    """Queries the cards of a node for the processes of its fenced jobs. Not thread-safe.

    Args:
        probes: the probe of each node, by name.
        owners: makes the function that finds the allocation of a process.
    """

    def __init__(self, probes: Mapping[str, Probe], owners: Owners = map_by_supervisor) -> None:
        self._probes = dict(probes)
        self._owners = owners
        self._node_of: dict[str, str] = {}
        #: Nodes whose cards could not be asked at the last look, and why not.
        self._unasked: dict[str, str] = {}
        #: Cards whose driver does not tell how much time each process has.
        self._untimed: set[str] = set()

    def update_machines(self, machines: Mapping[str, Machine]) -> None:
        """Take the machines that the last scan found, by node."""
        node_of: dict[str, str] = {}
        for name, machine in machines.items():
            for device in machine.devices:
                node_of[device.uuid] = name
        self._node_of = node_of

    def explain_unseen(self, known: FencedFiles) -> str:
        """Return why cards of a share gave no answer at the last look; empty if all did."""
        nodes = sorted({self._node_of.get(uuid, "") for uuid in known.uuids} & self._unasked.keys())
        if nodes:
            return f"its cards cannot be asked: {self._unasked[nodes[0]]}"
        untimed = sorted(self._untimed.intersection(known.uuids))
        if untimed and not known.simulated:
            return (
                f"the driver of card {untimed[0]} does not tell the GPU time of its processes, "
                "which is not compared"
            )
        return ""

    def list_processes(self, looked: Iterable[tuple[FencedJob, FencedFiles]]) -> OnCards:
        """Return the processes of these jobs on their cards. Blocks as long as the driver does."""
        pairs = list(looked)
        owner = self._owners([one for one, _ in pairs])
        by_node: dict[str, set[str]] = {}
        for _, known in pairs:
            for uuid in known.uuids:
                by_node.setdefault(self._node_of.get(uuid, ""), set()).add(uuid)
        by_node.pop("", None)  # cards that fell off the bus since the share was granted
        found: dict[str, dict[str, list[CardProcess]]] = {}
        for node, uuids in by_node.items():
            usages, times = self._query_node(node, sorted(uuids))
            for uuid, usage in usages.items():
                for process in usage.processes or ():
                    allocation = owner(process.pid)
                    # A driver lists a process for a moment after its end; its ledger is gone then,
                    # so it would look like a process past the fence.
                    # A driver lists a process for a moment after its end; its ledger is gone then,
                    # so it would look like a process past the fence.
                    if allocation is not None and proc_reader.is_alive(process.pid):
                        had = times.get(uuid, {}).get(process.pid)
                        here = CardProcess(
                            proc_reader.read_names(process.pid), process.memory_bytes or 0, had
                        )
                        found.setdefault(allocation, {}).setdefault(uuid, []).append(here)
        return found

    def list_ended(
        self, uuids: Collection[str], pids: Collection[int]
    ) -> Mapping[str, Sequence[EndedProcess]]:
        """Return what cards report of the ended ones of these processes, by card.

        A card whose driver keeps no account of ended processes is left out.
        """
        found: dict[str, Sequence[EndedProcess]] = {}
        for node in sorted({self._node_of[uuid] for uuid in uuids if uuid in self._node_of}):
            probe = self._probes[node]
            if not isinstance(probe, EndedTimeProbe):
                continue
            here = [uuid for uuid in uuids if self._node_of.get(uuid) == node]
            try:
                told = probe.ended_times(here, pids)
            except (GpupoolError, OSError):
                # `list_processes` queries the same cards at the same look and keeps the reason.
                continue
            for uuid, times in told.items():
                found[uuid] = times.processes
        return found

    def _query_node(
        self, node: str, uuids: Sequence[str]
    ) -> tuple[Mapping[str, DeviceUsage], Mapping[str, Mapping[int, int]]]:
        """Return usage and GPU time that the cards of one node report; empty if the probe fails."""
        probe = self._probes[node]
        try:
            times = probe.process_times(uuids) if isinstance(probe, ProcessTimeProbe) else {}
            usages = probe.observe(uuids)
        except (GpupoolError, OSError) as error:
            # One node that fails must not hide the findings of the others; `explain_unseen` tells.
            self._unasked[node] = str(error)
            return {}, {}
        self._unasked.pop(node, None)
        self._untimed.difference_update(uuids)
        self._untimed.update(usages.keys() - times.keys())
        return usages, times
