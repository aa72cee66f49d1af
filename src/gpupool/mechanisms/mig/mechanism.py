"""Serves hardware partitions of real NVIDIA cards in MIG mode, one GPU instance each.

Memory, compute, bandwidth and faults are held by the hardware. A partition is made for its
allocation and destroyed with it; a card's other partitions are not touched. No partition survives a
reboot or a reset of its card: `prepare` makes it again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from gpupool.base.errors import (
    NotFound,
    RequestRejection,
    ServiceUnavailable,
)
from gpupool.mechanisms.bookkeeping import (
    SHARE_FILE,
    build_share_document,
    find_share_problem,
)
from gpupool.mechanisms.contract import (
    AllocationView,
    EnforcementLevels,
    FenceLevel,
    NotYet,
    ObservedAllocation,
    PreparationStep,
    PreparedAllocation,
)
from gpupool.mechanisms.mig.creation import CREATED, REFUSED
from gpupool.mechanisms.mig.driver import DriverCallError, InstanceDriver
from gpupool.mechanisms.mig.host_files import HostFiles, list_closed_nodes, list_instance_nodes
from gpupool.mechanisms.mig.instances import destroy_piece
from gpupool.mechanisms.mig.observation import (
    find_instance_problem,
    iterate_foreign_instances,
    list_standing_records,
)
from gpupool.mechanisms.mig.piece_plan import find_grant_problem, list_real_profiles, plan_pieces
from gpupool.mechanisms.mig.records import (
    InstanceRecord,
    Piece,
    list_record_paths,
    lock_card,
    read_pieces,
    read_record,
    write_pieces,
)
from gpupool.mechanisms.notes import NoteBook, PreparationNote, replace_file, replace_text
from gpupool.mechanisms.offers.summaries import MechanismSummary
from gpupool.mechanisms.simulation import plan_bare_mounts
from gpupool.mechanisms.slow_step import (
    StepResult,
    await_slow_step,
    forget_slow_step,
    run_slow_step,
)
from gpupool.mechanisms.visibility import build_environment, list_device_nodes
from gpupool.model.device import Device
from gpupool.model.enforcement import spread_level
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import SizeClass
from gpupool.model.partition import PartitionProfile, format_mix
from gpupool.probes.nvml.instances import NvmlInstances

#: Name of the slow step in the allocation's directory.
STEP = "create"
#: Nodes of the driver itself, which every program needs beside those of its partition.
CONTROL_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm")
#: What the hardware holds: a partition has its own memory, caches and multiprocessors.
HARD = EnforcementLevels(
    memory=FenceLevel.HARD,
    compute=FenceLevel.HARD,
    bandwidth=FenceLevel.HARD,
    fault=FenceLevel.HARD,
)
StepRunner = Callable[[Path, str, Sequence[str], str], StepResult | NotYet]


class MigMechanism:
    """One GPU instance with one compute instance for each granted partition. Thread-safe.

    Args:
        driver: the driver's calls; loaded on first use.
        host: where this process sees the host's files.
        run_step: starts a slow step in a process of its own.
    """

    name = "mig"
    summary = MechanismSummary(
        HARD,
        (HostKind.PROCESS, HostKind.CONTAINER),
        SizeClass.PROFILES,
        "NVIDIA with MIG, in mode mig",
        "a stand-in for the driver's library that keeps its rules, killed at each call; no real card",
    )

    def __init__(
        self,
        driver: InstanceDriver | None = None,
        host: HostFiles | None = None,
        run_step: StepRunner = run_slow_step,
    ) -> None:
        self._driver: InstanceDriver = driver or NvmlInstances()
        self._host = host or HostFiles()
        self._run_step = run_step

    def fence_level(self) -> FenceLevel:
        return FenceLevel.HARD

    def list_profiles(self, device: Device) -> tuple[PartitionProfile, ...]:
        return list_real_profiles(device)

    def explain_refusal(self, view: AllocationView) -> str:
        return find_grant_problem(view)

    def read_enforcement(self, allocation: str, state_dir: Path) -> tuple[FenceLevel, str]:
        return self.read_levels(allocation, state_dir).weakest, ""

    def read_levels(self, allocation: str, state_dir: Path) -> EnforcementLevels:
        if NoteBook(state_dir).find_note(allocation) is None:
            return spread_level(FenceLevel.NONE)
        return HARD

    def prepare(self, view: AllocationView, state_dir: Path) -> PreparedAllocation | NotYet:
        if reason := self.explain_refusal(view):
            raise RequestRejection(
                f"{self.name} cannot serve allocation {view.allocation}: {reason}"
            )
        book = NoteBook(state_dir)
        folder = book.locate_folder(view.allocation)
        try:
            pieces = plan_pieces(view, self._driver, book)
            made = {"pieces": write_pieces(pieces)}
            before = self._describe_cards(pieces)
            # The note comes first: after a kill here the next agent knows what to finish or undo.
            note = book.begin_preparing(self._build_note(view, before, made))
            records = list_standing_records(self._driver, self._host, folder, pieces)
            if len(records) < len(pieces):
                waiting = self._create_missing(folder)
                if waiting is not None:
                    return waiting
                records = list_standing_records(self._driver, self._host, folder, pieces)
            if len(records) < len(pieces):
                raise ServiceUnavailable(
                    f"a partition of allocation {view.allocation} was created and is gone again"
                )
            return self._finish(view, book, note, records)
        except DriverCallError as error:
            raise ServiceUnavailable(f"the driver cannot be asked: {error}") from error

    def resize(self, view: AllocationView, state_dir: Path) -> None:
        """Take over a later generation: a partition keeps the size of its profile."""
        book = NoteBook(state_dir)
        note = book.read_note(view.allocation)
        if note is None or "uuids" not in note.made:
            raise NotFound(f"allocation {view.allocation} is not prepared on this node")
        plan_pieces(view, self._driver, book)  # raises where the partitions are others
        document = _build_share(view, note.made["uuids"])
        made = {**note.made, "share": document}
        later = book.begin_preparing(self._build_note(view, note.before, made))
        replace_file(book.locate_folder(view.allocation) / "share" / SHARE_FILE, document)
        book.write_note(replace(later, step=PreparationStep.PREPARED))

    def unprepare(self, allocation: str, generation: int, state_dir: Path) -> None:
        """Destroy the allocation's own partitions and no other. Blocks about 2 s for each.

        Raises:
            StaleGeneration: a younger generation is on record; then nothing changes.
            StillInUse: a program has a partition open; call it again when that has ended.
        """
        book = NoteBook(state_dir)
        folder = book.locate_folder(allocation)
        note = book.begin_releasing(self.name, allocation, generation)
        if note is None:
            if book.read_note(allocation) is None:
                book.remove_note(allocation)
            return
        # A creation that runs reads the note before its next piece, and stops.
        await_slow_step(folder, STEP)
        for card in _list_cards(folder, note):
            with lock_card(state_dir, card):
                self._destroy_records(folder, card)
        book.remove_note(allocation)

    def observe(self, state_dir: Path) -> Mapping[str, ObservedAllocation]:
        """Return each allocation on record, and instances that gpupool did not make.

        The latter have keys like `foreign-<card>-gi7` and generation 0. They are never touched.
        """
        book = NoteBook(state_dir)
        observed = {}
        for note in book.iterate_mechanism(self.name):
            observed[note.allocation] = self._observe_note(book, note)
        for found in iterate_foreign_instances(book, self.name, self._driver, self._host):
            observed[found.allocation] = found
        return observed

    def _observe_note(self, book: NoteBook, note: PreparationNote) -> ObservedAllocation:
        problem = ""
        if note.step is PreparationStep.PREPARED:
            folder = book.locate_folder(note.allocation)
            problem = find_share_problem(folder / "share" / SHARE_FILE, note.made["share"])
            problem = problem or find_instance_problem(
                self._driver, self._host, folder, read_pieces(note.made)
            )
        return ObservedAllocation(note.allocation, note.generation, note.step, problem)

    def _build_note(
        self, view: AllocationView, before: Mapping[str, Any], made: Mapping[str, Any]
    ) -> PreparationNote:
        return PreparationNote(
            self.name,
            view.allocation,
            view.generation,
            PreparationStep.PREPARING,
            before=before,
            made=made,
        )

    def _describe_cards(self, pieces: tuple[Piece, ...]) -> dict[str, Any]:
        """Return mode and instances of each card, as they are before the first change."""
        found = {}
        for card in dict.fromkeys(piece.card for piece in pieces):
            mode = self._driver.read_mode(card)
            instances = [asdict(one) for one in self._driver.list_instances(card)]
            found[card] = {"mode": None if mode is None else asdict(mode), "instances": instances}
        return found

    def _create_missing(self, folder: Path) -> NotYet | None:
        """Start the creation or read how it ended; None when it has ended well."""
        command = (sys.executable, "-m", "gpupool.mechanisms.mig.creation")
        arguments = (*command, str(folder), str(self._host.root))
        result = self._run_step(folder, STEP, arguments, "the driver creates its partition")
        if isinstance(result, NotYet):
            return result
        # The next call creates it again: the slot may be free by then.
        forget_slow_step(folder, STEP)
        if result.exit_code == REFUSED:
            raise RequestRejection(result.output.strip())
        if result.exit_code != CREATED:
            raise ServiceUnavailable(
                f"the partition was not created: {result.output.strip() or result.exit_code}"
            )
        return None

    def _finish(
        self,
        view: AllocationView,
        book: NoteBook,
        note: PreparationNote,
        records: Sequence[InstanceRecord],
    ) -> PreparedAllocation:
        """Write what the job is shown, then that all is prepared."""
        folder = book.locate_folder(view.allocation)
        # An agent that was killed after the creation has not read how it ended.
        forget_slow_step(folder, STEP)
        uuids = [record.uuid for record in records]
        document = _build_share(view, uuids)
        replace_file(folder / "share" / SHARE_FILE, document)
        replace_text(folder / "share/devices", "".join(f"{uuid}\n" for uuid in uuids))
        # A container sees nothing of the host, so it gets the driver's libraries mounted.
        seen = plan_bare_mounts(view, folder.parent.parent)
        opened, closed = self._list_nodes(view, records)
        made = {**note.made, "share": document, "uuids": uuids}
        book.write_note(replace(note, step=PreparationStep.PREPARED, made=made))
        shown = ",".join(uuids)
        environment = {
            **build_environment(view),
            "CUDA_VISIBLE_DEVICES": shown,
            "NVIDIA_VISIBLE_DEVICES": shown,
        }
        return PreparedAllocation(
            environment,
            opened,
            closed,
            folder / "share",
            self.fence_level(),
            _list_remarks(records),
            seen.mounts,
            seen.library_path,
            seen.unmounted,
            levels=HARD,
        )

    def _list_nodes(
        self, view: AllocationView, records: Sequence[InstanceRecord]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the device nodes to open and to close."""
        cards, closed = list_device_nodes(view)
        # A graphics node is a way to the whole card.
        opened = [node for node in cards if node.startswith("/dev/nvidia")]
        opened.extend(CONTROL_NODES)
        shut = [*closed, *(node for node in cards if node not in opened)]
        for record in records:
            minor = self._driver.read_minor(record.piece.card)
            number = int(record.number or 0)
            opened.extend(list_instance_nodes(self._host, minor, number, int(record.compute or 0)))
            shut.extend(list_closed_nodes(self._host, minor, number))
        return tuple(dict.fromkeys(opened)), tuple(
            node for node in dict.fromkeys(shut) if node not in opened
        )

    def _destroy_records(self, folder: Path, card: str) -> None:
        for path in list_record_paths(folder):
            record = read_record(path)
            if record is not None and record.piece.card == card:
                try:
                    destroy_piece(self._driver, path, self._host)
                except DriverCallError as error:
                    raise ServiceUnavailable(
                        f"the driver refuses to destroy a partition: {error}"
                    ) from error


def _build_share(view: AllocationView, uuids: Sequence[str]) -> dict[str, Any]:
    document = build_share_document(view, FenceLevel.HARD, "")
    for device, uuid in zip(document["devices"], uuids, strict=True):
        device["partition"] = uuid
    return document


def _list_remarks(records: Sequence[InstanceRecord]) -> tuple[str, ...]:
    mix = format_mix(record.piece.slot for record in records)
    remarks = [f"fence: hard: the hardware holds {mix}"]
    if len(records) > 1:
        remarks.append("CUDA shows one process only the first of these partitions")
    return tuple(remarks)


def _list_cards(folder: Path, note: PreparationNote) -> list[str]:
    """Return the cards of an allocation, also of one whose note is damaged."""
    cards = {piece.card for piece in read_pieces(note.made)}
    for path in list_record_paths(folder):
        record = read_record(path)
        if record is not None:
            cards.add(record.piece.card)
    return sorted(cards)
