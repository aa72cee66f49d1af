"""Base of the switches of a card's mode that are made of operations.

The note `<state>/modes/<uuid>.json` has what to do to leave the mode, and describes the card: while it
is in the mode, the host's driver does not see it, and no probe finds it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gpupool.base.durable import make_directory_durably, write_durably
from gpupool.base.errors import RequestRejection, WrongState
from gpupool.mechanisms.contract import NotYet
from gpupool.mechanisms.pci.operations import Operation, describe_operation
from gpupool.mechanisms.pci.requests import find_access_problem, read_address
from gpupool.mechanisms.pci.steps import PlanRunner
from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.model.device import CardMode, Device

#: Labels of a card that say what may be done with it: modes that a claim may switch it to, how many
#: virtual functions it gets, whether its virtual GPUs may have several sizes.
CARD_LABELS = ("switchable", "virtual-functions", "vgpu-sizes")
#: What these labels begin with where they are a node's.
PREFIX = "gpupool.dev/"
_NO_LABELS: Mapping[str, str] = MappingProxyType({})
#: Version of the note's format.
VERSION = 1


@dataclass(frozen=True)
class SwitchRecord:
    """A card that is in a mode, or on the way into or out of it.

    Attributes:
        step: `entering`, `entered`, `leaving`, or `failing` while a failed entry is undone.
        leave: operations that make the card plain again.
        reason: why the entry failed.
    """

    uuid: str
    mode: CardMode
    step: str
    address: str
    enter: tuple[Operation, ...]
    leave: tuple[Operation, ...]
    card: Mapping[str, Any]
    reason: str = ""

    @property
    def shown_mode(self) -> CardMode:
        """The mode as others see it: plain until the card has entered."""
        return CardMode.PLAIN if self.step in ("entering", "failing") else self.mode


class OperationSwitch:
    """Base; a switch adds `mode`, `find_problem` and `make_plan`."""

    mode = CardMode.PLAIN

    def __init__(self, root: Path = Path("/"), runner: PlanRunner | None = None) -> None:
        self.tree = PciTree(root)
        self.runner = runner or PlanRunner()

    def find_problem(self, device: Device) -> str:
        """Return why a plain card cannot be switched, for people; empty when it can."""
        raise NotImplementedError

    def explain_block(self, device: Device) -> str:
        """Return why the switch is not possible now, for people; empty when it is."""
        return find_access_problem(self.tree) or self.find_problem(device)

    def make_plan(
        self, device: Device, folder: Path
    ) -> tuple[tuple[Operation, ...], tuple[Operation, ...]]:
        """Return the operations to enter and to leave. Changes nothing."""
        raise NotImplementedError

    def list_steps(self, device: Device) -> tuple[str, ...]:
        problem = self.explain_block(device)
        if problem:
            return (f"not possible: {problem}",)
        enter, _ = self.make_plan(device, Path("/nonexistent"))
        return tuple(describe_operation(one) for one in enter)

    def enter(self, device: Device, state_dir: Path) -> NotYet | None:
        record = read_record(device.uuid, state_dir)
        if record is None:
            problem = self.explain_block(device)
            if problem:
                raise RequestRejection(f"{device.uuid} cannot go to mode {self.mode}: {problem}")
            record = self._write_plan(device, state_dir)
        if record.mode is not self.mode or record.step == "leaving":
            raise RequestRejection(
                f"{device.uuid} is {record.step} mode {record.mode}",
                hint=f"gpupool mode {device.uuid} plain",
            )
        if record.step == "entered":
            return None
        if record.step == "failing":
            return self._undo_entry(record, state_dir)
        folder = locate_work(device.uuid, state_dir)
        reason = f"{device.uuid} goes to mode {self.mode}"
        result = self.runner.run_plan(self.tree.root, folder, "enter", record.enter, reason)
        if isinstance(result, NotYet):
            return result
        if result.exit_code:
            record = replace(record, reason=result.output.strip())
            _write_step(record, "failing", state_dir)
            return self._undo_entry(record, state_dir)
        _write_step(record, "entered", state_dir)
        return None

    def leave(self, device: Device, state_dir: Path) -> NotYet | None:
        record = read_record(device.uuid, state_dir)
        if record is None:
            # An agent that was killed before its first record has left its directory.
            _remove_files(device.uuid, state_dir)
            return None
        if record.mode is not self.mode:
            raise RequestRejection(f"{device.uuid} is in mode {record.mode}, not {self.mode}")
        if record.step != "leaving":
            _write_step(record, "leaving", state_dir)
        return self._run_leave(record, state_dir)

    def _undo_entry(self, record: SwitchRecord, state_dir: Path) -> NotYet:
        answer = self._run_leave(record, state_dir)
        if answer is not None:
            return answer
        raise WrongState(
            f"{record.uuid} did not reach mode {self.mode} and is plain again: {record.reason}"
        )

    def _run_leave(self, record: SwitchRecord, state_dir: Path) -> NotYet | None:
        folder = locate_work(record.uuid, state_dir)
        # An agent that was killed at the end of a leave has removed it already.
        make_directory_durably(folder, mode=0o700)
        if not self.runner.withdraw_plan(folder, "enter"):
            return NotYet(f"{record.uuid} still goes to mode {self.mode}", 0.5)
        reason = f"{record.uuid} returns to mode plain"
        result = self.runner.run_plan(self.tree.root, folder, "leave", record.leave, reason)
        if isinstance(result, NotYet):
            return result
        if result.exit_code:
            raise WrongState(f"{record.uuid} was not put back: {result.output.strip()}")
        _remove_files(record.uuid, state_dir)
        return None

    def _write_plan(self, device: Device, state_dir: Path) -> SwitchRecord:
        folder = locate_work(device.uuid, state_dir)
        make_directory_durably(folder, mode=0o700)
        enter, leave = self.make_plan(device, folder)
        card = {
            "vendor": device.vendor,
            "product": device.product,
            "model": device.model,
            "memory_bytes": device.memory_bytes,
            "index": device.index,
            "numa_node": device.numa_node,
            "labels": dict(device.labels),
        }
        address = read_address(device)
        record = SwitchRecord(device.uuid, self.mode, "entering", address, enter, leave, card)
        _write_step(record, "entering", state_dir)
        return record


def read_record(uuid: str, state_dir: Path) -> SwitchRecord | None:
    """Return the record of a card, None where the card is plain.

    Raises:
        WrongState: a switch of another kind has the card.
    """
    try:
        document = json.loads(_locate_record(uuid, state_dir).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    if "enter" not in document:
        raise WrongState(f"{uuid} is set up by a switch of another kind")
    return SwitchRecord(
        document["uuid"],
        CardMode(document["mode"]),
        document["step"],
        document["address"],
        tuple(document["enter"]),
        tuple(document["leave"]),
        document["card"],
        document["reason"],
    )


def iterate_records(state_dir: Path) -> Iterator[SwitchRecord]:
    """Yield the record of each card that these switches have changed, by uuid."""
    folder = state_dir / "modes"
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        try:
            record = read_record(path.stem, state_dir)
        except WrongState:
            continue
        if record is not None:
            yield record


def mark_modes(
    devices: Iterable[Device], state_dir: Path, labels: Mapping[str, str] = _NO_LABELS
) -> tuple[Device, ...]:
    """Return the cards of a node with their modes, as these switches have set them.

    A card that its driver no longer shows is described from its record. One that is still entering
    counts as plain, so that the entry is continued.

    Args:
        devices: what the probes found.
        labels: of the node; those for cards (`CARD_LABELS`) become labels of each card that has none
            of that name itself.
    """
    own = {}
    for name in CARD_LABELS:
        if PREFIX + name in labels:
            own[name] = labels[PREFIX + name]
    records = {}
    for record in iterate_records(state_dir):
        records[record.uuid] = record
    marked = []
    for one in devices:
        device = replace(one, labels={**own, **one.labels})
        found = records.pop(device.uuid, None)
        marked.append(device if found is None else replace(device, mode=found.shown_mode))
    absent = []
    for record in records.values():
        mode = record.shown_mode
        absent.append(Device(record.uuid, pci_address=record.address, mode=mode, **record.card))
    if absent:
        marked = _restore_indexes(marked, absent)
    return tuple(sorted(marked, key=lambda device: device.index))


def _restore_indexes(shown: Iterable[Device], absent: Iterable[Device]) -> list[Device]:
    """Return all cards with the indexes that they have while the driver shows each of them.

    A driver counts the cards that it has, so those behind an absent one move up. The index is part
    of a card's name in the pool.
    """
    placed = dict[int, Device]()
    for device in sorted(absent, key=lambda one: one.index):
        index = _find_free(placed, device.index)
        placed[index] = replace(device, index=index)
    for device in sorted(shown, key=lambda one: one.index):
        index = _find_free(placed, 0)
        placed[index] = replace(device, index=index)
    return list(placed.values())


def _find_free(placed: Mapping[int, Device], first: int) -> int:
    """Return the first index from this one on that no card has."""
    while first in placed:
        first += 1
    return first


def locate_work(uuid: str, state_dir: Path) -> Path:
    """Return the directory of a switch's processes."""
    return _locate_record(uuid, state_dir).with_suffix(".work")


def _locate_record(uuid: str, state_dir: Path) -> Path:
    if not uuid or uuid.startswith(".") or "/" in uuid or "\0" in uuid:
        raise ValueError(f"not a uuid of a card: {uuid!r}")
    return state_dir / "modes" / f"{uuid}.json"


def _remove_files(uuid: str, state_dir: Path) -> None:
    """Remove what a switch has of a card, its record last. Idempotent."""
    record = _locate_record(uuid, state_dir)
    folder = locate_work(uuid, state_dir)
    if folder.is_dir():
        shutil.rmtree(folder)
    for path in (record.with_name(f"{record.name}.new"), record):
        path.unlink(missing_ok=True)


def _write_step(record: SwitchRecord, step: str, state_dir: Path) -> None:
    document = {
        "version": VERSION,
        "uuid": record.uuid,
        "mode": record.mode,
        "step": step,
        "address": record.address,
        "enter": [dict(one) for one in record.enter],
        "leave": [dict(one) for one in record.leave],
        "card": dict(record.card),
        "reason": record.reason,
    }
    data = json.dumps(document, sort_keys=True, indent=1).encode()
    write_durably(_locate_record(record.uuid, state_dir), data, mode=0o600)
