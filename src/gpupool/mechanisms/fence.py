"""Serves enforced shares: the job's CUDA driver is a stand-in that obeys limits it cannot write.

Beside `share.json` an allocation has the limits page and the grants page, which the job sees
read-only, and a usage file with the counters of all its processes. That file belongs to the job, but
its directory does not. `driver_files` makes the stand-in take the driver's name; `regions` holds the
layouts; the agent divides the cards' time and audits the counters. This module makes, changes,
compares and removes the files.

The level is `soft` in a pool of root, where the job can change neither limits nor stand-in, and
`advisory` in a user's own pool, where job and agent are one user. It is never `hard` by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from gpupool.base.errors import DamagedRecord, NotFound, RequestRejection
from gpupool.mechanisms import regions
from gpupool.mechanisms.bookkeeping import (
    SHARE_FILE,
    build_share_document,
    find_size_problem,
)
from gpupool.mechanisms.contract import (
    AllocationView,
    EnforcementLevels,
    FenceLevel,
    ObservedAllocation,
    PreparationStep,
    PreparedAllocation,
)
from gpupool.mechanisms.device_limits import build_device_limit
from gpupool.mechanisms.driver.driver_files import (
    DriverLibraries,
    LibraryMounts,
    find_simulated_libraries,
    find_templates,
    list_known_drivers,
)
from gpupool.mechanisms.driver.image_check import build_image_check
from gpupool.mechanisms.driver.installed_driver import find_installed_driver
from gpupool.mechanisms.fenced_files import (
    FENCE,
    find_file_problem,
    find_highest,
    format_devices,
    list_usage_mounts,
    parse_limits,
)
from gpupool.mechanisms.notes import (
    PASSED_THROUGH,
    NoteBook,
    PreparationNote,
    replace_file,
    replace_text,
)
from gpupool.mechanisms.offers.fence_summary import FENCE_SUMMARY
from gpupool.mechanisms.partition import find_mode_problem, list_stand_in_profiles
from gpupool.mechanisms.regions import DamagedRegion, DeviceLimit, ShareLimits
from gpupool.mechanisms.simulation import plan_container_mounts, plan_machine_mounts
from gpupool.mechanisms.visibility import build_environment, list_device_nodes
from gpupool.model.device import Device
from gpupool.model.enforcement import spread_level
from gpupool.model.partition import PartitionProfile


class FenceMechanism:
    """Shares of NVIDIA cards and of simulated ones, several on one card. Thread-safe."""

    name = FENCE
    summary = FENCE_SUMMARY

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: By state directory and allocation; read from the notes once, since there may be
        #: thousands.
        self._neighbours: dict[Path, dict[str, tuple[DeviceLimit, ...]]] = {}

    def fence_level(self) -> FenceLevel:
        """Return the best level; that of an allocation is in its note."""
        return FenceLevel.SOFT

    def list_profiles(self, device: Device) -> tuple[PartitionProfile, ...]:
        return list_stand_in_profiles(device)

    def explain_refusal(self, view: AllocationView) -> str:
        if not view.fence:
            return "the job asked for no fence"
        others = [grant.device.vendor for grant in view.granted if grant.device.vendor != "nvidia"]
        if others:
            return f"there is no fence for cards of {others[0]}"
        if len(view.granted) > regions.MAX_DEVICES:
            return f"{len(view.granted)} cards, {regions.MAX_DEVICES} is the most"
        return find_mode_problem(view) or find_size_problem(view) or _find_missing_part(view)

    def prepare(self, view: AllocationView, state_dir: Path) -> PreparedAllocation:
        if reason := self.explain_refusal(view):
            raise RequestRejection(
                f"{self.name} cannot serve allocation {view.allocation}: {reason}"
            )
        book = NoteBook(state_dir)
        sight = self._plan_mounts(view, state_dir)
        level, why = find_level(view, sight)
        if any(grant.profile for grant in view.granted):
            why = f"a simulated partition, held as a share is: {why}"
        known = book.find_note(view.allocation)
        revision = _read_revision(known) if known and known.mechanism == self.name else 2
        limits = self._build_limits(view, book, level, revision)
        made = _build_made(view, limits, why, known)
        made["drivers"] = sorted(list_known_drivers(state_dir, view.seat.driver_root))
        note = self._begin_preparing(book, view, made)
        folder = book.locate_folder(view.allocation)
        self._write_share(folder, note.made)
        self._make_usage(folder, view)
        book.write_note(replace(note, step=PreparationStep.PREPARED))
        check = (
            build_image_check(state_dir, simulated=view.machine is not None)
            if view.seat.container
            else ()
        )
        return replace(
            self._describe_preparation(view, folder, sight, level, why), image_check=check
        )

    def resize(self, view: AllocationView, state_dir: Path) -> None:
        """Write other limits; running processes see the page change. Idempotent.

        Finishes what a crash left half-way.
        """
        book = NoteBook(state_dir)
        known = book.read_note(view.allocation)
        if known is None:
            raise NotFound(f"allocation {view.allocation} is not prepared on this node")
        level = FenceLevel(known.made["limits"]["level"])
        # The page's generation is even and grows by 2 with each change; a repeated call of the same
        # allocation generation writes the same page.
        revision = _read_revision(known) + (2 if known.generation != view.generation else 0)
        limits = self._build_limits(view, book, level, revision)
        made = _build_made(view, limits, str(known.made["share"]["fence_why"]), known)
        note = self._begin_preparing(book, view, made)
        self._write_share(book.locate_folder(view.allocation), made)
        book.write_note(replace(note, step=PreparationStep.PREPARED))

    def unprepare(self, allocation: str, generation: int, state_dir: Path) -> None:
        book = NoteBook(state_dir)
        releasing = book.begin_releasing(self.name, allocation, generation)
        with self._lock:
            self._neighbours.get(state_dir, {}).pop(allocation, None)
        if releasing is not None or book.read_note(allocation) is None:
            book.remove_note(allocation)

    def observe(self, state_dir: Path) -> Mapping[str, ObservedAllocation]:
        book = NoteBook(state_dir)
        observed = {}
        for note in book.iterate_mechanism(self.name):
            observed[note.allocation] = _observe_note(note, book.locate_folder(note.allocation))
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
        return spread_level(self.read_enforcement(allocation, state_dir)[0])

    def weaken_level(self, allocation: str, why: str, state_dir: Path) -> None:
        """Lower the level to advisory, since the job runs without mounts. Idempotent."""
        book = NoteBook(state_dir)
        note = book.read_note(allocation)
        if note is None or note.step is PreparationStep.RELEASING:
            return
        if note.made["share"]["fence_why"] != why:
            note = self._note_weaker(note, why, book)
        elif note.step is PreparationStep.PREPARED:
            return
        self._write_share(book.locate_folder(allocation), note.made)
        book.write_note(replace(note, step=PreparationStep.PREPARED))

    def _note_weaker(self, note: PreparationNote, why: str, book: NoteBook) -> PreparationNote:
        """Write the lower level into the note, before it is on the page."""
        made = {
            **note.made,
            "share": {**note.made["share"], "fence": str(FenceLevel.ADVISORY), "fence_why": why},
            "limits": {
                **note.made["limits"],
                "level": str(FenceLevel.ADVISORY),
                "generation": _read_revision(note) + 2,
            },
        }
        return book.write_note(replace(note, step=PreparationStep.PREPARING, made=made))

    def _begin_preparing(
        self, book: NoteBook, view: AllocationView, made: Mapping[str, Any]
    ) -> PreparationNote:
        step = PreparationStep.PREPARING
        try:
            return book.begin_preparing(
                PreparationNote(self.name, view.allocation, view.generation, step, made=made)
            )
        except Exception:
            # `_neighbours` has limits that are on no note.
            with self._lock:
                self._neighbours.pop(book.state_dir, None)
            raise

    def _build_limits(
        self, view: AllocationView, book: NoteBook, level: FenceLevel, revision: int
    ) -> ShareLimits:
        with self._lock:
            beside = self._neighbours.setdefault(book.state_dir, {}) or self._read_neighbours(book)
            others: list[DeviceLimit] = []
            for name, limits in beside.items():
                if name != view.allocation:
                    others += limits
            devices = []
            for grant in view.granted:
                devices.append(build_device_limit(grant, view, others, book.state_dir))
            beside[view.allocation] = tuple(devices)
        return ShareLimits(
            view.allocation, view.job, view.tenant, str(level), tuple(devices), revision
        )

    def _read_neighbours(self, book: NoteBook) -> dict[str, tuple[DeviceLimit, ...]]:
        known = {}
        for note in book.iterate_mechanism(self.name):
            known[note.allocation] = parse_limits(note.made).devices
        self._neighbours[book.state_dir] = known
        return known

    def _write_share(self, folder: Path, made: Mapping[str, Any]) -> None:
        """Write everything below `share/`, each file atomically."""
        share = folder / "share"
        replace_file(share / SHARE_FILE, made["share"])
        limits = parse_limits(made)
        regions.write_limits(share / "limits", limits)
        replace_text(share / "devices", format_devices(limits))
        # Grants that exist are the arbiter's, which has the page mapped.
        try:
            regions.check_grants(share / "grants")
        except (FileNotFoundError, DamagedRegion):
            regions.make_file(share / "grants", regions.empty_grants())

    def _make_usage(self, folder: Path, view: AllocationView) -> None:
        """Make the usage file unless a whole one exists, which processes may be using."""
        place = folder / "usage"
        place.mkdir(exist_ok=True)
        place.chmod(PASSED_THROUGH)
        try:
            regions.read_usage(place / "region", ())
        except (FileNotFoundError, DamagedRegion):
            seat = view.seat
            # An image chooses its user, and a program that starts as root may change to another.
            # So a container's file is writable by all; no other container reaches it.
            owner = None if seat.own_pool or seat.container else (seat.uid, seat.gid)
            content = regions.empty_usage()
            mode = 0o666 if seat.container else 0o600
            regions.make_file(
                place / "region", content, size=regions.USAGE_FILE_BYTES, mode=mode, owner=owner
            )

    def _plan_mounts(self, view: AllocationView, state_dir: Path) -> LibraryMounts:
        if view.seat.container:
            return plan_container_mounts(view, state_dir, fenced=True)
        simulated = find_simulated_libraries() if view.granted[0].device.simulated else None
        return DriverLibraries(
            state_dir, view.seat.base, find_installed_driver(), simulated
        ).plan_fenced()

    def _describe_preparation(
        self, view: AllocationView, folder: Path, sight: LibraryMounts, level: FenceLevel, why: str
    ) -> PreparedAllocation:
        opened, closed = list_device_nodes(view)
        machine = plan_machine_mounts(view)
        return PreparedAllocation(
            build_environment(view),
            opened,
            closed,
            folder / "share",
            level,
            (f"fence: {level}", why, f"the driver's names are {sight.way}"),
            (*list_usage_mounts(view, folder), *machine.mounts, *sight.mounts),
            sight.library_path,
            machine.unmounted,
        )


def find_level(view: AllocationView, sight: LibraryMounts) -> tuple[FenceLevel, str]:
    """Return the level that an allocation's fence reaches, and why it is not higher."""
    if sight.unclassified:
        several = (
            f"{len(sight.unclassified)} functions that this fence does not know, "
            f"such as {sight.unclassified[0]}"
        )
        return FenceLevel.ADVISORY, f"the driver is newer: {several}"
    if view.seat.own_pool:
        return (
            FenceLevel.ADVISORY,
            "in your own pool the job could change its limits: it and the pool are one user",
        )
    return (
        FenceLevel.SOFT,
        "limits and stand-in are root's; who talks to the kernel driver directly is not held",
    )


