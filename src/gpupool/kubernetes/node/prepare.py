"""Prepares an entry of the ledger for its container and undoes it, by one machine's mechanisms."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpupool.base.errors import CardNotReady, DamagedRecord, NotFound
from gpupool.base.units import NANOS_PER_MILLISECOND, WHOLE
from gpupool.kubernetes.node.container_limits import ContainerLimits, ContainerReport
from gpupool.kubernetes.resources.gpu_node import Entry
from gpupool.kubernetes.resources.gpu_node_status import ShareIsolation
from gpupool.kubernetes.resources.gpu_time import GpuTime
from gpupool.mechanisms import registry
from gpupool.mechanisms.arbiter import ArbiterProcess
from gpupool.mechanisms.contract import (
    AllocationView,
    GrantedDevice,
    HostKind,
    JobSeat,
    Mechanism,
    NotYet,
    PreparedAllocation,
)
from gpupool.mechanisms.driver.container_files import list_control_nodes
from gpupool.mechanisms.fence import FenceMechanism
from gpupool.mechanisms.fence_survey import find_container_level
from gpupool.mechanisms.fenced_files import locate_directories, read_allocation_usage
from gpupool.mechanisms.notes import NoteBook, PreparationNote
from gpupool.mechanisms.preparation import prepare_allocation, unprepare_allocation
from gpupool.mechanisms.regions import DamagedRegion, FenceDeviceUsage, FenceUsage
from gpupool.model.allocation import Seat
from gpupool.model.device import Device
from gpupool.probes.contract import Machine
from gpupool.probes.simulated import SimulatedProbe

#: The pool's name in the records of a node's mechanisms; a cluster has one pool.
POOL = "kubernetes"
#: Where containers see the agent's directories.
SHOWN = "/run/gpupool"

log = logging.getLogger(__name__)


class EntryPreparer:
    """Preparations of one node.

    Idempotent in both directions. What was done is recorded in `state_dir` and outlives the agent.
    """

    def __init__(
        self,
        state_dir: Path,
        machine: Machine,
        probe: object,
        arbiter: ArbiterProcess,
        seat: JobSeat,
        *,
        limits: ContainerLimits | None = None,
    ) -> None:
        """
        Args:
            limits: of the cards' driver; None where only the fence limits memory.
        """
        self._limits = limits
        self._arbiter = arbiter
        self._seat = replace(seat, container=True)
        self._state_dir = state_dir
        self._devices = {device.uuid: device for device in machine.devices}
        simulated = probe if isinstance(probe, SimulatedProbe) and probe.machine_file else None
        self._fenced: set[str] = set()
        self._changed: Callable[[], None] = lambda: None
        self._machine = (
            simulated.machine_file.parent if simulated and simulated.machine_file else None
        )
        #: By simulated card, bytes of a context and of an allocation's granule; of real
        #: cards both are unknown.
        self._costs: dict[str, tuple[int, int]] = {}
        for card in simulated.machine_cards() if simulated else ():
            self._costs[card.uuid] = (card.context_bytes, card.granule_bytes)

    def prepare(self, entry: Entry) -> PreparedAllocation:
        """Prepare the entry; idempotent. Blocks.

        Returns:
            What the container is started with.

        Raises:
            NotFound: a card of the entry is not on this node.
            RequestRejection: the mechanism cannot serve the entry.
            StaleGeneration: a newer generation of the entry was prepared before.
            CardNotReady: other containers still hold the cards, or a slow step sets them up.
        """
        view = self._build_view(entry)
        self._refuse_crowded(entry)
        mechanism = registry.choose_mechanism(view)
        prepared = prepare_allocation(mechanism, view, self._state_dir)
        if isinstance(prepared, NotYet):
            raise CardNotReady(
                f"the cards of {view.job} are being set up: {prepared.reason}",
                hint="the kubelet asks again; nothing is to be done",
            )
        self._add_to_arbiter(view.allocation)
        if self._limits is not None:
            prepared = self._limits.add_report(view, prepared, entry.isolation)
        # "void" keeps the vendor's runtime hook from adding devices and libraries of its own.
        nodes = (*prepared.allow_nodes, *(list_control_nodes() if prepared.allow_nodes else ()))
        return replace(
            prepared, env={**prepared.env, "NVIDIA_VISIBLE_DEVICES": "void"}, allow_nodes=nodes
        )

    def _refuse_crowded(self, entry: Entry) -> None:
        """Raise CardNotReady if the entry does not fit beside what is prepared already."""
        # A ledger never holds more than a card has. But after it was restored or deleted, the
        # controller may place on a card before this agent's report names what is prepared there.
        own = allocation_of(*entry.key)
        others = [
            note for note in NoteBook(self._state_dir).iterate_all() if note.allocation != own
        ]
        for seat in entry.seats:
            holders = []
            milli = seat.gpu_milli
            size = seat.memory_bytes
            for note in others:
                for share in _read_shares(note):
                    if share["uuid"] == seat.device:
                        holders.append(_read_job(note))
                        milli += share["gpu_milli"]
                        size += share["memory_bytes"]
            if milli > WHOLE or size > self._devices[seat.device].memory_bytes:
                raise CardNotReady(
                    f"card {seat.device} is still held by {', '.join(holders)}",
                    hint="the container starts when they have ended",
                )

    def limit_container(self, entries: Iterable[Entry], report: ContainerReport) -> str:
        """Put a container, which exists now, under the driver's limits. Blocks.

        Args:
            entries: the node's; without one the container is not under any limit.

        Returns:
            Why the limits are not in force; empty when they are.
        """
        for entry in entries:
            if self._limits is not None and allocation_of(*entry.key) == report.allocation:
                return self._limits.limit_container(self._build_view(entry), report)
        return "the ledger has no entry of it"

    def describe_share(self, device: Device) -> ShareIsolation | None:
        """Describe what is enforced in a share of a card; None if it serves none. Blocks."""
        if self._limits is None or device.vendor != "nvidia" or device.partitioned:
            return None
        half = Seat(device.uuid, WHOLE // 2, device.memory_bytes // 2)
        view = self._build_view(Entry("", "", "", "", (half,), ""))
        fence = find_container_level(device, self._seat)
        return ShareIsolation(fence, self._limits.explain_absence(view))

    def is_limited(self, uid: str, container: str) -> bool:
        """Whether the driver holds the memory of the container."""
        return self._limits is not None and self._limits.is_limited(allocation_of(uid, container))

    def read_driver_bytes(self, entry: Entry) -> Mapping[str, int]:
        """By card, the bytes that the driver counts for the entry's container; empty if none."""
        return {} if self._limits is None else self._limits.read_used(allocation_of(*entry.key))

    def unprepare(self, uid: str, container: str) -> None:
        """Undo the preparation; idempotent."""
        name = allocation_of(uid, container)
        book = NoteBook(self._state_dir)
        self._fenced.discard(name)
        try:
            note = book.read_note(name)
        except DamagedRecord as damaged:
            # Which mechanism prepared it is unknown, so nothing of it can be undone. The record is
            # dropped because its entry is gone: kept, it would hold the card for ever.
            log.error("%s", damaged)
            self._arbiter.remove_share(name)
            book.remove_note(name)
            return
        if note is not None:
            self._arbiter.remove_share(name)
            mechanism = registry.MECHANISMS[note.mechanism]
            unprepare_allocation(mechanism, name, note.generation, self._state_dir)

    def resume_allocations(self) -> None:
        """Hand everything that an earlier agent prepared to the arbiter again."""
        for uid, container in self.prepared_generations():
            self._add_to_arbiter(allocation_of(uid, container))

    def _add_to_arbiter(self, allocation: str) -> None:
        """Have the arbiter divide the cards' time for the allocation if it has a fence."""
        mechanism = registry.find_on_record(allocation, self._state_dir)
        if mechanism is not None and mechanism.name == FenceMechanism.name:
            self._arbiter.add_share(allocation, *locate_directories(allocation, self._state_dir))
            self._fenced.add(allocation)
            self._changed()

    def fenced_allocations(self) -> tuple[str, ...]:
        """Allocations that have a fence now. May be called from any thread."""
        return tuple(self._fenced.copy())

    def on_fence_change(self, changed: Callable[[], None]) -> None:
        """Set the function that is called, in any thread, whenever another allocation gets a
        fence."""
        self._changed = changed

    def prepared_generations(self) -> dict[tuple[str, str], int]:
        """By (pod uid, container), the generation that was prepared, by earlier agents too.

        Generation 0 means that its record is damaged: it counts until it is undone.
        """
        generations = {}
        for mechanism in registry.MECHANISMS.values():
            for seen in mechanism.observe(self._state_dir).values():
                # Generation 0 is what another tool made, such as a foreign MIG instance.
                if seen.generation:
                    generations[split_allocation(seen.allocation)] = seen.generation
        for damaged in NoteBook(self._state_dir).list_damaged():
            generations[split_allocation(damaged.allocation)] = 0
        return generations

    def measure_usage(self, entry: Entry) -> Mapping[str, FenceDeviceUsage] | None:
        """By card, what the entry's processes use.

        Returns:
            Empty before the entry is prepared; None if nothing measures it.
        """
        name = allocation_of(*entry.key)
        mechanism = registry.find_on_record(name, self._state_dir)
        if mechanism is None:
            return {}
        found = self._read_fence(mechanism, name, f"{entry.namespace}/{entry.pod}")
        return None if found is None else found.sum_totals()

    def measure_gpu_time(self, uid: str, container: str) -> GpuTime | None:
        """GPU time of its processes so far, over all its cards; None if not measured."""
        name = allocation_of(uid, container)
        mechanism = registry.find_on_record(name, self._state_dir)
        if mechanism is None:
            return None
        found = self._read_fence(mechanism, name, f"pod {uid}")
        return None if found is None else sum_gpu_time(found)

    def _read_fence(self, mechanism: Mechanism, name: str, who: str) -> FenceUsage | None:
        """What the fence of an allocation counts; None without one, and where it is damaged."""
        if mechanism.name != FenceMechanism.name:
            return None
        try:
            return read_allocation_usage(name, self._state_dir)
        except (FileNotFoundError, DamagedRegion) as problem:
            log.warning("the usage of %s is unknown: %s", who, problem)
            return None

    def _build_view(self, entry: Entry) -> AllocationView:
        granted = []
        for seat in entry.seats:
            if seat.device not in self._devices:
                raise NotFound(
                    f"card {seat.device} is not on this node now",
                    hint="its pod is placed again elsewhere",
                )
            context_bytes, granule_bytes = self._costs.get(seat.device, (None, None))
            granted.append(
                GrantedDevice(
                    self._devices[seat.device],
                    seat.gpu_milli,
                    seat.memory_bytes,
                    context_bytes,
                    granule_bytes,
                    profile=None if seat.partition is None else seat.partition.profile,
                    start=None if seat.partition is None else seat.partition.start,
                )
            )
        return AllocationView(
            pool=POOL,
            allocation=allocation_of(entry.uid, entry.container),
            generation=entry.generation,
            job=f"{entry.namespace}/{entry.pod}/{entry.container}",
            tenant=entry.tenant,
            sharing=entry.sharing.value,
            granted=tuple(granted),
            node_devices=tuple(self._devices.values()),
            seat=self._seat,
            priority=entry.priority,
            machine=self._machine,
            host=HostKind.CONTAINER,
        )


