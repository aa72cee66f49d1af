"""Compares wanted objects of Kube-OVN with those that are there. Pure.

Only fields that gpupool names are compared: Kube-OVN adds its own to the same objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_network
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
        deleted: of one kind for each Tenant: the last one, until none of it is left.
        has_leftovers: whether dropped objects are there, also ones that are going.
        emptied: names of subnets that are going, whose probe addresses are deleted.
    """

    applied: tuple[Json, ...]
    deleted: tuple[Json, ...]
    has_leftovers: bool = False
    emptied: tuple[str, ...] = ()


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
            is_written = _is_in_force(one, live.get(key_of(one)))
            if not is_written and not _waits_for_addresses(one, live):
                applied.append(one)
    dropped: dict[str, list[Json]] = {}
    skipped = set(unchanged)
    for key, found in live.items():
        owner = find_owner(found)
        if owner is not None and owner not in skipped and key not in keys:
            dropped.setdefault(owner, []).append(found)
    applied.sort(key=lambda one: _ORDER[one["kind"]])
    deleted = []
    emptied = []
    for objects in dropped.values():
        deleted += _choose_deleted(objects)
        for one in objects:
            if one["kind"] == "Subnet" and one["metadata"].get("deletionTimestamp"):
                emptied.append(one["metadata"]["name"])
    return ObjectChanges(tuple(applied), tuple(deleted), bool(dropped), tuple(emptied))


def _choose_deleted(dropped: list[Json]) -> list[Json]:
    """Return what is deleted now: objects of the last kind alone.

    Kube-OVN takes an object apart with the help of those that it names.
    """
    last = max(_ORDER[one["kind"]] for one in dropped)
    chosen = []
    for one in dropped:
        if _ORDER[one["kind"]] == last and not one["metadata"].get("deletionTimestamp"):
            chosen.append(one)
    return chosen


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


def _waits_for_addresses(wanted: Json, live: Mapping[Key, Json]) -> bool:
    """Return whether a new subnet has addresses that a dropped one of its VPC still has.

    Kube-OVN marks the newer of two such subnets as faulty.
    """
    if wanted["kind"] != "Subnet" or key_of(wanted) in live:
        return False
    mine = _parse_prefixes(wanted["spec"]["cidrBlock"])
    for found in live.values():
        spec = found.get("spec") or {}
        if found["kind"] != "Subnet" or spec.get("vpc") != wanted["spec"]["vpc"]:
            continue
        for other in _parse_prefixes(str(spec.get("cidrBlock") or "")):
            if any(one.overlaps(other) for one in mine):
                return True
    return False


def _parse_prefixes(block: str) -> list[IPv4Network | IPv6Network]:
    """Return the prefixes of a subnet, without text that is none: gpupool has not written it."""
    found = []
    for text in block.split(","):
        try:
            found.append(ip_network(text, strict=False))
        except ValueError:
            continue
    return found


def _is_in_force(wanted: Json, found: Json | None) -> bool:
    if found is None:
        return False
    return contains(wanted["spec"], found.get("spec") or {})


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
        try:
            ranges.append((IPv4Address(first), IPv4Address(last or first)))
        except ValueError:
            continue  # IPv6, or what somebody else has written
    for text in wanted:
        address = IPv4Address(text)
        if not any(first <= address <= last for first, last in ranges):
            return False
    return True
