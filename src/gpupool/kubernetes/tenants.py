"""`Tenant` objects: the quota tree as people write it, and what of it is in force.

A tree that does not add up is never taken in part: what was in force stays, also for a new leader, who finds it in the
objects' status. One object that cannot be read keeps its own last limits and stops nobody else. A Tenant that others
name as their parent is a cohort; what its own namespaces hold counts there beside its children. A namespace belongs to
the Tenant that lists it, else to the one of its own name. No requests here: whoever watches calls `note` and `synced`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpupool.base import quantities
from gpupool.base.errors import BadOption, GpupoolError, QuotaTreeRefused
from gpupool.kubernetes import names
from gpupool.model.quota import CELLS, GPU, MEMORY, WEIGHT, Branch, Limit, Quota, Resource, parts
from gpupool.model.quota_check import Cycle, Fault, NoParent, fault

TENANTS = f"/apis/{names.API_VERSION}/tenants"
_PARTS = ("nominal", "borrowing", "lending")

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Wish:
    """One object's spec."""

    parent: str | None = None
    namespaces: tuple[str, ...] = ()
    weight_milli: int = WEIGHT
    limits: tuple[tuple[Resource, Limit], ...] = ()

    @classmethod
    def from_json(cls, spec: Json) -> Wish:
        """Raises BadOption, BadQuantity."""
        limits: dict[Resource, Limit] = {}
        for word, one in (spec.get("limits") or {}).items():
            resource = _resource(word)
            if resource in limits:
                raise BadOption(f"{resource} is limited twice", hint="name each resource once")
            limits[resource] = _limit(resource, one)
        weight = round(spec.get("weight", 1) * WEIGHT)
        namespaces = tuple(sorted(spec.get("namespaces") or ()))
        return cls(spec.get("parent") or None, namespaces, weight, tuple(sorted(limits.items())))

    def to_json(self) -> dict[str, Any]:
        limits = {
            name: {part: text(name, value) for part in _PARTS if (value := getattr(limit, part)) is not None}
            for name, limit in self.limits
        }
        found = {"namespaces": [*self.namespaces], "weight": self.weight_milli / WEIGHT, "limits": limits}
        return {**found, "parent": self.parent} if self.parent else found

    @property
    def branch(self) -> Branch:
        return Branch(self.parent, Quota.of(dict(self.limits)), self.weight_milli)


def text(resource: Resource, size: int) -> str:
    """Such an amount as a Kubernetes quantity.

    >>> text("gpu:H200", 2500), text("memory", 8 << 30), text("node", 2)
    ('2.5', '8Gi', '2')
    """
    kind, _ = parts(resource)
    return (
        f"{size / 1000:.3f}".rstrip("0").rstrip(".") if kind == GPU else quantities.format_bytes(size) if size else "0"
    )


def _resource(word: str) -> Resource:
    kind, model = parts(word)
    if kind not in (GPU, *CELLS) and word != MEMORY:
        raise BadOption(
            f"{word[:63]!r} is nothing that is limited",
            hint="gpu and memory are; gpu:H200 is one card model, gpu:AMD one vendor, node and nvlink are whole cells",
        )
    return f"{kind}:{model.upper()}" if model else kind


def _limit(resource: Resource, spec: Json) -> Limit:
    found = {part: _size(resource, part, spec[part]) for part in _PARTS if spec.get(part) is not None}
    if found and "nominal" not in found:
        raise BadOption(f"{resource} has no nominal part to borrow over or to lend of", hint='nominal: "0"')
    return Limit(**found)


def _size(resource: Resource, part: str, typed: str | int) -> int:
    size = quantities.parse_quantity(typed)
    kind, _ = parts(resource)
    counted = size * 1000 if kind == GPU else size
    if size < 0 or counted != int(counted):
        unit = {GPU: "thousandths of a card", MEMORY: "bytes"}.get(kind, "whole cells")
        raise BadOption(f"{part} {typed} of {resource} is not counted in {unit}", hint='gpu: "2.5", memory: 80Gi')
    return int(counted)


# --- the tree ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class TenantTree:
    """What a snapshot and admission need."""

    cohorts: Mapping[str, Branch] = field(default_factory=dict)
    tenants: Mapping[str, Branch] = field(default_factory=dict)
    tenant_of: Mapping[str, str] = field(default_factory=dict)
    """By namespace; one that nobody lists belongs to the tenant of its own name."""


