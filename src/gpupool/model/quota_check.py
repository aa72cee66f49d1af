"""Whether a quota tree makes sense: known parents, no cycle, and no node that promises more than it
has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpupool.model.quota import QuotaBranch, Resource, list_cohorts_above


@dataclass(frozen=True)
class OverpromisedCohort:
    """A cohort whose children are guaranteed more of a resource than it is itself."""

    cohort: str
    resource: Resource
    nominal: int
    #: What each of the nearest nodes below it that have a nominal part is guaranteed.
    children: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CohortCycle:
    """Cohorts that would lie above themselves, in order."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class UnknownParent:
    """A node that names an unknown cohort."""

    node: str
    parent: str


TreeFault = OverpromisedCohort | CohortCycle | UnknownParent


def find_tree_fault(
    cohorts: Mapping[str, QuotaBranch], tenants: Mapping[str, QuotaBranch]
) -> TreeFault | None:
    """What is wrong with the tree, or None. Names of tenants and cohorts are apart."""
    for name, branch in (*cohorts.items(), *tenants.items()):
        if branch.parent is not None and branch.parent not in cohorts:
            return UnknownParent(name, branch.parent)
    for name in cohorts:
        above = list_cohorts_above(name, cohorts)
        if (top := cohorts[above[-1]].parent) is not None:
            return CohortCycle(tuple(above[above.index(top) :]))
    for name in cohorts:
        overpromised = _find_overpromised(name, cohorts, tenants)
        if overpromised:
            return overpromised[0]
    return None


def _find_overpromised(
    name: str, cohorts: Mapping[str, QuotaBranch], tenants: Mapping[str, QuotaBranch]
) -> list[OverpromisedCohort]:
    found = []
    for resource, limit in cohorts[name].quota.limits.items():
        children = _list_nearest(name, resource, cohorts, tenants)
        if sum(children.values()) > (limit.nominal or 0):
            found.append(OverpromisedCohort(name, resource, limit.nominal or 0, children))
    return found


def _list_nearest(
    name: str,
    resource: Resource,
    cohorts: Mapping[str, QuotaBranch],
    tenants: Mapping[str, QuotaBranch],
) -> dict[str, int]:
    """What the nearest nodes below that have a nominal part of it are guaranteed, by name."""
    found: dict[str, int] = {}
    for kind, branches in (("cohort", cohorts), ("tenant", tenants)):
        for child, branch in branches.items():
            if branch.parent == name and resource in branch.quota.limits:
                found[f"{kind} {child}"] = branch.quota.limits[resource].nominal or 0
            elif branch.parent == name and kind == "cohort":
                found |= _list_nearest(child, resource, cohorts, tenants)
    return found
