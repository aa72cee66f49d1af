"""Finds the files of a fenced allocation and what they must say, by the allocation's note."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from gpupool.mechanisms import regions
from gpupool.mechanisms.bookkeeping import SHARE_FILE, find_share_problem
from gpupool.mechanisms.contract import AllocationView, HostMount, PreparationStep
from gpupool.mechanisms.notes import NoteBook, PreparationNote
from gpupool.mechanisms.regions import DeviceLimit, ShareLimits

log = logging.getLogger(__name__)

#: The mechanism's name in notes and in the registry.
FENCE: Final = "fence"


@dataclass(frozen=True)
class FencedFiles:
    """The files of a fenced allocation.

    Attributes:
        wanted: what its limits page must say.
        highest: bytes of the largest share that it ever had, by uuid; empty where no one wrote it.
        drivers: inodes of the driver's libraries when it was prepared. Its processes keep them when
            the host's driver is replaced.
    """

    limits: Path
    grants: Path
    usage: Path
    uuids: tuple[str, ...]
    wanted: ShareLimits
    simulated: bool
    highest: Mapping[str, int] = field(default_factory=dict, hash=False)
    drivers: frozenset[int] = frozenset()


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
        share / "limits",
        share / "grants",
        usage / "region",
        uuids,
        limits,
        simulated,
        note.made.get("highest", {}),
        frozenset(note.made.get("drivers", ())),
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


def find_highest(before: Mapping[str, Any], limits: ShareLimits) -> dict[str, int]:
    """Return the bytes of the largest share of each card that an allocation ever had, by uuid.

    Args:
        before: what its note says of the share that it had; empty where it had none.
        limits: its share from now on.
    """
    highest = dict(before.get("highest", {}))
    had = parse_limits(before).devices if before else ()
    for device in (*had, *limits.devices):
        highest[device.uuid] = max(highest.get(device.uuid, 0), device.memory_bytes)
    return highest


def find_file_problem(note: PreparationNote, folder: Path) -> str:
    """Return which file of an allocation is not what was made; empty when all are."""
    limits = parse_limits(note.made)
    try:
        if regions.read_limits(folder / "share/limits") != regions.cut_to_page(limits):
            return "its limits page was changed"
        if (folder / "share/devices").read_text(
            encoding="utf-8", errors="replace"
        ) != format_devices(limits):
            return "its list of cards was changed"
        regions.check_grants(folder / "share/grants")
        regions.read_usage(folder / "usage/region", ())
    except FileNotFoundError as error:
        return f"{os.path.basename(error.filename)} is gone"
    except regions.DamagedRegion as error:
        return f"damaged: {error}"
    return find_share_problem(folder / "share" / SHARE_FILE, note.made["share"])


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
