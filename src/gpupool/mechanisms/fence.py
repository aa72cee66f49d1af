"""Shares that hold: the job's CUDA driver is a stand-in which keeps to limits that lie out of the job's reach.

Beside `share.json` an allocation has the limits page and the grants page, which the job sees read-only, and a usage
file that belongs to the job (its directory does not): the ledger of all its processes. How the stand-in takes
the driver's name is `driver_files`; what the files hold is `regions`; who divides the cards' time, and looks
whether the card says the same as the ledger, is the agent. Here everything is made, changed, compared and removed.

What it holds against: `soft` in a root's pool, where neither limits nor stand-in are the job's to change.
`advisory` in a user's own pool, where job and agent are one user. Never called hard.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from gpupool.base.errors import NotFound, RecordDamaged, Refused
from gpupool.mechanisms import regions
from gpupool.mechanisms.bookkeeping import SHARE_FILE, share_document, share_problem, size_problem
from gpupool.mechanisms.calibration import calibration_of
from gpupool.mechanisms.contract import AllocationView, FenceLevel, GrantedDevice, Mount, Observed, Prepared, Step
from gpupool.mechanisms.driver_files import (
    Libraries,
    Sight,
    installed_driver,
    simulated_libraries,
    templates,
)
from gpupool.mechanisms.image_check import image_check
from gpupool.mechanisms.notes import PASSED_THROUGH, Note, NoteBook, replace_file, replace_text
from gpupool.mechanisms.partition import mode_problem, profiles_of
from gpupool.mechanisms.regions import DeviceLimit, Limits, RegionDamaged
from gpupool.mechanisms.simulation import container_sight, machine_sight
from gpupool.mechanisms.visibility import environment, nodes
from gpupool.model.device import Device
from gpupool.model.partition import PartitionProfile

PERIOD_MILLI: Final = 1000
LEAST_DUTY_MILLI: Final = 10
"""A best-effort share is promised nothing; without an arbiter it still gets this part, or it would never end."""
UNPROMISED_WEIGHT: Final = 100
"""Beside shares that weigh as much as they were promised: as a tenth of a card."""


class Fence:
    """Shares of NVIDIA cards and of simulated ones, several on one card."""

    name = "fence"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._neighbours: dict[Path, dict[str, tuple[DeviceLimit, ...]]] = {}
        """By state directory and allocation; read from the notes once, since there may be thousands."""

    def fence_level(self) -> FenceLevel:
        """The best it can be; what an allocation has is in its note."""
        return FenceLevel.SOFT

    def profiles(self, device: Device) -> tuple[PartitionProfile, ...]:
        return profiles_of(device)

    def refuses(self, view: AllocationView) -> str:
        if not view.fence:
            return "the job asked for no fence"
        others = [grant.device.vendor for grant in view.granted if grant.device.vendor != "nvidia"]
        if others:
            return f"there is no fence for cards of {others[0]}"
        if len(view.granted) > regions.MAX_DEVICES:
            return f"{len(view.granted)} cards, {regions.MAX_DEVICES} is the most"
        return mode_problem(view) or size_problem(view) or _missing_parts(view)

    def prepare(self, view: AllocationView, state_dir: Path) -> Prepared:
        if reason := self.refuses(view):
            raise Refused(f"{self.name} cannot serve allocation {view.allocation}: {reason}")
        book = NoteBook(state_dir)
        sight = self._sight(view, state_dir)
        level, why = level_of(view, sight)
        if any(grant.profile for grant in view.granted):
            why = f"a simulated partition, held as a share is: {why}"
        known = book.read(view.allocation)
        revision = _revision(known) if known and known.mechanism == self.name else 2
        limits = self._limits(view, book, level, revision)
        note = book.open(
            Note(self.name, view.allocation, view.generation, Step.PREPARING, made=_made(view, limits, why))
        )
        folder = book.folder(view.allocation)
        self._write_share(folder, note.made)
        self._make_usage(folder, view)
        book.write(replace(note, step=Step.PREPARED))
        check = image_check(state_dir, simulated=view.machine is not None) if view.seat.container else ()
        return replace(self._prepared(view, folder, sight, level, why), image_check=check)

    def resize(self, view: AllocationView, state_dir: Path) -> None:
        """Other limits for processes that run: they see the page change. Twice is once; finished after a crash."""
        book = NoteBook(state_dir)
        known = book.read(view.allocation)
        if known is None:
            raise NotFound(f"allocation {view.allocation} is not prepared on this node")
        level = FenceLevel(known.made["limits"]["level"])
        revision = _revision(known) + (2 if known.generation != view.generation else 0)
        limits = self._limits(view, book, level, revision)
        made = _made(view, limits, str(known.made["share"]["fence_why"]))
        note = book.open(Note(self.name, view.allocation, view.generation, Step.PREPARING, made=made))
        self._write_share(book.folder(view.allocation), made)
        book.write(replace(note, step=Step.PREPARED))

    def unprepare(self, allocation: str, generation: int, state_dir: Path) -> None:
        book = NoteBook(state_dir)
        with self._lock:
            self._neighbours.get(state_dir, {}).pop(allocation, None)
        if book.close(self.name, allocation, generation) is not None or book.read(allocation) is None:
            book.forget(allocation)

    def observe(self, state_dir: Path) -> Mapping[str, Observed]:
        book = NoteBook(state_dir)
        return {note.allocation: _observed(note, book.folder(note.allocation)) for note in book.all(self.name)}

    def held(self, allocation: str, state_dir: Path) -> tuple[FenceLevel, str]:
        try:
            note = NoteBook(state_dir).read(allocation)
        except RecordDamaged as damaged:
            return FenceLevel.NONE, str(damaged)
        if note is None:
            return FenceLevel.NONE, ""
        return FenceLevel(note.made["share"]["fence"]), str(note.made["share"]["fence_why"])

    def weaken(self, allocation: str, why: str, state_dir: Path) -> None:
        """The job runs without the mounts: say so wherever the level is said. Twice is once."""
        book = NoteBook(state_dir)
        note = book.read(allocation)
        if note is None or note.made["share"]["fence_why"] == why:
            return
        made = {
            "share": {**note.made["share"], "fence": str(FenceLevel.ADVISORY), "fence_why": why},
            "limits": {**note.made["limits"], "level": str(FenceLevel.ADVISORY), "generation": _revision(note) + 2},
        }
        book.write(replace(note, step=Step.PREPARING, made=made))
        self._write_share(book.folder(allocation), made)
        book.write(replace(note, made=made))

    def _limits(self, view: AllocationView, book: NoteBook, level: FenceLevel, revision: int) -> Limits:
        with self._lock:
            beside = self._neighbours.setdefault(book.state_dir, {}) or self._read_neighbours(book)
            others = [one for name, limits in beside.items() if name != view.allocation for one in limits]
            devices = tuple(_device_limit(grant, view, others, book.state_dir) for grant in view.granted)
            beside[view.allocation] = devices
        return Limits(view.allocation, view.job, view.tenant, str(level), devices, revision)

    def _read_neighbours(self, book: NoteBook) -> dict[str, tuple[DeviceLimit, ...]]:
        known = {note.allocation: _limits_of(note.made).devices for note in book.all(self.name)}
        self._neighbours[book.state_dir] = known
        return known

    def _write_share(self, folder: Path, made: Mapping[str, Any]) -> None:
        """Everything below `share/`, each file whole or not at all; the grants are the arbiter's once they exist."""
        share = folder / "share"
        replace_file(share / SHARE_FILE, made["share"])
        limits = _limits_of(made)
        regions.write_limits(share / "limits", limits)
        replace_text(share / "devices", _devices_text(limits))
        try:
            regions.check_grants(share / "grants")
        except (FileNotFoundError, RegionDamaged):
            regions.make_file(share / "grants", regions.empty_grants())

    def _make_usage(self, folder: Path, view: AllocationView) -> None:
        """A region that is whole is kept: processes may be using it. A container's belongs to whoever is in there: an
        image says whom it runs as, and who begins as root may go on as somebody else; nobody else reaches the file.
        """
        place = folder / "usage"
        place.mkdir(exist_ok=True)
        place.chmod(PASSED_THROUGH)
        try:
            regions.read_usage(place / "region", ())
        except (FileNotFoundError, RegionDamaged):
            seat = view.seat
            owner = None if seat.own_pool or seat.container else (seat.uid, seat.gid)
            content, mode = regions.empty_usage(), 0o666 if seat.container else 0o600
            regions.make_file(place / "region", content, size=regions.USAGE_FILE_BYTES, mode=mode, owner=owner)

    def _sight(self, view: AllocationView, state_dir: Path) -> Sight:
        if view.seat.container:
            return container_sight(view, state_dir, fenced=True)
        simulated = simulated_libraries() if view.granted[0].device.simulated else None
        return Libraries(state_dir, view.seat.base, installed_driver(), simulated).fenced()

    def _prepared(self, view: AllocationView, folder: Path, sight: Sight, level: FenceLevel, why: str) -> Prepared:
        opened, closed = nodes(view)
        machine = machine_sight(view)
        return Prepared(
            environment(view),
            opened,
            closed,
            folder / "share",
            level,
            (f"fence: {level}", why, f"the driver's names are {sight.way}"),
            (*_usage_mounts(view, folder), *machine.mounts, *sight.mounts),
            sight.library_path,
            machine.unmounted,
        )


