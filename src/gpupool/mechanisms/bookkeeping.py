"""What the mechanisms that change no hardware have in common: the job is shown its cards and told its share.

The share reaches the program as a file in a directory of its own, which the supervisor mounts read-only at
a fixed path; neither an inherited variable nor a descriptor is trusted. Here nothing stops a program from
taking more: the file says `fence: none`, and so does every answer made from it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpupool.base.errors import NotFound, RecordDamaged, Refused
from gpupool.base.units import WHOLE
from gpupool.mechanisms.contract import AllocationView, FenceLevel, GrantedDevice, Observed, Prepared, Step
from gpupool.mechanisms.notes import Note, NoteBook, replace_file, replace_text
from gpupool.mechanisms.simulation import bare_sight
from gpupool.mechanisms.visibility import environment, nodes
from gpupool.model.device import Device
from gpupool.model.partition import PartitionProfile

SHARE_FILE = "share.json"


def share_document(view: AllocationView, fence: FenceLevel, why: str) -> dict[str, Any]:
    """What a job reads about its share: version 1. Numbers are integers; fields may be added, never change
    meaning.
    """
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
        "devices": [
            {
                "uuid": grant.device.uuid,
                "index": grant.device.index,
                "model": grant.device.model,
                "gpu_milli": grant.gpu_milli,
                "memory_bytes": grant.memory_bytes,
                "simulated": grant.device.simulated,
                **({"profile": grant.profile} if grant.profile else {}),
            }
            for grant in view.granted
        ],
    }


class Bookkeeping:
    """Prepare, unprepare and observe for a mechanism whose only state is the note and the share file."""

    name = ""

    def fence_level(self) -> FenceLevel:
        return FenceLevel.NONE

    def profiles(self, device: Device) -> tuple[PartitionProfile, ...]:
        return ()

    def refuses(self, view: AllocationView) -> str:
        raise NotImplementedError

    def why(self, view: AllocationView) -> str:
        """Why nothing stops the job, in words for a person."""
        raise NotImplementedError

    def held(self, allocation: str, state_dir: Path) -> tuple[FenceLevel, str]:
        try:
            note = NoteBook(state_dir).read(allocation)
        except RecordDamaged as damaged:
            return FenceLevel.NONE, str(damaged)
        return self.fence_level(), "" if note is None else str(note.made.get("fence_why", ""))

    def prepare(self, view: AllocationView, state_dir: Path) -> Prepared:
        if reason := self.refuses(view):
            raise Refused(f"{self.name} cannot serve allocation {view.allocation}: {reason}")
        book = NoteBook(state_dir)
        share_dir = book.folder(view.allocation) / "share"
        document = share_document(view, self.fence_level(), self.why(view))
        wanted = Note(self.name, view.allocation, view.generation, Step.PREPARING, made=document)
        note = book.open(wanted)
        replace_file(share_dir / SHARE_FILE, document)
        replace_text(share_dir / "devices", "".join(f"{grant.device.uuid}\n" for grant in view.granted))
        seen = bare_sight(view, state_dir)
        book.write(replace(note, step=Step.PREPARED))
        return Prepared(
            environment(view),
            *nodes(view),
            share_dir,
            self.fence_level(),
            ("fence: none", self.why(view)),
            seen.mounts,
            seen.library_path,
            seen.unmounted,
        )

    def resize(self, view: AllocationView, state_dir: Path) -> None:
        book = NoteBook(state_dir)
        if book.read(view.allocation) is None:
            raise NotFound(f"allocation {view.allocation} is not prepared on this node")
        document = share_document(view, self.fence_level(), self.why(view))
        note = book.open(Note(self.name, view.allocation, view.generation, Step.PREPARING, made=document))
        replace_file(book.folder(view.allocation) / "share" / SHARE_FILE, document)
        book.write(replace(note, step=Step.PREPARED))

    def unprepare(self, allocation: str, generation: int, state_dir: Path) -> None:
        book = NoteBook(state_dir)
        if book.close(self.name, allocation, generation) is not None or book.read(allocation) is None:
            book.forget(allocation)

    def observe(self, state_dir: Path) -> Mapping[str, Observed]:
        book = NoteBook(state_dir)
        notes = book.all(self.name)
        return {n.allocation: self._observed(n, book.folder(n.allocation) / "share") for n in notes}

    def _observed(self, note: Note, share_dir: Path) -> Observed:
        problem = "" if note.step is not Step.PREPARED else share_problem(share_dir / SHARE_FILE, note.made)
        return Observed(note.allocation, note.generation, note.step, problem)


def share_problem(path: Path, made: Mapping[str, Any]) -> str:
    """How a share file differs from what was made; empty when it does not."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "its share file is gone"
    except ValueError:
        return "its share file is damaged"
    return "" if document == made else "its share file was changed"


def size_problem(view: AllocationView) -> str:
    """Why a card cannot hold what is granted of it; empty when each can."""
    problems = (_size_problem(grant) for grant in view.granted)
    return next((problem for problem in problems if problem), "" if view.granted else "it has no card")


def _size_problem(grant: GrantedDevice) -> str:
    if not 0 <= grant.gpu_milli <= WHOLE:
        return f"{grant.gpu_milli} thousandths of a card is not a share"
    if not 0 < grant.memory_bytes <= grant.device.memory_bytes:
        have = grant.device.memory_bytes >> 20
        return f"{grant.memory_bytes >> 20} MiB of a card that has {have} MiB"
    return ""
