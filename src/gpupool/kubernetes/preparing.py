"""Making an entry of the ledger usable on this node, and undoing it: one machine's mechanisms, for containers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpupool.base.errors import CardNotReady, NotFound, RecordDamaged
from gpupool.base.units import WHOLE
from gpupool.kubernetes.objects import Entry
from gpupool.mechanisms import registry
from gpupool.mechanisms.arbiter import Arbiter
from gpupool.mechanisms.container_files import control_nodes
from gpupool.mechanisms.contract import AllocationView, GrantedDevice, JobSeat, Prepared
from gpupool.mechanisms.fence import Fence, shared_directories, usage_of
from gpupool.mechanisms.notes import Note, NoteBook
from gpupool.mechanisms.regions import FenceDeviceUsage, RegionDamaged
from gpupool.probes.contract import Machine
from gpupool.probes.simulated import SimulatedProbe

POOL = "kubernetes"
SHOWN = "/run/gpupool"

log = logging.getLogger(__name__)


class Preparing:
    """Idempotent in both directions; what was done stands in `state_dir` and outlives the agent."""

    def __init__(self, state_dir: Path, machine: Machine, probe: object, arbiter: Arbiter, seat: JobSeat) -> None:
        self._arbiter, self._seat = arbiter, replace(seat, container=True)
        self._state_dir, self._devices = state_dir, {device.uuid: device for device in machine.devices}
        simulated = probe if isinstance(probe, SimulatedProbe) and probe.machine_file else None
        self._fenced: set[str] = set()
        self._changed: Callable[[], None] = lambda: None
        self._machine = simulated.machine_file.parent if simulated and simulated.machine_file else None
        self._costs: Mapping[str, tuple[int, int]] = (
            {card.uuid: (card.context_bytes, card.granule_bytes) for card in simulated.machine_cards()}
            if simulated
            else {}
        )

    def prepare(self, entry: Entry) -> Prepared:
        """What the container is started with. Raises NotFound, Refused, StaleGeneration, CardNotReady."""
        view = self._view(entry)
        self._refuse_crowded(entry)
        prepared = registry.choose(view).prepare(view, self._state_dir)
        self._divide(view.allocation)
        # Of a card that we hand out, the vendor's runtime hook is to add nothing of its own.
        nodes = (*prepared.allow_nodes, *(control_nodes() if prepared.allow_nodes else ()))
        return replace(prepared, env={**prepared.env, "NVIDIA_VISIBLE_DEVICES": "void"}, allow_nodes=nodes)

    def _refuse_crowded(self, entry: Entry) -> None:
        """What is prepared and the entry fit on each card together, unless the ledger has lost entries.

        After a restore or a deletion of the ledger, the controller may place on such a card before this agent's report
        tells it of them.
        """
        own, book = allocation_of(*entry.key), NoteBook(self._state_dir)
        notes = [note for note in book.every() if note.allocation != own]
        for seat in entry.seats:
            held = [(note, share) for note in notes for share in _shares(note) if share["uuid"] == seat.device]
            milli = seat.gpu_milli + sum(share["gpu_milli"] for _, share in held)
            size = seat.memory_bytes + sum(share["memory_bytes"] for _, share in held)
            if milli > WHOLE or size > self._devices[seat.device].memory_bytes:
                raise CardNotReady(
                    f"card {seat.device} is still held by {', '.join(_job(note) for note, _ in held)}",
                    hint="the container starts when they have ended",
                )

    def undo(self, uid: str, container: str) -> None:
        """Nothing of it is left; nothing happens where nothing was."""
        name, book = allocation_of(uid, container), NoteBook(self._state_dir)
        self._fenced.discard(name)
        try:
            note = book.read(name)
        except RecordDamaged as damaged:
            log.error("%s", damaged)
            self._arbiter.remove(name)
            book.forget(name)
            return
        if note is not None:
            self._arbiter.remove(name)
            registry.MECHANISMS[note.mechanism].unprepare(name, note.generation, self._state_dir)

    def take_up(self) -> None:
        """Divide the cards' time again between all that the agent before this one has prepared."""
        for uid, container in self.on_record():
            self._divide(allocation_of(uid, container))

    def _divide(self, allocation: str) -> None:
        """The arbiter divides the cards' time for whatever is fenced."""
        mechanism = registry.on_record(allocation, self._state_dir)
        if mechanism is not None and mechanism.name == Fence.name:
            self._arbiter.add(allocation, *shared_directories(allocation, self._state_dir))
            self._fenced.add(allocation)
            self._changed()

    def fenced(self) -> tuple[str, ...]:
        """Allocations that have a fence now. Any thread."""
        return tuple(self._fenced.copy())

    def on_change(self, changed: Callable[[], None]) -> None:
        """Call it whenever another allocation has a fence, in any thread."""
        self._changed = changed

    def on_record(self) -> dict[tuple[str, str], int]:
        """By (pod uid, container) the generation that was prepared, also by the agent before this one.

        Generation 0: its record is damaged, so what was prepared is unknown; it counts until it is undone.
        """
        found = (seen for each in registry.MECHANISMS.values() for seen in each.observe(self._state_dir).values())
        known = {parts_of(seen.allocation): seen.generation for seen in found}
        unknown = {parts_of(one.allocation): 0 for one in NoteBook(self._state_dir).damaged()}
        return known | unknown

    def usage(self, entry: Entry) -> Mapping[str, FenceDeviceUsage] | None:
        """By card what the entry's processes say; nothing yet before it is prepared, None where nothing counts it."""
        return self._counted(allocation_of(*entry.key), f"{entry.namespace}/{entry.pod}")

    def spent_ms(self, uid: str, container: str) -> int | None:
        """GPU milliseconds that its processes used so far, on all its cards; None where nothing counts it."""
        found = self._counted(allocation_of(uid, container), f"pod {uid}")
        return sum(one.gpu_ns for one in found.values()) // 10**6 if found else None

    def _counted(self, name: str, who: str) -> Mapping[str, FenceDeviceUsage] | None:
        if (mechanism := registry.on_record(name, self._state_dir)) is None:
            return {}
        try:
            found = usage_of(name, self._state_dir) if mechanism.name == Fence.name else None
        except (FileNotFoundError, RegionDamaged) as problem:
            log.warning("the usage of %s is unknown: %s", who, problem)
            return None
        return None if found is None else found.totals()

    def _view(self, entry: Entry) -> AllocationView:
        lost = [seat.device for seat in entry.seats if seat.device not in self._devices]
        if lost:
            raise NotFound(f"card {lost[0]} is not on this node now", hint="its pod is placed again elsewhere")
        granted = [
            GrantedDevice(
                self._devices[seat.device],
                seat.gpu_milli,
                seat.memory_bytes,
                *self._costs.get(seat.device, (None, None)),
            )
            for seat in entry.seats
        ]
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
        )


def _share_of(note: Note) -> Mapping[str, Any]:
    """What its container reads about its share; a fence keeps more beside it."""
    found: Mapping[str, Any] = note.made.get("share", note.made)
    return found


def _shares(note: Note) -> list[dict[str, Any]]:
    """Of each of its cards."""
    found: list[dict[str, Any]] = _share_of(note).get("devices", [])
    return found


def _job(note: Note) -> str:
    return str(_share_of(note).get("job", note.allocation))


def allocation_of(uid: str, container: str) -> str:
    """A name for both that is a plain file's: uids have no dot.

    >>> parts_of(allocation_of("1f-2e", "main"))
    ('1f-2e', 'main')
    """
    return f"{uid}.{container}"


def parts_of(allocation: str) -> tuple[str, str]:
    uid, _, container = allocation.partition(".")
    return uid, container
