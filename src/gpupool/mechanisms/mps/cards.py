"""Keeps a card's compute mode and its MPS daemon in step with the allocations that need them.

The record comes before the first change and goes after the last one (`card_settings.records`). The
functions here finish what a killed agent left: they may be called again after any step.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from gpupool.base.errors import ServiceUnavailable
from gpupool.base.files.trees import remove_tree
from gpupool.mechanisms.card_settings.compute_mode import ComputeMode, ComputeModeControl
from gpupool.mechanisms.card_settings.records import CardRecord, CardRecordBook
from gpupool.mechanisms.mps.control import ControlClient
from gpupool.mechanisms.mps.daemon import DaemonPlace, DaemonProcesses
from gpupool.mechanisms.mps.servers import LimitedServer, NamespaceServer, SharedLimitServer
from gpupool.mechanisms.notes import NoteBook

log = logging.getLogger(__name__)


class MpsCards:
    """The cards of one state directory that have an MPS daemon. The caller serializes the calls."""

    def __init__(
        self,
        state_dir: Path,
        modes: ComputeModeControl,
        control: ControlClient,
        processes: DaemonProcesses,
    ) -> None:
        self.root = state_dir / "mps"
        self.records = CardRecordBook(self.root)
        self._notes = NoteBook(state_dir)
        self._modes = modes
        self._processes = processes
        self._servers: Mapping[str, LimitedServer] = MappingProxyType(
            {"2": SharedLimitServer(control), "3": NamespaceServer(control)}
        )

    def get_server(self, record: CardRecord) -> LimitedServer:
        """Return the way to talk to a card's daemon, which may be older than the program."""
        return self._servers[record.variant]

    def locate_daemon(self, record: CardRecord) -> DaemonPlace:
        folder = self.records.locate_folder(record.uuid)
        return DaemonPlace(folder, record.uuid, record.uid, record.gid)

    def open_card(self, record: CardRecord) -> DaemonPlace:
        """Write the record, make the directories and set the compute mode. Idempotent.

        Raises:
            ServiceUnavailable: the card did not take the mode.
        """
        self.records.write_record(record)
        place = self.locate_daemon(record)
        place.make_directories()
        if self._modes.read_mode(record.uuid) is not ComputeMode.EXCLUSIVE_PROCESS:
            self._modes.write_mode(record.uuid, ComputeMode.EXCLUSIVE_PROCESS)
        return place

    def remove_user(self, allocation: str) -> None:
        """Take an allocation off its card; the last one ends the daemon. Idempotent.

        Raises:
            ServiceUnavailable: a process does not end, or the card does not take its mode. The
                record stays, and the next call tries again.
        """
        for record in self.records.list_records():
            if allocation not in record.users:
                continue
            record = self.records.write_record(record.without_users({allocation}))
            if record.users:
                # Limits shrink to what is left. A daemon that is gone shows in `observe`.
                self.get_server(record).configure(self.locate_daemon(record).target, record)
            else:
                self.close_card(record)

    def close_unused(self) -> None:
        """Close the cards without a user, such as those that a killed agent left. Idempotent."""
        for record in self.records.list_records():
            gone = {name for name in record.users if not self._notes.locate_folder(name).is_dir()}
            if gone:
                record = self.records.write_record(record.without_users(gone))
            if not record.users:
                try:
                    self.close_card(record)
                except ServiceUnavailable as problem:
                    log.warning("card %s is not restored yet: %s", record.uuid, problem)
        for folder in self.records.list_empty_folders():
            remove_tree(folder)
        self._remove_root()

    def close_card(self, record: CardRecord) -> None:
        """End the daemon, restore the compute mode and remove the record. Idempotent.

        Raises:
            ServiceUnavailable: as `remove_user`.
        """
        place = self.locate_daemon(record)
        remaining = self._end_daemon(record, place)
        self._restore_mode(record)
        if remaining:
            raise ServiceUnavailable(
                f"MPS process {remaining[0]} of card {record.uuid} did not end after SIGKILL",
                hint="the driver may hang: see dmesg",
            )
        self.records.remove_record(record.uuid)
        self._remove_root()

    def find_problem(self, record: CardRecord) -> str:
        """Return how a card differs from what was set up; empty when it does not."""
        try:
            mode = self._modes.read_mode(record.uuid)
        except ServiceUnavailable as problem:
            return problem.message
        if mode is not ComputeMode.EXCLUSIVE_PROCESS:
            return f"its card has compute mode {mode}, expected {ComputeMode.EXCLUSIVE_PROCESS}"
        if not self._processes.find_processes(self.locate_daemon(record).target):
            return "its MPS daemon is gone"
        return ""

    def mark_waiting(self, record: CardRecord, now_ns: int) -> CardRecord:
        """Write since when the daemon is waited for; 0 is not at all."""
        if record.waiting_since_ns == now_ns:
            return record
        return self.records.write_record(replace(record, waiting_since_ns=now_ns))

    def _end_daemon(self, record: CardRecord, place: DaemonPlace) -> tuple[int, ...]:
        if not self._processes.find_processes(place.target):
            return ()
        reply = self.get_server(record).request_quit(place.target)
        return self._processes.end_processes(place.target, is_asked=reply.is_success)

    def _restore_mode(self, record: CardRecord) -> None:
        before = ComputeMode(record.before)
        now = self._modes.read_mode(record.uuid)
        # Another mode is an operator's, who set it since.
        if now is ComputeMode.EXCLUSIVE_PROCESS and before is not now:
            self._modes.write_mode(record.uuid, before)

    def _remove_root(self) -> None:
        if self.root.is_dir() and not any(self.root.iterdir()):
            self.root.rmdir()