def _usage_mounts(view: AllocationView, folder: Path) -> tuple[Mount, ...]:
    """The directory holds the arbiter's doorbell too; in a container, whose root could write there, it is read-only."""
    place, base = folder / "usage", f"{view.seat.base}/usage"
    if not view.seat.container:
        return (Mount(place, base, writable=True),)
    return Mount(place, base), Mount(place / "region", f"{base}/region", writable=True)


def level_of(view: AllocationView, sight: Sight) -> tuple[FenceLevel, str]:
    """How much the fence of an allocation can hold, and why not more, in words for a person."""
    if sight.unclassified:
        several = f"{len(sight.unclassified)} functions that this fence does not know, such as {sight.unclassified[0]}"
        return FenceLevel.ADVISORY, f"the driver is newer: {several}"
    if view.seat.own_pool:
        return FenceLevel.ADVISORY, "in your own pool the job could change its limits: it and the pool are one user"
    return (
        FenceLevel.SOFT,
        "limits and stand-in are root's; who talks to the kernel driver directly is not held",
    )


@dataclass(frozen=True)
class FencedFiles:
    """Where the files of a fenced allocation are and what they must say."""

    limits: Path
    grants: Path
    usage: Path
    uuids: tuple[str, ...]
    wanted: Limits
    simulated: bool


