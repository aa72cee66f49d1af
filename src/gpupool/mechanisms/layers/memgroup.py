"""Adds the memory limit of the card's own driver to a share, by the job's cgroup.

The driver, or the kernel for it, refuses what would exceed the limit, whatever library a program
uses or avoids; with it the memory of a share is held `hard`. NVIDIA's driver can do that since R615
with cgroups of version 2, not in MIG mode, and for root alone. It counts all memory but managed
memory, which the fence goes on charging.

The hard limit is the share and one context, so that an honest program meets the fence's limit
first. The soft limit is 0: a soft limit would be added to every cgroup above, and would stay there
when the supervisor removes the job's.

On simulated cards whose driver version is R615 or later the simulated driver plays the same part.
That is a model of the hardware and no boundary: every job can write the file in which the simulated
card counts what is used.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpupool.base.errors import ProbeSuspended, RequestRejection
from gpupool.base.units import format_mib
from gpupool.mechanisms.calibration import find_calibration
from gpupool.mechanisms.contract import (
    AllocationView,
    EnforcementLevels,
    FenceLevel,
    GrantedDevice,
    HostKind,
    ObservedAllocation,
    PreparationStep,
    PreparedAllocation,
)
from gpupool.mechanisms.layers.job_cgroup import (
    choose_group,
    is_version_2,
    make_group,
    remove_group,
)
from gpupool.mechanisms.layers.layer_notes import LayerNote, LayerNoteBook
from gpupool.mechanisms.layers.limited_cards import explain_unlimited
from gpupool.mechanisms.offers.summaries import MechanismSummary
from gpupool.probes.memory_limits import (
    NO_LIMIT,
    DriverLimits,
    MemoryLimit,
    MemoryLimiter,
    SimulatedLimits,
)

log = logging.getLogger(__name__)

#: Opens the limits of a node: of the simulated cards in that directory, else of the real driver.
LimiterFactory = Callable[[Path | None], MemoryLimiter]


class DriverMemoryLimits:
    """The layer `memgroup`. Thread-safe: the job's lock orders the calls for one allocation."""

    name = "memgroup"
    summary = MechanismSummary(
        EnforcementLevels(memory=FenceLevel.HARD),
        cards="NVIDIA with driver R615 or later, cgroups of version 2, an agent that is root",
        tested="simulated driver with the real supervisor and programs that avoid the fence, on cgroup "
        "v1 and, in an emulated machine, v2, and a pod on a real kubelet; no real card",
        mechanisms=("fence", "mps"),
    )

    def __init__(
        self,
        open_limiter: LimiterFactory | None = None,
        read_uid: Callable[[], int] = os.geteuid,
    ) -> None:
        self._driver = DriverLimits()
        self._open_limiter = open_limiter or self._open_usual_limiter
        self._read_uid = read_uid

    def _open_usual_limiter(self, machine: Path | None) -> MemoryLimiter:
        return self._driver if machine is None else SimulatedLimits(machine)

    def explain_absence(self, view: AllocationView) -> str:
        return (
            explain_unlimited(view)
            or self._explain_host(view)
            or self._open_limiter(view.machine).explain_absence()
        )

    def _explain_host(self, view: AllocationView) -> str:
        if view.seat.own_pool or self._read_uid() != 0:
            return "the agent is not root, and only root sets the driver's limits"
        if not view.cgroups:
            return "the job has no cgroup of its own"
        in_container = view.seat.container or view.host is HostKind.CONTAINER
        if view.machine is not None and in_container and not view.shows_cgroups:
            # A runtime may give it a cgroup namespace, which a kernel sees through.
            return "the simulated driver does not know the cgroup of a container's process"
        older = [group for group in view.cgroups if not is_version_2(Path(group))]
        if older and view.machine is None:
            return f"cgroup v1: the driver's limits need version 2 alone, and {older[0]} is of v1"
        return ""

    def prepare(
        self, view: AllocationView, prepared: PreparedAllocation, state_dir: Path
    ) -> PreparedAllocation:
        """Set the limits, and return what is prepared with the level that they reach.

        A limit that the driver refuses is reported and costs the level, not the job.
        """
        note = self._limit_groups(view, state_dir)
        why = _describe_level(note)
        levels = _raise_memory(prepared.enforcement, note)
        return replace(prepared, levels=levels, notes=(*prepared.notes, why))

    def limit_container(self, view: AllocationView, state_dir: Path) -> str:
        """Set the limits on the cgroup that a runtime has made for a container. Idempotent.

        A container that is started again has another cgroup; the limits of the earlier one are
        removed.

        Returns:
            What is not in force, for people; empty when all limits are.

        Raises:
            RequestRejection: `explain_absence` gives a reason.
            StaleGeneration: a younger generation is on record.
        """
        known = LayerNoteBook(state_dir, self.name).find_note(view.allocation)
        if known is not None and known.made["group"] not in view.cgroups:
            self.unprepare(view.allocation, view.generation, state_dir)
        return str(self._limit_groups(view, state_dir).made["problem"])

    def _limit_groups(self, view: AllocationView, state_dir: Path) -> LayerNote:
        if reason := self.explain_absence(view):
            raise RequestRejection(
                f"{self.name} adds nothing to allocation {view.allocation}: {reason}"
            )
        book = LayerNoteBook(state_dir, self.name)
        group = choose_group(view.cgroups)
        assert group is not None  # a job without cgroups was refused above
        limiter = self._open_limiter(view.machine)
        limits = {one.device.uuid: compute_hard_bytes(one, state_dir) for one in view.granted}
        made = {
            "group": str(group),
            "machine": None if view.machine is None else str(view.machine),
            "limits": limits,
            "problem": "",
        }
        before = _read_before(limiter, group, limits)
        # The note comes first: after a kill here the next agent knows what to finish or undo.
        note = book.begin_preparing(
            LayerNote(view.allocation, view.generation, before=before, made=made)
        )
        return self._finish_note(book, note, _make_limits(limiter, group, limits))

    def _finish_note(self, book: LayerNoteBook, note: LayerNote, problem: str) -> LayerNote:
        made = {**note.made, "problem": problem}
        return book.write_note(replace(note, step=PreparationStep.PREPARED, made=made))

    def is_recorded(self, allocation: str, state_dir: Path) -> bool:
        return LayerNoteBook(state_dir, self.name).has_note(allocation)

    def resize(self, view: AllocationView, state_dir: Path) -> None:
        """Set other limits. What is allocated beyond a smaller one stays until it is freed.

        Nothing more is allocated meanwhile. Raises StaleGeneration where a younger generation is
        on record.
        """
        book = LayerNoteBook(state_dir, self.name)
        known = book.find_note(view.allocation)
        if known is None:
            return
        limits = {one.device.uuid: compute_hard_bytes(one, state_dir) for one in view.granted}
        made = {**known.made, "limits": limits, "problem": ""}
        note = book.begin_preparing(LayerNote(view.allocation, view.generation, made=made))
        limiter = self._open_limiter(_find_machine(note))
        problem = _apply_limits(limiter, Path(str(made["group"])), limits)
        self._finish_note(book, note, problem)

    def unprepare(self, allocation: str, generation: int, state_dir: Path) -> None:
        book = LayerNoteBook(state_dir, self.name)
        note = book.begin_releasing(allocation, generation)
        if note is None:
            return
        group = Path(note.made["group"])
        if not _has_other_note(book, note):
            _restore_limits(self._open_limiter(_find_machine(note)), group, note)
            if not note.before["existed"]:
                remove_group(group)
        book.remove_note(allocation)

    def read_enforcement(
        self, allocation: str, levels: EnforcementLevels, state_dir: Path
    ) -> EnforcementLevels:
        note = LayerNoteBook(state_dir, self.name).find_note(allocation)
        return levels if note is None else _raise_memory(levels, note)

    def explain_level(self, allocation: str, state_dir: Path) -> str:
        """Return what the limits hold of an allocation, for people; empty where it has none."""
        note = LayerNoteBook(state_dir, self.name).find_note(allocation)
        return "" if note is None else _describe_level(note)

    def read_used(self, allocation: str, state_dir: Path) -> Mapping[str, int]:
        """Return the bytes that the driver counts for an allocation, by card.

        Managed memory is not counted. Cards that the driver does not answer for are left out, and
        all of them without limits in force.
        """
        note = LayerNoteBook(state_dir, self.name).find_note(allocation)
        if note is None or note.step is not PreparationStep.PREPARED:
            return {}
        limiter = self._open_limiter(_find_machine(note))
        used = {}
        try:
            for uuid in note.made["limits"]:
                limit = limiter.read_limit(uuid, Path(note.made["group"]))
                if limit is not None:
                    used[uuid] = limit.used_bytes
        except ProbeSuspended:
            # A step needs the driver closed: what it counts is unknown for that long.
            return {}
        return used

    def observe(self, state_dir: Path) -> Mapping[str, ObservedAllocation]:
        """Return each allocation with limits, and whether they are still in force."""
        observed = {}
        for note in LayerNoteBook(state_dir, self.name).iterate_notes():
            problem = ""
            if note.step is PreparationStep.PREPARED:
                problem = str(note.made["problem"]) or self._find_problem(note)
            observed[note.allocation] = ObservedAllocation(
                note.allocation, note.generation, note.step, problem
            )
        return observed

    def _find_problem(self, note: LayerNote) -> str:
        limiter = self._open_limiter(_find_machine(note))
        return _find_difference(limiter, Path(note.made["group"]), note.made["limits"])


