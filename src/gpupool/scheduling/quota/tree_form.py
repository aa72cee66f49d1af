"""The form of a quota tree: its nodes, what is limited, and which node guarantees what to a tenant.

The form is fixed while a plan is made; only the amounts on it change (`tree`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from gpupool.model.quota import (
    GPU,
    QuotaBranch,
    QuotaLimit,
    Resource,
    list_cohorts_above,
    split_resource,
)
from gpupool.scheduling.filtering.feasibility import CardKind
from gpupool.scheduling.quota.pool_size import PoolSize
from gpupool.scheduling.quota.tree_node import QuotaNode, is_counted
from gpupool.scheduling.snapshot.snapshot import TenantView


class QuotaTreeForm:
    """Nodes from the pool down to the tenants. Tenants of an unknown cohort hang below the pool."""

    def __init__(
        self, tenants: Mapping[str, TenantView], cohorts: Mapping[str, QuotaBranch], size: PoolSize
    ) -> None:
        self.size = size
        quotas = [branch.quota for branch in cohorts.values()]
        quotas += [view.quota for view in tenants.values()]
        self.resources = set[Resource]()
        keeping = set[Resource]()
        for quota in quotas:
            self.resources.update(quota.limits)
            keeping.update(r for r, limit in quota.limits.items() if limit.unlent)
        self.models = tuple(sorted(r for r in self.resources if r.startswith(f"{GPU}:")))
        whole = dict[Resource, QuotaLimit]()
        for resource in self.resources:
            if is_counted(resource):
                # The pool has a maximum only where a node keeps a part unused. Otherwise cards
                # stop a claim, and their rejections say more.
                limit = QuotaLimit(size.get_total(resource), 0 if resource in keeping else None)
                whole[resource] = limit
        self._nodes = list[QuotaNode]()
        self.root = self._add_node(QuotaNode("", None, whole))
        inner = self._add_cohorts(cohorts)
        self.leaves = {name: self._add_leaf(name, view, inner) for name, view in tenants.items()}

    def _add_cohorts(self, cohorts: Mapping[str, QuotaBranch]) -> dict[str, QuotaNode]:
        inner: dict[str, QuotaNode] = {}
        # Parents before their children; the sort is stable, so node numbers are the same in each
        # plan.
        for name in sorted(cohorts, key=lambda name: len(list_cohorts_above(name, cohorts))):
            branch = cohorts[name]
            above = inner.get(branch.parent or "", self.root)
            inner[name] = self._add_node(
                QuotaNode(name, above, branch.quota.limits, branch.weight_milli)
            )
        return inner

    def _add_leaf(self, name: str, view: TenantView, inner: Mapping[str, QuotaNode]) -> QuotaNode:
        above = inner.get(view.cohort or "", self.root)
        leaf = self._add_node(
            QuotaNode(name, above, view.quota.limits, view.weight_milli, tenant=True)
        )
        for node in leaf.list_ancestors():
            node.past += view.past
        return leaf

    def _add_node(self, node: QuotaNode) -> QuotaNode:
        node.number = len(self._nodes)
        above = node.parent.guarantors if node.parent else {}
        # Filled from the top: each node knows its guarantor of every resource without a walk.
        node.guarantors = {**above, **dict.fromkeys(node.limits, node.number)}
        self._nodes.append(node)
        return node

    def covers_pool(self, node: QuotaNode, resource: Resource) -> bool:
        """Whether the node guarantees all that the pool has of the resource."""
        limit = node.limits.get(resource)
        whole = self.root.limits.get(resource)
        if node is self.root or limit is None or whole is None:
            return node is self.root
        return (limit.nominal or 0) >= (whole.nominal or 0)

    def list_children(self, node: QuotaNode) -> list[QuotaNode]:
        """Return the nodes right below the node."""
        return [one for one in self._nodes if one.parent is node]

    def find_guarantor(self, tenant: str, resource: Resource) -> QuotaNode:
        """Return the node that guarantees the resource to the tenant."""
        return self._find_guarantor(self.leaves[tenant], resource) or self.root

    def has_same_guarantors(self, one: str, other: str) -> bool:
        """Whether the same nodes guarantee both tenants every counted resource."""
        return self.list_guarantors(one) == self.list_guarantors(other)

    def list_guarantors(self, tenant: str) -> tuple[int, ...]:
        """Return the numbers of the tenant's guarantors, in a fixed order of the resources."""
        counted = [resource for resource in sorted(self.resources) if is_counted(resource)]
        return tuple(self.find_guarantor(tenant, resource).number for resource in counted)

    def _find_guarantor(self, node: QuotaNode, resource: Resource) -> QuotaNode | None:
        number = node.guarantors.get(resource)
        return None if number is None else self._nodes[number]

    def list_resources_of_kind(self, kind: CardKind) -> list[Resource]:
        """Return the limited models of which such a card is one."""
        return [resource for resource in self.models if is_of_resource(resource, kind)]


@cache
def is_of_resource(resource: Resource, kind: CardKind) -> bool:
    return kind.is_of(split_resource(resource)[1] or "")