def sum_gpu_time(usage: FenceUsage) -> GpuTime | None:
    """Sum the GPU time of all cards of an allocation.

    What became of its promise is known only if the arbiter has divided each of its cards.
    """
    totals = usage.sum_totals()
    if not totals:
        return None
    used_ns = sum(one.gpu_ns for one in totals.values())
    if usage.promises.keys() != totals.keys():
        return GpuTime(used_ns // NANOS_PER_MILLISECOND)
    borrowed_ns = sum(one.borrowed_ns for one in usage.promises.values())
    denied_ns = sum(one.denied_ns for one in usage.promises.values())
    sums = (used_ns, borrowed_ns, denied_ns)
    return GpuTime(*(one // NANOS_PER_MILLISECOND for one in sums))


def _share_of(note: PreparationNote) -> Mapping[str, Any]:
    """Return what the container reads about its share; a fence's record has more beside it."""
    found: Mapping[str, Any] = note.made.get("share", note.made)
    return found


def _read_shares(note: PreparationNote) -> list[dict[str, Any]]:
    """Return the share of each of the note's cards."""
    found: list[dict[str, Any]] = _share_of(note).get("devices", [])
    return found


def _read_job(note: PreparationNote) -> str:
    return str(_share_of(note).get("job", note.allocation))


def allocation_of(uid: str, container: str) -> str:
    """A name for both that is a plain file name: uids contain no dot.

    >>> split_allocation(allocation_of("1f-2e", "main"))
    ('1f-2e', 'main')
    """
    return f"{uid}.{container}"


def split_allocation(allocation: str) -> tuple[str, str]:
    """The pod's uid and the container of an allocation's name."""
    uid, _, container = allocation.partition(".")
    return uid, container