def compute_hard_bytes(grant: GrantedDevice, state_dir: Path) -> int:
    """Return the hard limit of one card's part: the share and one context, and not above the card.

    The driver refuses limits above the card's memory (nvml.h).
    """
    known = find_calibration(grant.device, state_dir)
    context = known.context_bytes if grant.context_bytes is None else grant.context_bytes
    return min(grant.memory_bytes + context, grant.device.memory_bytes)


def _find_machine(note: LayerNote) -> Path | None:
    machine = note.made["machine"]
    return None if machine is None else Path(machine)


def _read_before(limiter: MemoryLimiter, group: Path, limits: Mapping[str, int]) -> dict[str, Any]:
    """Read what is there before the first change: the cgroup, and limits that it has already."""
    before: dict[str, list[int]] = {}
    for uuid in limits:
        limit = limiter.read_limit(uuid, group) if group.is_dir() else None
        if limit is not None and (limit.soft_bytes, limit.hard_bytes) != (0, NO_LIMIT):
            before[uuid] = [limit.soft_bytes, limit.hard_bytes]
    return {"existed": group.is_dir(), "limits": before}


def _make_limits(limiter: MemoryLimiter, group: Path, limits: Mapping[str, int]) -> str:
    """Make the job's cgroup and its limits; return what is not in force, empty when all are."""
    try:
        make_group(group)
    except OSError as error:
        return f"its cgroup {group} cannot be made: {error.strerror}"
    return _apply_limits(limiter, group, limits)