def tree_of(wishes: Mapping[str, Wish]) -> TenantTree:
    """The tree of these objects. Of two that list a namespace the first by name has it."""
    inner = sorted({wish.parent for wish in wishes.values() if wish.parent} & set(wishes))
    cohorts = {name: wishes[name].branch for name in inner}
    tenants = {name: Branch(name) if name in cohorts else wish.branch for name, wish in wishes.items()}
    pairs = [(space, name) for name in sorted(wishes, reverse=True) for space in wishes[name].namespaces]
    return TenantTree(cohorts, tenants, dict(pairs))


@dataclass(frozen=True)
class Trouble:
    """Why a tree is not taken, and the objects that it is about."""

    objects: frozenset[str]
    error: GpupoolError


def trouble(wishes: Mapping[str, Wish]) -> Trouble | None:
    """What is wrong with the tree of these objects, with the numbers."""
    owners: dict[str, str] = {}
    for name in sorted(wishes):
        for space in wishes[name].namespaces:
            if (other := owners.setdefault(space, name)) != name:
                return _refused(f"namespace {space} is listed by {other} and by {name}", (other, name))
    tree = tree_of(wishes)
    found = fault(tree.cohorts, tree.tenants)
    return None if found is None else _told(found)


def _told(found: Fault) -> Trouble:
    if isinstance(found, Cycle):
        return _refused(f"{' below '.join((*found.names, found.names[0]))}: a tenant below itself", found.names)
    if isinstance(found, NoParent):
        return _refused(f"{found.node} names the parent {found.parent}, and there is no such Tenant", (found.node,))
    below = {name.partition(" ")[2]: size for name, size in found.children.items()}
    each = ", ".join(f"{name} {text(found.resource, size)}" for name, size in below.items())
    return _refused(
        f"{found.cohort} is guaranteed {text(found.resource, found.nominal)} {found.resource}, those in it"
        f" {text(found.resource, sum(below.values()))}: {each}",
        (found.cohort, *below),
    )


def _refused(message: str, objects: Iterable[str]) -> Trouble:
    return Trouble(frozenset(objects), QuotaTreeRefused(message))


# --- what is in force -------------------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """One object as the API server has it."""

    generation: int
    status: Json
    wish: Wish | None = None
    problem: GpupoolError | None = None

    @classmethod
    def from_json(cls, found: Json) -> Known:
        generation, status = found["metadata"].get("generation", 0), found.get("status") or {}
        try:
            return cls(generation, status, Wish.from_json(found.get("spec") or {}))
        except GpupoolError as error:
            return cls(generation, status, problem=error)

    @property
    def kept(self) -> Wish | None:
        """What its status says was in force."""
        return Wish.from_json(self.status["inForce"]) if "inForce" in self.status else None


class Tenants:
    """Every Tenant, and the tree that counts."""

    def __init__(self) -> None:
        self.known: dict[str, Known] = {}
        self.in_force: Mapping[str, Wish] = {}
        self.trouble: Trouble | None = None
        self._listed, self._settled, self._stale = False, False, False

    def note(self, found: Json, gone: bool) -> bool:
        """A Tenant as it is now; whether something of it is new to us."""
        name = found["metadata"]["name"]
        before, now = self.known.get(name), None if gone else Known.from_json(found)
        if now is None:
            self.known.pop(name, None)
        else:
            self.known[name] = now
        self._stale |= _wanted(before) != _wanted(now)
        return before != now

    def synced(self) -> None:
        """All that there are have been noted: before that, a parent may be missing that only was not read yet."""
        self._stale |= not self._listed
        self._listed = True

    def settle(self) -> bool:
        """Judge what was noted; whether another tree is in force now."""
        if not (self._listed and self._stale):
            return False
        self._stale, before = False, self.in_force
        kept = self.in_force if self._settled else self._kept()
        own = {name: known.wish or kept.get(name) for name, known in self.known.items()}
        wanted = {name: wish for name, wish in own.items() if wish is not None}
        self.trouble = trouble(wanted)
        self.in_force = wanted if self.trouble is None else kept
        self._settled = True
        return self.in_force != before

    @property
    def tree(self) -> TenantTree:
        return tree_of(self.in_force)

    def refusal(self, name: str) -> GpupoolError | None:
        """Why what the object says is not in force; None where it is."""
        known = self.known[name]
        if known.problem is not None or self.trouble is None:
            return known.problem
        affected = name in self.trouble.objects or known.wish != self.in_force.get(name)
        return self.trouble.error if affected else None

    def _kept(self) -> dict[str, Wish]:
        found = {name: known.kept for name, known in self.known.items()}
        return {name: wish for name, wish in found.items() if wish is not None}


def _wanted(known: Known | None) -> tuple[Wish | None, bool] | None:
    return None if known is None else (known.wish, known.problem is not None)
