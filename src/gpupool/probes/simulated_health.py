"""Makes simulated cards fail and heal: by the control file, and in the machine file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gpupool.base.errors import BadMachine
from gpupool.model.device import DeviceHealth
from gpupool.model.faults.actions import RecoveryAction
from gpupool.model.faults.diagnosis import judge_xid
from gpupool.probes.preset_files import load_json
from gpupool.probes.simgpu import LOST_XID, SimulatedMachine

CONTROL_FILE = "health.json"


class ReachedHealth(NamedTuple):
    """A card's health by the control file or the machine file."""

    health: DeviceHealth
    reason: str = ""
    xid: int | None = None
    recovery: RecoveryAction | None = None


def set_health(
    control_dir: Path,
    card: str | int,
    health: DeviceHealth,
    reason: str = "",
    xid: int | None = None,
    recovery: RecoveryAction | None = None,
) -> None:
    """Set the health of a simulated card from now on. Atomic; other cards keep theirs."""
    path = control_dir / CONTROL_FILE
    entries = load_json(path) if path.exists() else {}
    entries[str(card)] = {"health": str(health), "reason": reason, "xid": xid}
    if recovery is not None:
        entries[str(card)]["recovery_action"] = str(recovery)
    _write_entries(path, entries)


def report_xid(
    control_dir: Path, card: str | int, xid: int, recovery: RecoveryAction | None = None
) -> None:
    """Make a simulated card report an XID; its health follows from it. Atomic."""
    path = control_dir / CONTROL_FILE
    entries = load_json(path) if path.exists() else {}
    entries[str(card)] = {"xid": xid}
    if recovery is not None:
        entries[str(card)]["recovery_action"] = str(recovery)
    _write_entries(path, entries)


def _write_entries(path: Path, entries: Any) -> None:
    # Replaced by rename: the probe may read at any moment.
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(entries), encoding="utf-8")
    os.replace(temporary, path)


def parse_state(entry: object) -> ReachedHealth:
    """Read an entry of the control file; without a health it follows from the XID."""
    if not isinstance(entry, dict):
        raise BadMachine(f"{CONTROL_FILE}: {entry!r} is not an object")
    xid = entry.get("xid")
    recovery = _parse_recovery(entry.get("recovery_action"))
    if "health" not in entry and isinstance(xid, int):
        health, reason = judge_xid(xid, recovery)
        return ReachedHealth(health, reason, xid, recovery)
    if entry.get("health") not in list(DeviceHealth):
        raise BadMachine(f"{CONTROL_FILE}: {entry!r} has no health among {', '.join(DeviceHealth)}")
    reason = str(entry.get("reason") or "") + (f" (XID {xid})" if xid is not None else "")
    return ReachedHealth(DeviceHealth(entry["health"]), reason.strip(), xid, recovery)


def _parse_recovery(text: object) -> RecoveryAction | None:
    if text is None:
        return None
    if text not in list(RecoveryAction):
        raise BadMachine(
            f"{CONTROL_FILE}: {text!r} is no recovery action; they are {', '.join(RecoveryAction)}"
        )
    return RecoveryAction(str(text))


def apply_health(machine: SimulatedMachine, news: Mapping[str, ReachedHealth]) -> None:
    """Make the machine's cards fail or heal as the control file newly says."""
    # What a card is already is left alone: a second injection would be a second event.
    for card in machine.cards:
        health, _, xid, _ = news.get(card.uuid, ReachedHealth(DeviceHealth.UNKNOWN))
        lost, refuses, last_xid = machine.read_condition(card.uuid)
        failed = health is DeviceHealth.FAILED
        if health is DeviceHealth.OK and (lost or refuses):
            machine.heal_card(card.uuid)
        elif failed and xid == LOST_XID and not lost:
            machine.lose_card(card.uuid)
        elif xid is not None and xid not in (last_xid, LOST_XID):
            machine.inject_xid(card.uuid, xid, needs_reset=failed)
        elif failed and not (lost or refuses):
            machine.refuse_contexts(card.uuid)


def list_ill(
    machine: SimulatedMachine, state: Mapping[str, ReachedHealth]
) -> dict[str, ReachedHealth]:
    """Return cards that failed in the machine's file though the control file does not say so."""
    found = {}
    for card in machine.cards:
        lost, refuses, xid = machine.read_condition(card.uuid)
        known = state.get(card.uuid)
        if (lost or refuses) and known is not None and known.health is not DeviceHealth.FAILED:
            what = "fell off the bus" if lost else "needs a reset"
            reason = what + (f" (XID {xid})" if xid else "")
            found[card.uuid] = ReachedHealth(DeviceHealth.FAILED, reason, xid)
    return found
