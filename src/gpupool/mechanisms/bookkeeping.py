"""Implements mechanisms that change no hardware: they show a job its cards and its share.

The share reaches the program as a file in a directory of its own, which the supervisor mounts
read-only at a fixed path; neither an inherited variable nor a descriptor is trusted. Nothing here
stops a program from taking more: the file says `fence: none`, and so does every answer made of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpupool.base.errors import DamagedRecord, NotFound, RequestRejection
from gpupool.base.units import WHOLE
from gpupool.mechanisms.contract import (
    AllocationView,
    EnforcementLevels,
    FenceLevel,
    GrantedDevice,
    ObservedAllocation,
    PreparationStep,
    PreparedAllocation,
)
from gpupool.mechanisms.notes import NoteBook, PreparationNote, replace_file, replace_text
from gpupool.mechanisms.simulation import plan_bare_mounts
from gpupool.mechanisms.visibility import build_environment, list_device_nodes
from gpupool.model.device import Device
from gpupool.model.enforcement import spread_level
from gpupool.model.partition import PartitionProfile

#: Name of the file in the share directory; its fields are public (version 1).
SHARE_FILE = "share.json"


def build_share_document(view: AllocationView, fence: FenceLevel, why: str) -> dict[str, Any]:
    """Return what a job reads about its share: version 1.

    Numbers are integers. Fields may be added, but never change their meaning.
    """
    devices: list[dict[str, Any]] = []
    for grant in view.granted:
        device: dict[str, Any] = {
            "uuid": grant.device.uuid,
            "index": grant.device.index,
            "model": grant.device.model,
            "gpu_milli": grant.gpu_milli,
            "memory_bytes": grant.memory_bytes,
            "simulated": grant.device.simulated,
        }
        if grant.profile:
            device["profile"] = grant.profile
        devices.append(device)
    return {
        "version": 1,
        "pool": view.pool,
        "job": view.job,
        "allocation": view.allocation,
        "generation": view.generation,
        "tenant": view.tenant,
        "sharing": view.sharing,
        "fence": str(fence),
        "fence_why": why,
        "devices": devices,
    }


class BookkeepingMechanism:
    """Base of mechanisms whose only state is the note and the share file."""

    name = ""

    def fence_level(self) -> FenceLevel:
        return FenceLevel.NONE

    def list_profiles(self, device: Device) -> tuple[PartitionProfile, ...]:
        return ()

    def explain_refusal(self, view: AllocationView) -> str:
        raise NotImplementedError

    def explain_level(self, view: AllocationView) -> str:
        """Return why nothing stops the job, for people."""
        raise NotImplementedError

    def read_enforcement(self, allocation: str, state_dir: Path) -> tuple[FenceLevel, str]:
        try:
            note = NoteBook(state_dir).read_note(allocation)
        except DamagedRecord as damaged:
            return FenceLevel.NONE, str(damaged)
        return self.fence_level(), "" if note is None else str(note.made.get("fence_why", ""))

    def read_levels(self, allocation: str, state_dir: Path) -> EnforcementLevels:
        return spread_level(self.read_enforcement(allocation, state_dir)[0])

    def prepare(self, view: AllocationView, state_dir: Path) -> PreparedAllocation:
        if reason := self.explain_refusal(view):
            raise RequestRejection(
                f"{self.name} cannot serve allocation {view.allocation}: {reason}"
            )
        book = NoteBook(state_dir)
        share_dir = book.locate_folder(view.allocation) / "share"
        document = build_share_document(view, self.fence_level(), self.explain_level(view))
        wanted = PreparationNote(
            self.name, view.allocation, view.generation, PreparationStep.PREPARING, made=document
        )
        # The note comes first: after a kill here the next agent knows what to finish or undo.
        note = book.begin_preparing(wanted)
        replace_file(share_dir / SHARE_FILE, document)
        replace_text(
            share_dir / "devices", "".join(f"{grant.device.uuid}\n" for grant in view.granted)
        )
        seen = plan_bare_mounts(view, state_dir)
        book.write_note(replace(note, step=PreparationStep.PREPARED))
        return PreparedAllocation(
            build_environment(view),
            *list_device_nodes(view),
            share_dir,
            self.fence_level(),
            ("fence: none", self.explain_level(view)),
            seen.mounts,
            seen.library_path,
            seen.unmounted,
        )

    def resize(self, view: AllocationView, state_dir: Path) -> None:
        book = NoteBook(state_dir)
        if book.read_note(view.allocation) is None:
            raise NotFound(f"allocation {view.allocation} is not prepared on this node")
        document = build_share_document(view, self.fence_level(), self.explain_level(view))
        note = book.begin_preparing(
            PreparationNote(
                self.name,
                view.allocation,
                view.generation,
                PreparationStep.PREPARING,
                made=document,
            )
        )
        replace_file(book.locate_folder(view.allocation) / "share" / SHARE_FILE, document)
        book.write_note(replace(note, step=PreparationStep.PREPARED))

    def unprepare(self, allocation: str, generation: int, state_dir: Path) -> None:
        book = NoteBook(state_dir)
        if (
            book.begin_releasing(self.name, allocation, generation) is not None
            or book.read_note(allocation) is None
        ):
            book.remove_note(allocation)

    def observe(self, state_dir: Path) -> Mapping[str, ObservedAllocation]:
        book = NoteBook(state_dir)
        observed = {}
        for note in book.iterate_mechanism(self.name):
            folder = book.locate_folder(note.allocation)
            observed[note.allocation] = self._observe_note(note, folder / "share")
        return observed

    def _observe_note(self, note: PreparationNote, share_dir: Path) -> ObservedAllocation:
        problem = (
            ""
            if note.step is not PreparationStep.PREPARED
            else find_share_problem(share_dir / SHARE_FILE, note.made)
        )
        return ObservedAllocation(note.allocation, note.generation, note.step, problem)


def find_share_problem(path: Path, made: Mapping[str, Any]) -> str:
    """Return how a share file differs from what was made; empty when it does not."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "its share file is gone"
    except ValueError:
        return "its share file is damaged"
    return "" if document == made else "its share file was changed"


def find_size_problem(view: AllocationView) -> str:
    """Return why a card cannot hold what is granted of it; empty when each can."""
    for grant in view.granted:
        problem = _find_grant_problem(grant)
        if problem:
            return problem
    return "" if view.granted else "it has no card"


def _find_grant_problem(grant: GrantedDevice) -> str:
    if not 0 <= grant.gpu_milli <= WHOLE:
        return f"{grant.gpu_milli} thousandths of a card is not a share"
    if not 0 < grant.memory_bytes <= grant.device.memory_bytes:
        have = grant.device.memory_bytes >> 20
        return f"{grant.memory_bytes >> 20} MiB of a card that has {have} MiB"
    return ""