def _find_missing_part(view: AllocationView) -> str:
    if find_templates() is None:
        return "gpupool-native has no fence libraries here"
    if any(grant.device.simulated for grant in view.granted):
        if view.machine is None:
            return "its node has no file of its simulated cards"
        return "" if find_simulated_libraries() else "gpupool-native has no simulated driver here"
    return (
        ""
        if find_installed_driver(root=view.seat.driver_root).files
        else "no libcuda.so.1 was found on this host"
    )


def _build_made(
    view: AllocationView, limits: ShareLimits, why: str, known: PreparationNote | None
) -> dict[str, Any]:
    before = known.made if known is not None and known.mechanism == FENCE else {}
    return {
        "share": build_share_document(view, FenceLevel(limits.level), why),
        "limits": {**asdict(limits), "devices": [asdict(one) for one in limits.devices]},
        "highest": find_highest(before, limits),
        "drivers": before.get("drivers", []),
    }


def _read_revision(note: PreparationNote) -> int:
    return int(note.made["limits"]["generation"])


def _observe_note(note: PreparationNote, folder: Path) -> ObservedAllocation:
    problem = "" if note.step is not PreparationStep.PREPARED else find_file_problem(note, folder)
    return ObservedAllocation(note.allocation, note.generation, note.step, problem)
