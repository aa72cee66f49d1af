"""Compares wanted objects of Kube-OVN with those that are there. Pure.

Only fields that gpupool names are compared: Kube-OVN adds its own to the same objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from gpupool.base.errors import BadOption, GpupoolError, WrongState
from gpupool.kubernetes.networks.kube_ovn import (
    KIND_BY_NAME,
    KINDS,
    OWNER,
    Json,
    Key,
    find_owner,
    key_of,
)

_ORDER = {kind.name: number for number, kind in enumerate(KINDS)}


@dataclass(frozen=True)
class ObjectChanges:
    """What to write.

    Attributes:
        applied: in the order of creation.
        deleted: in the order of deletion.
    """

    applied: tuple[Json, ...]
    deleted: tuple[Json, ...]


def plan_changes(
    wanted: Mapping[str, Iterable[Json]],
    live: Mapping[Key, Json],
    unchanged: Iterable[str],
) -> ObjectChanges:
    """Return what brings the cluster to the wanted objects.

    Args:
        wanted: by Tenant, its objects.
        live: every object of these kinds, others' too. Those are never changed.
        unchanged: Tenants whose objects stay as they are.
    """
    applied = []
    keys = set()
    for objects in wanted.values():
        for one in objects:
            keys.add(key_of(one))
            if not _is_in_force(one, live.get(key_of(one))):
                applied.append(one)
    deleted = []
    skipped = set(unchanged)
    for key, found in live.items():
        owner = find_owner(found)
        is_dropped = owner is not None and owner not in skipped and key not in keys
        if is_dropped and not found["metadata"].get("deletionTimestamp"):
            deleted.append(found)
    applied.sort(key=lambda one: _ORDER[one["kind"]])
    deleted.sort(key=lambda one: -_ORDER[one["kind"]])
    return ObjectChanges(tuple(applied), tuple(deleted))


def find_conflict(objects: Iterable[Json], live: Mapping[Key, Json]) -> GpupoolError | None:
    """Return why these objects cannot be written beside those that are there; None if they can."""
    for one in objects:
        found = live.get(key_of(one))
        if found is None:
            continue
        name = one["metadata"]["name"]
        if find_owner(found) != find_owner(one):
            return WrongState(
                f"{one['kind']} {name} exists and is not of this Tenant",
                hint=f"delete it, or label it {OWNER}={find_owner(one)} to hand it over",
            )
        for field in KIND_BY_NAME[one["kind"]].fixed:
            before = found.get("spec", {}).get(field)
            now = one["spec"].get(field)
            if now is not None and before is not None and now != before:
                return BadOption(
                    f"{one['kind']} {name} has {field} {before}, which Kube-OVN cannot change"
                    f" to {now}",
                    hint="give the new part another name",
                )
    return None


def _is_in_force(wanted: Json, found: Json | None) -> bool:
    if found is None:
        return False
    meta = found["metadata"]
    owners = {one["uid"] for one in meta.get("ownerReferences") or ()}
    is_owned = all(one["uid"] in owners for one in wanted["metadata"]["ownerReferences"])
    return is_owned and contains(wanted["spec"], found.get("spec") or {})


def contains(wanted: Any, found: Any, field: str = "") -> bool:
    """Return whether what is there has every wanted value. Absent and empty are the same."""
    if isinstance(wanted, Mapping):
        there = found if isinstance(found, Mapping) else {}
        return all(contains(part, there.get(name), name) for name, part in wanted.items())
    if isinstance(wanted, list):
        there_list = found or []
        if field == "excludeIps":
            return _covers(wanted, there_list)
        if len(wanted) != len(there_list):
            return False
        pairs = zip(wanted, there_list, strict=True)
        return all(contains(part, other) for part, other in pairs)
    return bool(wanted == found) or (not wanted and not found)


def _covers(wanted: Iterable[str], found: Iterable[str]) -> bool:
    """Kube-OVN joins excluded addresses to ranges, `10.1.0.1..10.1.0.9`, and adds its own."""
    ranges = []
    for text in found:
        first, _, last = text.partition("..")
        ranges.append((IPv4Address(first), IPv4Address(last or first)))
    for text in wanted:
        address = IPv4Address(text)
        if not any(first <= address <= last for first, last in ranges):
            return False
    return True
