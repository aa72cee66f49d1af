"""What a node's registration changes: compared first, as values, then written by the service.

Pure: knows rows as they were read and the shape that came over the wire, writes nothing. A card is
known by its uuid; its index, its facts and even its node may change, its size only while no
allocation holds a part of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpupool.base.errors import InvalidBody, StillInUse, WriteConflict
from gpupool.base.units import format_mib
from gpupool.model.device import DeviceState
from gpupool.wire.fleet import DeviceIn, NodeIn

#: Key in a lost card's facts: the state it returns to.
BEFORE_LOST = "state_before_lost"
_COMPARED = (
    "idx",
    "model",
    "product",
    "memory_bytes",
    "simulated",
    "state",
    "health",
    "health_reason",
    "facts",
)


@dataclass(frozen=True)
class RegistrationChanges:
    """New cards as rows to insert; known ones as the values of their row that change."""

    new: tuple[dict[str, Any], ...] = ()
    #: By the row's id.
    changed: Mapping[int, dict[str, Any]] = field(default_factory=dict)
    lost: tuple[int, ...] = ()
    returned: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.new or self.changed)


def check_body(body: NodeIn) -> None:
    """Refuse what no machine can be.

    Two cards with one uuid or index, a mixture of real and simulated, text that cannot be printed.
    """
    for what in ("uuid", "index"):
        values = Counter(getattr(device, what) for device in body.devices)
        for value, times in values.items():
            if times > 1:
                raise InvalidBody(
                    f"two cards of the node have the {what} {value!r}",
                    hint=f"every {what} is unique",
                )
    for device in body.devices:
        _check_texts(device.uuid, device.vendor, device.product, device.model, device.health_reason)
    for key, value in body.labels.items():
        _check_texts(key, value)
    for device in body.devices:
        if device.simulated != body.simulated:
            raise InvalidBody(
                f"the node says simulated={body.simulated}, one of its cards says otherwise",
                hint="a node's cards are all real or all simulated",
            )


def _check_texts(*texts: str) -> None:
    """Raise InvalidBody for text that would move a terminal's cursor where it is shown."""
    for text in texts:
        if not text.isprintable():
            raise InvalidBody(
                f"{text[:80]!r} has characters that cannot be printed", hint="send printable text"
            )


def compare_devices(
    node_id: int, known: Sequence[Any], strangers: Iterable[Any], body: NodeIn
) -> RegistrationChanges:
    """Compare what `body` says with the rows that are known.

    Args:
        known: Rows of this node.
        strangers: Rows of other nodes with a uuid that `body` names.

    Raises:
        WriteConflict: A card belongs to another node.
        StillInUse: A card's size changed under its shares.
    """
    seen = {device.uuid: device for device in body.devices}
    rows: dict[str, Any] = {}
    values: dict[int, dict[str, Any]] = {}
    lost = []
    returned = []
    for row in (*known, *map(_check_movable, strangers)):
        rows[row.uuid] = row
        values[row.id] = _known_values(row, node_id, seen.get(row.uuid))
        was_lost = row.state == DeviceState.LOST
        if row.uuid in seen and was_lost:
            returned.append(row.id)
        elif row.uuid not in seen and not was_lost:
            lost.append(row.id)
    _displace_vanished(rows, values, seen)
    changed = {}
    for row in rows.values():
        differing = _find_differing(row, values[row.id])
        if differing:
            changed[row.id] = differing
    new = []
    for device in body.devices:
        if device.uuid not in rows:
            new.append(_new_values(node_id, device, body.adopt))
    return RegistrationChanges(tuple(new), changed, tuple(lost), tuple(returned))


def public_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a card's facts without what the service noted there for itself."""
    return {key: value for key, value in facts.items() if key != BEFORE_LOST}


def _check_movable(row: Any) -> Any:
    if row.state == DeviceState.LOST and not row.shares:
        return row
    raise WriteConflict(
        f"card {row.uuid} belongs to another node, where it is {row.state} with {row.shares} "
        "shares",
        hint="a card moves to another node once its old node no longer shows it and no job holds "
        "it",
        uuid=row.uuid,
    )


def _new_values(node_id: int, device: DeviceIn, adopt: bool) -> dict[str, Any]:
    # Real cards start observed whatever the agent says: an admin decides to hand them out.
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


def _known_values(row: Any, node_id: int, device: DeviceIn | None) -> dict[str, Any]:
    """Return what a known card's row should say."""
    if device is None:
        before = (
            row.facts if row.state == DeviceState.LOST else {**row.facts, BEFORE_LOST: row.state}
        )
        return {
            "node_id": row.node_id,
            "idx": row.idx,
            "state": str(DeviceState.LOST),
            "facts": before,
        }
    if row.shares and (row.model, row.memory_bytes) != (device.model, device.memory_bytes):
        raise StillInUse(
            f"card {row.uuid} was {row.model} with {format_mib(row.memory_bytes)} and is now "
            f"{device.model} with "
            f"{format_mib(device.memory_bytes)}, while {row.shares} shares are on it",
            hint=f"stop its jobs first: gpupool release {row.uuid} --drain",
            uuid=row.uuid,
            shares=row.shares,
        )
    if row.shares and (before := _read_mode(row.facts)) != (now := _read_mode(device.facts)):
        raise StillInUse(
            f"card {row.uuid} {_describe_mode(before)} and now {_describe_mode(now)},"
            f" while {row.shares} shares are on it",
            hint=f"stop its jobs first: gpupool release {row.uuid} --drain",
            uuid=row.uuid,
            shares=row.shares,
        )
    state = (
        row.facts.get(BEFORE_LOST, DeviceState.OBSERVED)
        if row.state == DeviceState.LOST
        else row.state
    )
    return {"node_id": node_id, "state": str(state), **_seen_values(device)}


def _read_mode(facts: Mapping[str, Any]) -> Any:
    """Return what a card in partition mode can be cut into; None for any other card."""
    return facts.get("profiles", []) if facts.get("partitioned") else None


def _describe_mode(mode: Any) -> str:
    if mode is None:
        return "takes shares"
    return f"is in partition mode ({', '.join(one['name'] for one in mode) or 'no profiles'})"


def _displace_vanished(
    rows: Mapping[str, Any], values: dict[int, dict[str, Any]], seen: Mapping[str, DeviceIn]
) -> None:
    """Let a vanished card give way when a present one has its index: it goes behind all others."""
    taken = {device.index for device in seen.values()}
    behind = max([*taken, *(row.idx for row in rows.values())], default=-1) + 1
    for row in rows.values():
        if row.uuid not in seen and row.idx in taken:
            values[row.id]["idx"] = behind
            behind += 1


def _find_differing(row: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    differing = {}
    for name in ("node_id", *_COMPARED):
        if name in values and getattr(row, name) != values[name]:
            differing[name] = values[name]
    return differing