def _apply_limits(limiter: MemoryLimiter, group: Path, limits: Mapping[str, int]) -> str:
    """Set every card's limit and read it back; return what is not in force, empty when all are."""
    for uuid, hard_bytes in limits.items():
        problem = limiter.set_limit(uuid, group, MemoryLimit(0, hard_bytes))
        if problem:
            return problem
    return _find_difference(limiter, group, limits)


def _find_difference(limiter: MemoryLimiter, group: Path, limits: Mapping[str, int]) -> str:
    for uuid, hard_bytes in limits.items():
        limit = limiter.read_limit(uuid, group)
        if limit is None:
            return f"the memory limit on card {uuid} cannot be read"
        # A driver may round down to its pages; a limit above what was wanted holds less.
        if limit.hard_bytes > hard_bytes:
            wanted = format_mib(hard_bytes)
            return f"the memory limit on card {uuid} is {_format_limit(limit)}, not {wanted}"
    return ""


def _format_limit(limit: MemoryLimit) -> str:
    return "none" if limit.hard_bytes == NO_LIMIT else format_mib(limit.hard_bytes)


def _restore_limits(limiter: MemoryLimiter, group: Path, note: LayerNote) -> None:
    """Put back the limits from before. The supervisor has mostly removed the cgroup by now."""
    for uuid in note.made["limits"]:
        limit = note.before["limits"].get(uuid)
        if limit is not None and group.is_dir():
            problem = limiter.set_limit(uuid, group, MemoryLimit(*limit))
        else:
            problem = limiter.clear_limit(uuid, group)
        if problem:
            # It holds a cgroup that no other job gets, so the card can be given on.
            log.warning("allocation %s: its memory limit stays: %s", note.allocation, problem)


def _has_other_note(book: LayerNoteBook, note: LayerNote) -> bool:
    """Whether a later allocation of the same job has its limits on the same cgroup."""
    for other in book.iterate_notes():
        same = other.made["group"] == note.made["group"]
        if same and other.allocation != note.allocation:
            return True
    return False


def _raise_memory(levels: EnforcementLevels, note: LayerNote) -> EnforcementLevels:
    in_force = note.step is PreparationStep.PREPARED and not note.made["problem"]
    return replace(levels, memory=FenceLevel.HARD) if in_force else levels


def _describe_level(note: LayerNote) -> str:
    if note.made["problem"]:
        return f"memory is not held by the driver: {note.made['problem']}"
    driver = "the driver" if note.made["machine"] is None else "SIMULATED: the simulated driver"
    return f"memory: hard, {driver} holds it by cgroup (not managed memory)"