def fenced_files(allocation: str, state_dir: Path) -> FencedFiles | None:
    """None for an allocation without a fence, and while it is being changed."""
    book = NoteBook(state_dir)
    note = book.find(allocation)
    if note is None or note.mechanism != Fence.name or note.step is not Step.PREPARED:
        return None
    folder, limits = book.folder(allocation), _limits_of(note.made)
    uuids = tuple(device.uuid for device in limits.devices)
    share, usage = folder / "share", folder / "usage"
    simulated = any(bool(device["simulated"]) for device in note.made["share"]["devices"])
    return FencedFiles(share / "limits", share / "grants", usage / "region", uuids, limits, simulated)


def shared_directories(allocation: str, state_dir: Path) -> tuple[Path, Path]:
    """Where the share and the usage files of an allocation lie."""
    folder = NoteBook(state_dir).folder(allocation)
    return folder / "share", folder / "usage"


def usage_of(allocation: str, state_dir: Path) -> regions.FenceUsage | None:
    """What the processes of an allocation say they use; None when it has no fence on record. Raises RegionDamaged."""
    book = NoteBook(state_dir)
    note = book.find(allocation)
    if note is None or note.mechanism != Fence.name:
        return None
    uuids = [device["uuid"] for device in note.made["limits"]["devices"]]
    return regions.read_usage(book.folder(allocation) / "usage/region", uuids)


