"""`Tenant` objects: the quota tree as operators write it, and the tree that is in force.

A tree that does not add up is never applied in part: the last tree stays in force, also for a new
leader, which reads it in the objects' status. An object that cannot be read keeps its own last
limits and affects no other. A Tenant that others name as their parent is a cohort; what its own
namespaces hold counts there beside its children. A namespace belongs to the Tenant that lists it,
else to the one of its own name. No requests are made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpupool.base import quantities
from gpupool.base.errors import BadOption, GpupoolError, InvalidQuotaTree
from gpupool.kubernetes.resources import names
from gpupool.model.quota import (
    CELLS,
    GPU,
    MEMORY,
    WEIGHT,
    Quota,
    QuotaBranch,
    QuotaLimit,
    Resource,
    split_resource,
)
from gpupool.model.quota_check import CohortCycle, TreeFault, UnknownParent, find_tree_fault

TENANTS = f"/apis/{names.API_VERSION}/tenants"
_PARTS = ("nominal", "borrowing", "lending")

Json = Mapping[str, Any]


@dataclass(frozen=True)
class TenantSpec:
    """The spec of one Tenant."""

    parent: str | None = None
    namespaces: tuple[str, ...] = ()
    weight_milli: int = WEIGHT
    limits: tuple[tuple[Resource, QuotaLimit], ...] = ()

    @classmethod
    def from_json(cls, spec: Json) -> TenantSpec:
        """Read a spec. Raises BadOption, BadQuantity."""
        limits: dict[Resource, QuotaLimit] = {}
        for word, one in (spec.get("limits") or {}).items():
            resource = _read_resource(word)
            # Two words may name one resource: `gpu:h200` and `gpu:H200`.
            if resource in limits:
                raise BadOption(f"{resource} is limited twice", hint="name each resource once")
            limits[resource] = _read_limit(resource, one)
        written = spec.get("weight", 1)
        # Of weight 0 a tenant comes first, which a small weight must not be rounded to.
        weight = max(1, round(written * WEIGHT)) if written else 0
        namespaces = tuple(sorted(spec.get("namespaces") or ()))
        return cls(spec.get("parent") or None, namespaces, weight, tuple(sorted(limits.items())))

    def to_json(self) -> dict[str, Any]:
        """Return the spec as an object has it."""
        limits: dict[str, dict[str, str]] = {}
        for name, limit in self.limits:
            limits[name] = {}
            for part in _PARTS:
                value = getattr(limit, part)
                if value is not None:
                    limits[name][part] = format_amount(name, value)
        found = {
            "namespaces": [*self.namespaces],
            "weight": self.weight_milli / WEIGHT,
            "limits": limits,
        }
        return {**found, "parent": self.parent} if self.parent else found

    @property
    def branch(self) -> QuotaBranch:
        return QuotaBranch(self.parent, Quota.from_limits(dict(self.limits)), self.weight_milli)


def format_amount(resource: Resource, size: int) -> str:
    """Return an amount of the resource as a Kubernetes quantity.

    >>> format_amount("gpu:H200", 2500), format_amount("memory", 8 << 30), format_amount("node", 2)
    ('2.5', '8Gi', '2')
    """
    kind, _ = split_resource(resource)
    if kind == GPU:
        return f"{size / 1000:.3f}".rstrip("0").rstrip(".")
    return quantities.format_bytes(size) if size else "0"


def _read_resource(word: str) -> Resource:
    kind, model = split_resource(word)
    if kind not in (GPU, *CELLS) and word != MEMORY:
        raise BadOption(
            f"{word[:63]!r} is nothing that is limited",
            hint="gpu and memory are; gpu:H200 is one card model, gpu:AMD one vendor, node and nvlink are whole cells",
        )
    return f"{kind}:{model.upper()}" if model else kind


def _read_limit(resource: Resource, spec: Json) -> QuotaLimit:
    found = {}
    for part in _PARTS:
        if spec.get(part) is not None:
            found[part] = _read_size(resource, part, spec[part])
    if found and "nominal" not in found:
        raise BadOption(
            f"{resource} has no nominal part to borrow over or to lend of", hint='nominal: "0"'
        )
    return QuotaLimit(**found)


def _read_size(resource: Resource, part: str, typed: str | int) -> int:
    size = quantities.parse_quantity(typed)
    kind, _ = split_resource(resource)
    counted = size * 1000 if kind == GPU else size
    if size < 0 or counted != int(counted):
        unit = {GPU: "thousandths of a card", MEMORY: "bytes"}.get(kind, "whole cells")
        raise BadOption(
            f"{part} {typed} of {resource} is not counted in {unit}",
            hint='gpu: "2.5", memory: 80Gi',
        )
    return int(counted)


# --- the tree ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class TenantTree:
    """The quota tree as the scheduler and admission read it."""

    cohorts: Mapping[str, QuotaBranch] = field(default_factory=dict)
    tenants: Mapping[str, QuotaBranch] = field(default_factory=dict)
    #: By listed namespace, its tenant; any other belongs to the tenant of its own name.
    tenant_of: Mapping[str, str] = field(default_factory=dict)


def build_tree(wishes: Mapping[str, TenantSpec]) -> TenantTree:
    """Return the tree of these objects. A namespace listed twice belongs to the first by name."""
    inner = sorted({wish.parent for wish in wishes.values() if wish.parent} & set(wishes))
    cohorts = {name: wishes[name].branch for name in inner}
    tenants = {}
    for name, wish in wishes.items():
        tenants[name] = QuotaBranch(name) if name in cohorts else wish.branch
    tenant_of: dict[str, str] = {}
    for name in sorted(wishes):
        for space in wishes[name].namespaces:
            tenant_of.setdefault(space, name)
    return TenantTree(cohorts, tenants, tenant_of)


@dataclass(frozen=True)
class TreeProblem:
    """Why a tree is not applied, and the objects that the fault is about."""

    objects: frozenset[str]
    error: GpupoolError


def find_problem(wishes: Mapping[str, TenantSpec]) -> TreeProblem | None:
    """Return the first fault of the tree of these objects, with its numbers; None if it is sound."""
    owners: dict[str, str] = {}
    for name in sorted(wishes):
        for space in wishes[name].namespaces:
            if (other := owners.setdefault(space, name)) != name:
                return _tree_problem(
                    f"namespace {space} is listed by {other} and by {name}", (other, name)
                )
    tree = build_tree(wishes)
    found = find_tree_fault(tree.cohorts, tree.tenants)
    return None if found is None else _describe_problem(found)


def _describe_problem(found: TreeFault) -> TreeProblem:
    if isinstance(found, CohortCycle):
        return _tree_problem(
            f"{' below '.join((*found.names, found.names[0]))}: a tenant below itself", found.names
        )
    if isinstance(found, UnknownParent):
        return _tree_problem(
            f"{found.node} names the parent {found.parent}, and there is no such Tenant",
            (found.node,),
        )
    below = {name.partition(" ")[2]: size for name, size in found.children.items()}
    amounts = [f"{name} {format_amount(found.resource, size)}" for name, size in below.items()]
    each = ", ".join(amounts)
    return _tree_problem(
        f"{found.cohort} is guaranteed {format_amount(found.resource, found.nominal)} {found.resource}, those in it"
        f" {format_amount(found.resource, sum(below.values()))}: {each}",
        (found.cohort, *below),
    )


def _tree_problem(message: str, objects: Iterable[str]) -> TreeProblem:
    return TreeProblem(frozenset(objects), InvalidQuotaTree(message))


# --- what is in force -------------------------------------------------------------------------


@dataclass(frozen=True)
class TenantObject:
    """One object as the API server has it.

    Attributes:
        network: what it says of its network, unread: a fault there leaves the quotas in force.
    """

    generation: int
    status: Json
    wish: TenantSpec | None = None
    problem: GpupoolError | None = None
    namespaces: tuple[str, ...] = ()
    network: Json | None = None
    uid: str = ""

    @classmethod
    def from_json(cls, found: Json) -> TenantObject:
        spec = found.get("spec") or {}
        wish = None
        problem = None
        try:
            wish = TenantSpec.from_json(spec)
        except GpupoolError as error:
            problem = error
        return cls(
            found["metadata"].get("generation", 0),
            found.get("status") or {},
            wish,
            problem,
            tuple(sorted(spec.get("namespaces") or ())),
            spec.get("network"),
            found["metadata"].get("uid", ""),
        )

    @property
    def accepted_spec(self) -> TenantSpec | None:
        """The spec that was in force when its status was written last."""
        return TenantSpec.from_json(self.status["inForce"]) if "inForce" in self.status else None


class TenantRegistry:
    """Every Tenant, and the tree in force."""

    def __init__(self) -> None:
        self.known: dict[str, TenantObject] = {}
        self.in_force: Mapping[str, TenantSpec] = {}
        self.trouble: TreeProblem | None = None
        self._listed = False
        self._settled = False
        self._stale = False

    def note_tenant(self, found: Json, gone: bool) -> bool:
        """Note a Tenant as it is now; return whether it has changed."""
        name = found["metadata"]["name"]
        before = self.known.get(name)
        now = None if gone else TenantObject.from_json(found)
        if now is None:
            self.known.pop(name, None)
        else:
            self.known[name] = now
        self._stale |= _usable_specs(before) != _usable_specs(now)
        return before != now

    def note_status(self, name: str, answer: Json) -> None:
        """Note the status that a write of it has left.

        The answer has the spec of that moment, too, of which the watch has perhaps yet to tell.
        Taken from here, it would be no change any more when the watch reports it.
        """
        known = self.known.get(name)
        # Meanwhile it may have been deleted, and another made of the same name.
        if known is not None and known.uid == answer["metadata"].get("uid", ""):
            self.known[name] = replace(known, status=answer.get("status") or {})

    def mark_listed(self) -> None:
        """All Tenants have been noted; the tree may be judged from now on."""
        # Before that, a parent may be missing only because it was not read yet.
        self._stale |= not self._listed
        self._listed = True

    def judge_tree(self) -> bool:
        """Judge the tree if a Tenant has changed; return whether another tree is in force now."""
        if not (self._listed and self._stale):
            return False
        self._stale = False
        before = self.in_force
        kept = self.in_force if self._settled else self._accepted_specs()
        wanted = {}
        for name, known in self.known.items():
            wish = known.wish or kept.get(name)
            if wish is not None:
                wanted[name] = wish
        self.trouble = find_problem(wanted)
        self.in_force = wanted if self.trouble is None else kept
        self._settled = True
        return self.in_force != before

    @property
    def tree(self) -> TenantTree:
        """The quota tree in force."""
        return build_tree(self.in_force)

    def refusal(self, name: str) -> GpupoolError | None:
        """Return why the object's spec is not in force; None if it is."""
        known = self.known[name]
        if known.problem is not None or self.trouble is None:
            return known.problem
        affected = name in self.trouble.objects or known.wish != self.in_force.get(name)
        return self.trouble.error if affected else None

    def _accepted_specs(self) -> dict[str, TenantSpec]:
        accepted = {}
        for name, known in self.known.items():
            spec = known.accepted_spec
            if spec is not None:
                accepted[name] = spec
        return accepted


def _usable_specs(known: TenantObject | None) -> tuple[TenantSpec | None, bool] | None:
    return None if known is None else (known.wish, known.problem is not None)
