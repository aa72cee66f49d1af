"""What a node's registration changes: compared first, as values, then written by the service.

Pure: knows rows as they were read and the shape that came over the wire, writes nothing. A card is known by
its uuid; its index, its facts and even its node may change, its size only while no allocation holds a part of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpupool.base.errors import Conflict, InvalidBody, StillInUse
from gpupool.base.units import format_mib
from gpupool.model.device import DeviceState
from gpupool.wire.fleet import DeviceIn, NodeIn

BEFORE_LOST = "state_before_lost"
"""Key in a lost card's facts: the state it returns to."""
_COMPARED = ("idx", "model", "product", "memory_bytes", "simulated", "state", "health", "health_reason", "facts")


@dataclass(frozen=True)
class Changes:
    """New cards as rows to insert; known ones as the values of their row that change."""

    new: tuple[dict[str, Any], ...] = ()
    changed: Mapping[int, dict[str, Any]] = field(default_factory=dict)
    """By the row's id."""
    lost: tuple[int, ...] = ()
    returned: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.new or self.changed)


def check_body(body: NodeIn) -> None:
    """Refuse what no machine can be: two cards with one uuid or index, a mixture of real and simulated."""
    for what, values in (("uuid", [d.uuid for d in body.devices]), ("index", [d.index for d in body.devices])):
        twice = [value for value, times in Counter(values).items() if times > 1]
        if twice:
            raise InvalidBody(f"two cards of the node have the {what} {twice[0]!r}", hint=f"every {what} is unique")
    texts = [t for d in body.devices for t in (d.uuid, d.vendor, d.product, d.model, d.health_reason)]
    texts += [t for pair in body.labels.items() for t in pair]
    bad = next((text for text in texts if not text.isprintable()), None)
    if bad is not None:
        raise InvalidBody(f"{bad[:80]!r} has characters that cannot be printed", hint="send printable text")
    if any(device.simulated != body.simulated for device in body.devices):
        raise InvalidBody(
            f"the node says simulated={body.simulated}, one of its cards says otherwise",
            hint="a node's cards are all real or all simulated",
        )


def compare(node_id: int, known: Sequence[Any], strangers: Iterable[Any], body: NodeIn) -> Changes:
    """What `body` says against `known` (rows of this node) and `strangers` (named uuids, other nodes' rows).

    Raises Conflict for a card that another node has, StillInUse for one whose size changed under its shares.
    """
    moved = [_movable(row) for row in strangers]
    rows = {row.uuid: row for row in (*known, *moved)}
    seen = {device.uuid: device for device in body.devices}
    values = {row.id: _values(row, node_id, seen.get(row.uuid)) for row in rows.values()}
    _displace(rows, values, seen)
    changed = {row.id: _differing(row, values[row.id]) for row in rows.values()}
    return Changes(
        new=tuple(_new(node_id, d, body.adopt) for d in body.devices if d.uuid not in rows),
        changed={row_id: found for row_id, found in changed.items() if found},
        lost=tuple(row.id for row in known if row.uuid not in seen and row.state != DeviceState.LOST),
        returned=tuple(row.id for row in rows.values() if row.uuid in seen and row.state == DeviceState.LOST),
    )


def public_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """A card's facts without what the service noted there for itself."""
    return {key: value for key, value in facts.items() if key != BEFORE_LOST}


def _movable(row: Any) -> Any:
    if row.state == DeviceState.LOST and not row.shares:
        return row
    raise Conflict(
        f"card {row.uuid} belongs to another node, where it is {row.state} with {row.shares} shares",
        hint="a card moves to another node once its old node no longer shows it and no job holds it",
        uuid=row.uuid,
    )


def _new(node_id: int, device: DeviceIn, adopt: bool) -> dict[str, Any]:
    adopted = adopt and device.simulated
    return {
        "uuid": device.uuid,
        "node_id": node_id,
        "state": str(DeviceState.ADOPTED if adopted else DeviceState.OBSERVED),
        **_seen_values(device),
    }


def _seen_values(device: DeviceIn) -> dict[str, Any]:
    return {
        "idx": device.index,
        "model": device.model,
        "product": device.product,
        "memory_bytes": device.memory_bytes,
        "simulated": device.simulated,
        "health": device.health,
        "health_reason": device.health_reason,
        "facts": {**device.facts, "vendor": device.vendor},
    }


def _values(row: Any, node_id: int, device: DeviceIn | None) -> dict[str, Any]:
    """What a known card's row should say."""
    if device is None:
        before = row.facts if row.state == DeviceState.LOST else {**row.facts, BEFORE_LOST: row.state}
        return {"node_id": row.node_id, "idx": row.idx, "state": str(DeviceState.LOST), "facts": before}
    if row.shares and (row.model, row.memory_bytes) != (device.model, device.memory_bytes):
        raise StillInUse(
            f"card {row.uuid} was {row.model} with {format_mib(row.memory_bytes)} and is now {device.model} with "
            f"{format_mib(device.memory_bytes)}, while {row.shares} shares are on it",
            hint=f"stop its jobs first: gpupool release {row.uuid} --drain",
            uuid=row.uuid,
            shares=row.shares,
        )
    if row.shares and (before := _mode(row.facts)) != (now := _mode(device.facts)):
        raise StillInUse(
            f"card {row.uuid} {_said_mode(before)} and now {_said_mode(now)}, while {row.shares} shares are on it",
            hint=f"stop its jobs first: gpupool release {row.uuid} --drain",
            uuid=row.uuid,
            shares=row.shares,
        )
    state = row.facts.get(BEFORE_LOST, DeviceState.OBSERVED) if row.state == DeviceState.LOST else row.state
    return {"node_id": node_id, "state": str(state), **_seen_values(device)}


def _mode(facts: Mapping[str, Any]) -> Any:
    """What a card in partition mode can be cut into; None for any other card."""
    return facts.get("profiles", []) if facts.get("partitioned") else None


def _said_mode(mode: Any) -> str:
    if mode is None:
        return "takes shares"
    return f"is in partition mode ({', '.join(one['name'] for one in mode) or 'no profiles'})"


def _displace(rows: Mapping[str, Any], values: dict[int, dict[str, Any]], seen: Mapping[str, DeviceIn]) -> None:
    """A vanished card gives way when a present one has its index: it goes behind all others."""
    taken = {device.index for device in seen.values()}
    behind = max([*taken, *(row.idx for row in rows.values())], default=-1) + 1
    for row in rows.values():
        if row.uuid not in seen and row.idx in taken:
            values[row.id]["idx"] = behind
            behind += 1


def _differing(row: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    names = ("node_id", *_COMPARED)
    return {name: values[name] for name in names if name in values and getattr(row, name) != values[name]}
