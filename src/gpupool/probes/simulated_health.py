"""Makes simulated cards fail and heal: by the control file, and in the machine file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from gpupool.base.errors import BadMachine
from gpupool.model.device import DeviceHealth
from gpupool.probes.preset_files import load_json
from gpupool.probes.simgpu import LOST_XID, SimulatedMachine

CONTROL_FILE = "health.json"
#: A card's health, the reason and the XID; of the control file or of the machine file.
ReachedHealth = tuple[DeviceHealth, str, int | None]


def set_health(
    control_dir: Path,
    card: str | int,
    health: DeviceHealth,
    reason: str = "",
    xid: int | None = None,
) -> None:
    """Set the health of a simulated card from now on. Atomic; other cards keep theirs."""
    path = control_dir / CONTROL_FILE
    entries = load_json(path) if path.exists() else {}
    entries[str(card)] = {"health": str(health), "reason": reason, "xid": xid}
    # Replaced by rename: the probe may read at any moment.
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(entries), encoding="utf-8")
    os.replace(temporary, path)


def parse_state(entry: object) -> ReachedHealth:
    if not isinstance(entry, dict) or entry.get("health") not in list(DeviceHealth):
        raise BadMachine(f"{CONTROL_FILE}: {entry!r} has no health among {', '.join(DeviceHealth)}")
    xid = entry.get("xid")
    reason = str(entry.get("reason") or "") + (f" (XID {xid})" if xid is not None else "")
    return DeviceHealth(entry["health"]), reason.strip(), xid


def apply_health(machine: SimulatedMachine, news: Mapping[str, ReachedHealth]) -> None:
    """Make the machine's cards fail or heal as the control file newly says."""
    # What a card is already is left alone: a second injection would be a second event.
    for card in machine.cards:
        health, _, xid = news.get(card.uuid, (DeviceHealth.UNKNOWN, "", None))
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
        if (lost or refuses) and known is not None and known[0] is not DeviceHealth.FAILED:
            what = "fell off the bus" if lost else "needs a reset"
            found[card.uuid] = (DeviceHealth.FAILED, what + (f" (XID {xid})" if xid else ""), xid)
    return found
