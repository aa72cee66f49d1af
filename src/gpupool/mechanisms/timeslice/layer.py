"""Sets a short time slice on a card while an interactive share is on it.

With the driver's default others wait for up to 2.3 ms; a short slice brings an interactive program
to the card sooner, and costs throughput. The record of the card is `card_settings.records`: the
slice of before is in it, and the last interactive share restores it. A card that cannot be set is
left as it is, since the allocation is served all the same.
"""

from __future__ import annotations

import logging
import shutil
import threading
from dataclasses import replace
from pathlib import Path

from gpupool.base.errors import ServiceUnavailable, StaleGeneration
from gpupool.mechanisms.card_settings.compute_mode import (
    ComputeMode,
    ComputeModeControl,
    DriverComputeModes,
)
from gpupool.mechanisms.card_settings.records import CardRecord, CardRecordBook, CardUse
from gpupool.mechanisms.card_settings.timeslice import (
    DriverTimeslices,
    Timeslice,
    TimesliceControl,
)
from gpupool.mechanisms.contract import AllocationView, EnforcementLevels, PreparedAllocation
from gpupool.mechanisms.mps.refusal import SHARING
from gpupool.mechanisms.notes import NoteBook
from gpupool.mechanisms.offers.summaries import MechanismSummary
from gpupool.mechanisms.whole import is_whole

log = logging.getLogger(__name__)


class TimesliceLayer:
    """A short time slice for interactive shares. Thread-safe."""

    name = "timeslice"
    summary = MechanismSummary(
        EnforcementLevels(),
        cards="NVIDIA, shares with a priority above normal",
        tested="a stand-in for nvidia-smi; no real card",
        mechanisms=("fence", "share"),
    )

    def __init__(
        self,
        slices: TimesliceControl | None = None,
        modes: ComputeModeControl | None = None,
    ) -> None:
        self._slices = slices or DriverTimeslices()
        self._modes = modes or DriverComputeModes()
        self._lock = threading.Lock()

    def explain_absence(self, view: AllocationView) -> str:
        if view.priority <= 0:
            return f"priority {view.priority}: only a share above normal (0) is interactive"
        if view.sharing == SHARING:
            return "MPS runs its clients at the same time"
        for grant in view.granted:
            device = grant.device
            if device.vendor != "nvidia":
                return f"{device.uuid} is a card of {device.vendor}"
            if device.simulated:
                return f"{device.uuid} is a simulated card"
            if is_whole(grant):
                return f"{device.uuid} is granted as a whole"
            if grant.profile is not None or device.partitioned:
                return f"{device.uuid} is in MIG mode"
        if view.seat.own_pool:
            return "only root can set a time slice, and this pool is a user's own"
        return self._find_card_problem(view)

    def prepare(
        self, view: AllocationView, prepared: PreparedAllocation, state_dir: Path
    ) -> PreparedAllocation:
        with self._lock:
            book = _open_book(state_dir)
            for grant in view.granted:
                uuid = grant.device.uuid
                record = book.read_record(uuid)
                if record is None:
                    record = CardRecord(uuid, str(self._slices.read_timeslice(uuid)))
                use = CardUse(view.generation, grant.gpu_milli, grant.memory_bytes)
                book.write_record(record.with_user(view.allocation, use))
                try:
                    self._slices.write_timeslice(uuid, Timeslice.SHORT)
                except ServiceUnavailable as problem:
                    # The allocation is served all the same, only less promptly.
                    log.warning("%s", problem)
                    prepared = replace(prepared, notes=(*prepared.notes, problem.message))
        return prepared

    def is_recorded(self, allocation: str, state_dir: Path) -> bool:
        records = _open_book(state_dir).list_records()
        return any(allocation in record.users for record in records)

    def resize(self, view: AllocationView, state_dir: Path) -> None:
        """Do nothing: the slice does not depend on the size of a share."""

    def unprepare(self, allocation: str, generation: int, state_dir: Path) -> None:
        with self._lock:
            book = _open_book(state_dir)
            for record in book.list_records():
                use = record.users.get(allocation)
                if use is not None and generation < use.generation:
                    raise StaleGeneration(
                        f"Allocation {allocation} is at generation {use.generation} on card "
                        f"{record.uuid}; generation {generation} is older and was not applied",
                        on_record=use.generation,
                        named=generation,
                    )
            for record in book.list_records():
                if allocation in record.users:
                    book.write_record(record.without_users({allocation}))
            self._close_unused(book, NoteBook(state_dir))
            _remove_root(state_dir)

    def read_enforcement(
        self, allocation: str, levels: EnforcementLevels, state_dir: Path
    ) -> EnforcementLevels:
        """Return the levels unchanged: a time slice stops no program."""
        return levels

    def _find_card_problem(self, view: AllocationView) -> str:
        for grant in view.granted:
            uuid = grant.device.uuid
            try:
                mode = self._modes.read_mode(uuid)
                self._slices.read_timeslice(uuid)
            except ServiceUnavailable as problem:
                return problem.message
            if mode is not ComputeMode.DEFAULT:
                return f"{uuid} has compute mode {mode}, a time slice needs {ComputeMode.DEFAULT}"
        return ""

    def _close_unused(self, book: CardRecordBook, notes: NoteBook) -> None:
        for record in book.list_records():
            gone = {name for name in record.users if not notes.locate_folder(name).is_dir()}
            if set(record.users) - gone:
                continue
            try:
                self._restore(record)
                book.remove_record(record.uuid)
            except ServiceUnavailable as problem:
                # The card may be lost; the record stays, and the next call tries again.
                log.warning("card %s keeps its time slice: %s", record.uuid, problem)
        for folder in book.list_empty_folders():
            shutil.rmtree(folder)

    def _restore(self, record: CardRecord) -> None:
        before = Timeslice(record.before)
        now = self._slices.read_timeslice(record.uuid)
        # Another slice is an operator's, who set it since.
        if now is Timeslice.SHORT and before is not now:
            self._slices.write_timeslice(record.uuid, before)


def _open_book(state_dir: Path) -> CardRecordBook:
    return CardRecordBook(state_dir / "timeslice")


def _remove_root(state_dir: Path) -> None:
    root = state_dir / "timeslice"
    if root.is_dir() and not any(root.iterdir()):
        root.rmdir()