def _missing_parts(view: AllocationView) -> str:
    if templates() is None:
        return "gpupool-native has no fence libraries here"
    if any(grant.device.simulated for grant in view.granted):
        if view.machine is None:
            return "its node has no file of its simulated cards"
        return "" if simulated_libraries() else "gpupool-native has no simulated driver here"
    return "" if installed_driver(root=view.seat.driver_root).files else "no libcuda.so.1 was found on this host"


def _made(view: AllocationView, limits: Limits, why: str) -> dict[str, Any]:
    return {
        "share": share_document(view, FenceLevel(limits.level), why),
        "limits": {**asdict(limits), "devices": [asdict(one) for one in limits.devices]},
    }


def _limits_of(made: Mapping[str, Any]) -> Limits:
    known = dict(made["limits"])
    return Limits(**{**known, "devices": tuple(DeviceLimit(**one) for one in known["devices"])})


def _revision(note: Note) -> int:
    return int(note.made["limits"]["generation"])


def _devices_text(limits: Limits) -> str:
    return "".join(f"{device.uuid}\n" for device in limits.devices)


def _device_limit(
    grant: GrantedDevice, view: AllocationView, others: Iterable[DeviceLimit], state_dir: Path
) -> DeviceLimit:
    known = calibration_of(grant.device, state_dir)
    part = max(grant.gpu_milli, LEAST_DUTY_MILLI)
    return DeviceLimit(
        grant.device.uuid,
        grant.memory_bytes,
        grant.device.memory_bytes,
        grant.context_bytes if grant.context_bytes is not None else known.context_bytes,
        grant.granule_bytes if grant.granule_bytes is not None else known.granule_bytes,
        grant.gpu_milli,
        view.sharing,
        grant.gpu_milli or UNPROMISED_WEIGHT,
        view.priority,
        _free_offset(part, [one for one in others if one.uuid == grant.device.uuid]),
    )


def _free_offset(part: int, others: Iterable[DeviceLimit]) -> int:
    """Where in a period this share's part begins when nobody divides the card's time: beside its neighbours'.

    The first gap it fits into; 0 where the neighbours leave none.
    """
    taken = sorted((one.duty_offset_milli, max(one.gpu_milli, LEAST_DUTY_MILLI)) for one in others)
    end = 0
    for offset, length in [*taken, (PERIOD_MILLI, 0)]:
        if end + part <= offset:
            return end
        end = max(end, offset + length)
    return 0


def _observed(note: Note, folder: Path) -> Observed:
    problem = "" if note.step is not Step.PREPARED else _problem(note, folder)
    return Observed(note.allocation, note.generation, note.step, problem)


def _problem(note: Note, folder: Path) -> str:
    """What of an allocation's files is not what was made, in words; empty when all is."""
    limits = _limits_of(note.made)
    try:
        if regions.read_limits(folder / "share/limits") != regions.as_on_page(limits):
            return "its limits page was changed"
        if (folder / "share/devices").read_text(encoding="utf-8", errors="replace") != _devices_text(limits):
            return "its list of cards was changed"
        regions.check_grants(folder / "share/grants")
        regions.read_usage(folder / "usage/region", ())
    except FileNotFoundError as error:
        return f"{os.path.basename(error.filename)} is gone"
    except RegionDamaged as error:
        return f"damaged: {error}"
    return share_problem(folder / "share" / SHARE_FILE, note.made["share"])
