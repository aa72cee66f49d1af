"""Whether a quota tree makes sense: known parents, no cycle, and no node that promises more than it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpupool.model.quota import Branch, Resource, lineage


@dataclass(frozen=True)
class Promised:
    """A cohort whose children are guaranteed more of a resource than it is itself."""

    cohort: str
    resource: Resource
    nominal: int
    children: Mapping[str, int] = field(default_factory=dict)
    """What each of the nearest nodes below it that have a nominal part is guaranteed."""


@dataclass(frozen=True)
class Cycle:
    """Cohorts that would lie above themselves, in order."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class NoParent:
    """A node that names an unknown cohort."""

    node: str
    parent: str


Fault = Promised | Cycle | NoParent


def fault(cohorts: Mapping[str, Branch], tenants: Mapping[str, Branch]) -> Fault | None:
    """What is wrong with the tree, or None. Names of tenants and cohorts are apart."""
    for name, branch in (*cohorts.items(), *tenants.items()):
        if branch.parent is not None and branch.parent not in cohorts:
            return NoParent(name, branch.parent)
    for name in cohorts:
        above = lineage(name, cohorts)
        if (top := cohorts[above[-1]].parent) is not None:
            return Cycle(tuple(above[above.index(top) :]))
    return next((found for name in cohorts for found in _promised(name, cohorts, tenants) if found), None)


def _promised(name: str, cohorts: Mapping[str, Branch], tenants: Mapping[str, Branch]) -> list[Promised]:
    found = []
    for resource, limit in cohorts[name].quota.limits.items():
        children = _nearest(name, resource, cohorts, tenants)
        if sum(children.values()) > (limit.nominal or 0):
            found.append(Promised(name, resource, limit.nominal or 0, children))
    return found


def _nearest(
    name: str, resource: Resource, cohorts: Mapping[str, Branch], tenants: Mapping[str, Branch]
) -> dict[str, int]:
    """What the nearest nodes below that have a nominal part of it are guaranteed, by name."""
    found: dict[str, int] = {}
    for kind, branches in (("cohort", cohorts), ("tenant", tenants)):
        for child, branch in branches.items():
            if branch.parent == name and resource in branch.quota.limits:
                found[f"{kind} {child}"] = branch.quota.limits[resource].nominal or 0
            elif branch.parent == name and kind == "cohort":
                found |= _nearest(child, resource, cohorts, tenants)
    return found
