"""Base of mechanisms that hand a card, or a piece of one, to a virtual machine.

A mechanism says what to change as two lists of operations, to enter and to leave. This module writes
them down first, runs them in a process of their own, checks the result, and undoes it when no process
has the device open any more. So an agent that was killed at any line finishes or undoes it.

Addresses of virtual functions and numbers of types are used again by later allocations. A piece belongs
to the allocation whose note lists it, from before the first change until after the last.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpupool.base.errors import DamagedRecord, NotFound, RequestRejection, StillInUse, WrongState
from gpupool.mechanisms.bookkeeping import SHARE_FILE, build_share_document, find_share_problem
from gpupool.mechanisms.contract import (
    AllocationView,
    EnforcementLevels,
    FenceLevel,
    NotYet,
    ObservedAllocation,
    PciFunction,
    PreparationStep,
    PreparedAllocation,
)
from gpupool.mechanisms.notes import NoteBook, PreparationNote, replace_file
from gpupool.mechanisms.pci.handover_record import (
    HandoverPlan,
    iterate_pieces,
    list_cards,
    list_sizes,
    read_undo,
    write_plan,
    write_undo,
)
from gpupool.mechanisms.pci.holders import find_holders, format_holders
from gpupool.mechanisms.pci.requests import find_access_problem, find_request_problem
from gpupool.mechanisms.pci.steps import PlanRunner
from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.mechanisms.pci.virtual_gpus import list_mediated_nodes
from gpupool.mechanisms.visibility import build_environment, list_device_nodes
from gpupool.model.device import Device
from gpupool.model.enforcement import read_levels
from gpupool.model.partition import PartitionProfile

#: Seconds until an agent should ask again whether a device is free or put back.
RETRY_SECONDS = 0.5


class CardHandover:
    """Base; a mechanism adds `explain_pieces`, `make_plan` and `find_effect_problem`."""

    name = ""

    def __init__(self, root: Path = Path("/"), runner: PlanRunner | None = None) -> None:
        self.tree = PciTree(root)
        self.runner = runner or PlanRunner()
        #: Two allocations must not choose the same free piece: the agent prepares on many threads.
        self._lock = threading.Lock()

    def explain_pieces(self, view: AllocationView, taken: frozenset[str]) -> str:
        """Return why the node's hardware cannot serve a well-formed allocation."""
        raise NotImplementedError

    def make_plan(self, view: AllocationView, folder: Path, taken: frozenset[str]) -> HandoverPlan:
        """Choose pieces and return what to do with them. Changes nothing."""
        raise NotImplementedError

    def find_effect_problem(self, made: Mapping[str, Any]) -> str:
        """Return how the hardware differs from what was made; empty when it does not."""
        raise NotImplementedError

    def fence_level(self) -> FenceLevel:
        return FenceLevel.HARD

    def list_profiles(self, device: Device) -> tuple[PartitionProfile, ...]:
        return ()

    def explain_refusal(self, view: AllocationView) -> str:
        return self._explain(view, frozenset())

    def _explain(self, view: AllocationView, taken: frozenset[str]) -> str:
        problem = find_request_problem(view) or find_access_problem(self.tree)
        return problem or self.explain_pieces(view, taken)

    def prepare(self, view: AllocationView, state_dir: Path) -> PreparedAllocation | NotYet:
        book = NoteBook(state_dir)
        with self._lock:
            note = self._begin(view, book)
        folder = book.locate_folder(view.allocation)
        if self._find_problem(note.made, folder):
            if not self.runner.withdraw_plan(folder, "leave"):
                return NotYet("its last release still runs", RETRY_SECONDS)
            reason = f"the hardware of allocation {view.allocation} is being set up"
            result = self.runner.run_plan(
                self.tree.root, folder, "enter", note.made["enter"], reason
            )
            if isinstance(result, NotYet):
                return result
            problem = result.output.strip() if result.exit_code else self._find_effect(note.made)
            if problem:
                raise RequestRejection(
                    f"{self.name} cannot serve allocation {view.allocation}: {problem}"
                )
            replace_file(folder / "share" / SHARE_FILE, note.made["share"])
        if note.step is not PreparationStep.PREPARED:
            book.write_note(replace(note, step=PreparationStep.PREPARED))
        return self._describe(view, note.made, folder)

    def resize(self, view: AllocationView, state_dir: Path) -> None:
        """Write other numbers for the same pieces; hardware that was handed over keeps its size.

        Raises RequestRejection for another size, which only another piece has.
        """
        book = NoteBook(state_dir)
        known = book.read_note(view.allocation)
        if known is None:
            raise NotFound(f"allocation {view.allocation} is not prepared on this node")
        if list_sizes(known.made["share"]) != list_sizes(self._build_share(view, known.made)):
            raise RequestRejection(
                f"{self.name} cannot resize allocation {view.allocation}: a VM keeps its hardware",
                hint="stop the VM and submit it with the other size",
            )
        made = {**known.made, "share": self._build_share(view, known.made)}
        wanted = PreparationNote(
            self.name, view.allocation, view.generation, PreparationStep.PREPARING, made=made
        )
        note = book.begin_preparing(wanted)
        replace_file(book.locate_folder(view.allocation) / "share" / SHARE_FILE, made["share"])
        book.write_note(replace(note, step=PreparationStep.PREPARED))

    def unprepare(self, allocation: str, generation: int, state_dir: Path) -> None:
        """Put back what was there before. Does not block.

        Raises:
            StaleGeneration: a younger generation is on record; then nothing changes.
            StillInUse: a process has the device open, or the change still runs: call again.
            WrongState: an operation failed; the message says what is there.
        """
        book = NoteBook(state_dir)
        releasing = book.begin_releasing(self.name, allocation, generation)
        folder = book.locate_folder(allocation)
        if releasing is None:
            if book.read_note(allocation) is None:
                book.remove_note(allocation)
            return
        made = releasing.made or read_undo(folder, self.name).get("made", {})
        if made:
            self._leave(allocation, made, folder)
        book.remove_note(allocation)

    def observe(self, state_dir: Path) -> Mapping[str, ObservedAllocation]:
        book = NoteBook(state_dir)
        observed = {}
        for note in book.iterate_mechanism(self.name):
            problem = ""
            if note.step is PreparationStep.PREPARED:
                problem = self._find_problem(note.made, book.locate_folder(note.allocation))
            observed[note.allocation] = ObservedAllocation(
                note.allocation, note.generation, note.step, problem
            )
        # A damaged note is on record too, since its hardware must be put back.
        for damaged in book.list_damaged():
            undo = read_undo(book.locate_folder(damaged.allocation), self.name)
            if undo:
                observed[damaged.allocation] = ObservedAllocation(
                    damaged.allocation,
                    undo["generation"],
                    PreparationStep.RELEASING,
                    str(damaged.error),
                )
        return observed

    def read_enforcement(self, allocation: str, state_dir: Path) -> tuple[FenceLevel, str]:
        try:
            note = NoteBook(state_dir).read_note(allocation)
        except DamagedRecord as damaged:
            return FenceLevel.NONE, str(damaged)
        if note is None:
            return FenceLevel.NONE, ""
        return FenceLevel(note.made["share"]["fence"]), str(note.made["share"]["fence_why"])

    def read_levels(self, allocation: str, state_dir: Path) -> EnforcementLevels:
        try:
            note = NoteBook(state_dir).read_note(allocation)
        except DamagedRecord:
            return EnforcementLevels()
        return EnforcementLevels() if note is None else read_levels(note.made["levels"])

    def _begin(self, view: AllocationView, book: NoteBook) -> PreparationNote:
        """Return the note of an allocation, written first where it is new or younger."""
        old = self._find_record(view.allocation, book)
        if old is not None and old.mechanism == self.name:
            return self._continue(view, book, old)
        taken = frozenset(iterate_pieces(book, view.allocation))
        reason = self._explain(view, taken)
        if reason:
            raise RequestRejection(
                f"{self.name} cannot serve allocation {view.allocation}: {reason}"
            )
        folder = book.locate_folder(view.allocation)
        made = write_plan(self.make_plan(view, folder, taken))
        made["share"] = self._build_share(view, made)
        wanted = PreparationNote(
            self.name, view.allocation, view.generation, PreparationStep.PREPARING, made=made
        )
        if old is None:
            write_undo(folder, wanted)
        return book.begin_preparing(wanted)

    def _find_record(self, allocation: str, book: NoteBook) -> PreparationNote | None:
        """Return the note of an allocation, made of its copy where it is damaged."""
        try:
            return book.read_note(allocation)
        except DamagedRecord:
            undo = read_undo(book.locate_folder(allocation), self.name)
        if not undo:
            return None
        step = PreparationStep.PREPARING
        return PreparationNote(self.name, allocation, undo["generation"], step, made=undo["made"])

    def _continue(
        self, view: AllocationView, book: NoteBook, old: PreparationNote
    ) -> PreparationNote:
        made = {**old.made, "share": self._build_share(view, old.made)}
        if list_cards(made["share"]) != list_cards(old.made["share"]):
            raise RequestRejection(
                f"Allocation {view.allocation} is prepared on this node with other cards"
            )
        is_new = old.generation != view.generation or old.step is PreparationStep.RELEASING
        if not is_new and book.find_note(view.allocation) is not None:
            return old
        wanted = PreparationNote(
            self.name, view.allocation, view.generation, PreparationStep.PREPARING, made=made
        )
        note = book.begin_preparing(wanted)
        write_undo(book.locate_folder(view.allocation), note)
        replace_file(book.locate_folder(view.allocation) / "share" / SHARE_FILE, made["share"])
        return note

    def _leave(self, allocation: str, made: Mapping[str, Any], folder: Path) -> None:
        if not self.runner.withdraw_plan(folder, "enter"):
            raise StillInUse(
                f"allocation {allocation} is still being set up", retry_after_seconds=RETRY_SECONDS
            )
        nodes = self.list_open_nodes(made)
        holders = find_holders(nodes, self.tree.root)
        if holders:
            raise StillInUse(
                f"allocation {allocation} is still used by {format_holders(holders)}",
                retry_after_seconds=RETRY_SECONDS,
            )
        reason = f"the hardware of allocation {allocation} is being put back"
        result = self.runner.run_plan(self.tree.root, folder, "leave", made["leave"], reason)
        if isinstance(result, NotYet):
            raise StillInUse(reason, retry_after_seconds=RETRY_SECONDS)
        if result.exit_code:
            raise WrongState(
                f"the hardware of allocation {allocation} was not put back: "
                f"{result.output.strip()}",
                hint="the card stays out of use; mend the cause, and the agent tries again",
            )

    @staticmethod
    def _build_share(view: AllocationView, made: Mapping[str, Any]) -> dict[str, Any]:
        level = read_levels(made["levels"]).weakest
        return build_share_document(view, level, str(made["why"]))

    def _find_effect(self, made: Mapping[str, Any]) -> str:
        for function in made["functions"]:
            address = function["address"]
            if not self.tree.has_function(address):
                return f"{address} is gone from the PCI bus"
        return self.find_effect_problem(made)

    def _find_problem(self, made: Mapping[str, Any], folder: Path) -> str:
        problem = self._find_effect(made)
        return problem or find_share_problem(folder / "share" / SHARE_FILE, made["share"])

    def _describe(
        self, view: AllocationView, made: Mapping[str, Any], folder: Path
    ) -> PreparedAllocation:
        # The VM drives the hardware itself: the job outside it sees no card.
        hidden = replace(view, granted=())
        levels = read_levels(made["levels"])
        functions = tuple(self.read_function(one) for one in made["functions"])
        return PreparedAllocation(
            env=build_environment(hidden),
            allow_nodes=self._list_nodes(made),
            deny_nodes=list_device_nodes(hidden)[1],
            share_dir=folder / "share",
            fence=levels.weakest,
            notes=(f"fence: {levels.weakest}", str(made["why"]), *made["notes"]),
            levels=levels,
            pci=functions,
            mediated_devices=tuple(made["mediated_devices"]),
        )

    def read_function(self, document: Mapping[str, Any]) -> PciFunction:
        driver = self.tree.describe(document["address"]).driver or document["driver"]
        sizes = tuple(document["bar_bytes"])
        return PciFunction(document["address"], document["group"], driver, sizes)

    def list_open_nodes(self, made: Mapping[str, Any]) -> list[Path]:
        """Return the nodes that a VM has open as long as it uses the hardware."""
        nodes: list[Path] = []
        for function in made["functions"]:
            if self.tree.has_function(function["address"]):
                nodes += self.tree.list_group_nodes(function["address"])
        for identifier in made["mediated_devices"]:
            nodes += list_mediated_nodes(self.tree, identifier)
        return nodes

    def _list_nodes(self, made: Mapping[str, Any]) -> tuple[str, ...]:
        common = [self.tree.root / "dev/vfio/vfio", self.tree.root / "dev/iommu"]
        nodes = [node for node in common if node.exists()]
        nodes += self.list_open_nodes(made)
        return tuple(dict.fromkeys(str(node) for node in nodes))
