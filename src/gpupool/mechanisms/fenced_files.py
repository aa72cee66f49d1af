"""Finds the files of a fenced allocation and what they must say, by the allocation's note."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from gpupool.mechanisms import regions
from gpupool.mechanisms.contract import AllocationView, HostMount, PreparationStep
from gpupool.mechanisms.notes import NoteBook
from gpupool.mechanisms.regions import DeviceLimit, ShareLimits

log = logging.getLogger(__name__)

#: The mechanism's name in notes and in the registry.
FENCE: Final = "fence"


@dataclass(frozen=True)
class FencedFiles:
    """The files of a fenced allocation; `wanted` is what its limits page must say."""

    limits: Path
    grants: Path
    usage: Path
    uuids: tuple[str, ...]
    wanted: ShareLimits
    simulated: bool


def find_fenced_files(allocation: str, state_dir: Path) -> FencedFiles | None:
    """Return the files of an allocation; None without a fence, and while it is being changed."""
    book = NoteBook(state_dir)
    note = book.find_note(allocation)
    if note is None or note.mechanism != FENCE or note.step is not PreparationStep.PREPARED:
        return None
    folder = book.locate_folder(allocation)
    limits = parse_limits(note.made)
    uuids = tuple(device.uuid for device in limits.devices)
    share = folder / "share"
    usage = folder / "usage"
    simulated = any(bool(device["simulated"]) for device in note.made["share"]["devices"])
    return FencedFiles(
        share / "limits", share / "grants", usage / "region", uuids, limits, simulated
    )


def locate_directories(allocation: str, state_dir: Path) -> tuple[Path, Path]:
    """Return the directories of an allocation's share and of its usage files."""
    folder = NoteBook(state_dir).locate_folder(allocation)
    return folder / "share", folder / "usage"


def close_share(allocation: str, state_dir: Path, *, closed: bool) -> None:
    """Close the share of an allocation, or open it. Idempotent.

    After an open call `ArbiterProcess.notify_change`, so that programs see it at once.

    Raises:
        FileNotFoundError: the allocation has no fence.
    """
    share, _ = locate_directories(allocation, state_dir)
    regions.write_closed(share / "limits", closed=closed)


def is_share_closed(allocation: str, state_dir: Path) -> bool:
    """Whether the share of an allocation is closed. Raises FileNotFoundError without a fence."""
    share, _ = locate_directories(allocation, state_dir)
    return regions.is_closed(share / "limits")


def read_allocation_usage(allocation: str, state_dir: Path) -> regions.FenceUsage | None:
    """Return what the processes of an allocation say they use; None without a fence on record.

    Raises:
        DamagedRegion: the usage file cannot be read.
    """
    book = NoteBook(state_dir)
    note = book.find_note(allocation)
    if note is None or note.mechanism != FENCE:
        return None
    uuids = [device["uuid"] for device in note.made["limits"]["devices"]]
    folder = book.locate_folder(allocation)
    usage = regions.read_usage(folder / "usage/region", uuids)
    try:
        return replace(usage, promises=regions.read_promises(folder / "share/grants", uuids))
    except (FileNotFoundError, regions.DamagedRegion) as problem:
        # The audit reports the page to the operator; the counters of use are whole.
        log.info("allocation %s: its promise is not known: %s", allocation, problem)
        return usage


def parse_limits(made: Mapping[str, Any]) -> ShareLimits:
    """Return the limits that a note of the fence holds."""
    known = dict(made["limits"])
    return ShareLimits(
        **{**known, "devices": tuple(DeviceLimit(**one) for one in known["devices"])}
    )


def format_devices(limits: ShareLimits) -> str:
    """Return the content of the share's `devices` file: one uuid a line."""
    return "".join(f"{device.uuid}\n" for device in limits.devices)


def list_usage_mounts(view: AllocationView, folder: Path) -> tuple[HostMount, ...]:
    """Plan the mounts of the usage file in the allocation's directory."""
    # The directory holds the arbiter's doorbell too. Root of a container could replace it, so there
    # only the region is writable.
    place = folder / "usage"
    base = f"{view.seat.base}/usage"
    if not view.seat.container:
        return (HostMount(place, base, writable=True),)
    return HostMount(place, base), HostMount(place / "region", f"{base}/region", writable=True)
