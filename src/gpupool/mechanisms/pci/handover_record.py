"""The record of a hand-over: its plan as data, and a copy that survives a damaged note."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpupool.base.durable import make_directory_durably, write_durably
from gpupool.mechanisms.contract import EnforcementLevels, PciFunction
from gpupool.mechanisms.notes import PASSED_THROUGH, NoteBook, PreparationNote
from gpupool.mechanisms.pci.operations import Operation

#: Copy of a note's undo list. Releasing rewrites the note without a flush, so a power cut can damage it;
#: the card must be put back all the same.
UNDO_FILE = "undo.json"


@dataclass(frozen=True)
class HandoverPlan:
    """What a mechanism does for one allocation.

    Attributes:
        pieces: names of what no other allocation may have meanwhile.
        enter: operations that make it usable.
        leave: operations that put back what was there.
        functions: what the VM gets.
        mediated_devices: uuids of mediated devices for the VM.
        why: why the levels are what they are, for people.
    """

    pieces: tuple[str, ...]
    enter: tuple[Operation, ...]
    leave: tuple[Operation, ...]
    levels: EnforcementLevels
    why: str
    functions: tuple[PciFunction, ...] = ()
    mediated_devices: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


def write_plan(plan: HandoverPlan) -> dict[str, Any]:
    """Return a plan as it is stored in a note, without the share."""
    return {
        "pieces": list(plan.pieces),
        "enter": [dict(one) for one in plan.enter],
        "leave": [dict(one) for one in plan.leave],
        "levels": plan.levels.write(),
        "why": plan.why,
        "functions": [write_function(one) for one in plan.functions],
        "mediated_devices": list(plan.mediated_devices),
        "notes": list(plan.notes),
        **plan.extra,
    }


def write_undo(folder: Path, note: PreparationNote) -> None:
    """Write the copy of a note; it is on disk when this returns."""
    make_directory_durably(folder, mode=PASSED_THROUGH)
    document = {
        "mechanism": note.mechanism,
        "generation": note.generation,
        "made": dict(note.made),
    }
    write_durably(folder / UNDO_FILE, json.dumps(document).encode(), mode=0o600)


def iterate_pieces(book: NoteBook, allocation: str) -> Iterator[str]:
    """Yield the pieces of all other allocations, also of those whose note is damaged."""
    for note in book.iterate_all():
        if note.allocation != allocation:
            yield from note.made.get("pieces", ())
    for damaged in book.list_damaged():
        undo = read_undo(book.locate_folder(damaged.allocation))
        yield from undo.get("made", {}).get("pieces", ())


def read_undo(folder: Path, mechanism: str = "") -> dict[str, Any]:
    """Return the copy of an undo list; empty where there is none of the mechanism."""
    try:
        document: dict[str, Any] = json.loads((folder / UNDO_FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return document if mechanism in ("", document["mechanism"]) else {}


def list_cards(share: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return what an allocation cannot change: its cards and profiles."""
    return [(one["uuid"], one.get("profile")) for one in share["devices"]]


def list_sizes(share: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return the size of each part of an allocation."""
    names = ("uuid", "gpu_milli", "memory_bytes", "profile")
    sizes = []
    for one in share["devices"]:
        sizes.append(tuple(one.get(name) for name in names))
    return sizes


def write_function(function: PciFunction) -> dict[str, Any]:
    """Return a function as it is stored in a note."""
    return {
        "address": function.address,
        "group": function.iommu_group,
        "driver": function.driver,
        "bar_bytes": list(function.bar_bytes),
    }
