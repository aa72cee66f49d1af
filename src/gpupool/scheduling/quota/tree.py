"""The quota tree: what every node holds, how much more it may take, and what it guarantees.

The pool is the root, cohorts are inner nodes, tenants are leaves. Each node keeps two sums per
resource. A change corrects them along one path, so a question costs the depth of the tree:

* `held`: what the node holds;
* `taken`: what it takes of its parent. That is what it holds, and at least what it keeps (nominal
  less lending), used or not. A node may take no more of its parent than keeps every node on the way
  up within its maximum (nominal plus borrowing).

A second tree of the same form, `firm`, counts only what may not be preempted, and there no node
lends: what others are guaranteed is taken, used or not. So everything guaranteed can be reclaimed,
and non-preemptible use beyond its own tenant's part reduces what no tenant is guaranteed.

The guarantor of a tenant for one resource is the nearest node up from itself that has a nominal
part, at last the pool. It guarantees what the nominal parts below it leave, to all tenants that
have no nearer guarantor together. This module knows numbers and models, no queue and no card.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace

from gpupool.model.claim import Shape
from gpupool.model.quota import GPU, MEMORY, QuotaBranch, Resource, ResourceAmount
from gpupool.scheduling.filtering.feasibility import CardKind
from gpupool.scheduling.quota.pool_size import PoolSize
from gpupool.scheduling.quota.role_amounts import split_by_role
from gpupool.scheduling.quota.tree_form import QuotaTreeForm, is_of_resource
from gpupool.scheduling.quota.tree_node import (
    MOST,
    ExhaustedQuota,
    QuotaNode,
    Use,
    make_exhausted,
)
from gpupool.scheduling.snapshot.snapshot import TenantView


class QuotaTree(QuotaTreeForm):
    """A working copy of the quotas for one plan."""

    def __init__(
        self,
        tenants: Mapping[str, TenantView],
        cohorts: Mapping[str, QuotaBranch],
        size: PoolSize,
        *,
        lends: bool = True,
    ) -> None:
        super().__init__(tenants, cohorts, size)
        #: Number of changes so far; a cached answer is valid while it is the same.
        self.changes = 0
        self._log = list[tuple[QuotaNode, Use, int, bool]]()
        self._compute_guarantees()
        for name, view in tenants.items():
            self.add_use(name, {GPU: view.held.gpu_milli, MEMORY: view.held.memory_bytes})
        # What the snapshot says is no change that a trial may undo.
        self._log.clear()
        #: The tree of what may not be preempted; None where no tenant has a limit.
        self.firm = _make_unlent_tree(tenants, cohorts, size) if lends and self.resources else None

    # --- building ------------------------------------------------------------------------

    def _compute_guarantees(self) -> None:
        for node in self._nodes:
            node.cap = {r: limit.nominal or 0 for r, limit in node.limits.items()}
        for node in reversed(self._nodes):
            self._reserve_in_parent(node)
            for resource, limit in node.limits.items():
                above = node.parent and self._find_guarantor(node.parent, resource)
                if above:
                    above.cap[resource] = above.cap.get(resource, 0) - (limit.nominal or 0)

    def _reserve_in_parent(self, node: QuotaNode) -> None:
        # Children come after their parents, so each node is complete when it is met from behind.
        for resource in self.resources:
            if node.parent is not None and (kept := node.get_taken(resource)):
                node.parent.base[resource] = node.parent.base.get(resource, 0) + kept

    # --- answers -------------------------------------------------------------------------

    def get_room(self, tenant: str, resource: Resource) -> int | None:
        """Return how much more of the resource the tenant may hold; None is no limit.

        Sums of limits are cut to `MOST`: columns of amounts have 64 bits.
        """
        if resource not in self.resources:
            return None
        room = self._get_node_room(self.leaves[tenant], resource)
        return None if room is None else min(room, MOST)

    def has_room(self, tenant: str, use: Use) -> bool:
        """Whether no node on the path would be over its maximum with so much more."""
        for resource, amount in use.items():
            if amount > 0:
                room = self.get_room(tenant, resource)
                if room is not None and amount > room:
                    return False
        return True

    def is_borrowing(self, tenant: str, use: Use) -> bool:
        """Whether taking so much more would go over the tenant's guarantee for any resource."""
        leaf = self.leaves[tenant]
        for resource, amount in use.items():
            if amount <= 0:
                continue
            if self._is_beyond_guarantee(leaf, resource, amount):
                return True
        return False

    def is_outranked(self, tenant: str, use: Use) -> bool:
        """Whether the claim's turn comes after claims inside their guarantees.

        It does where nothing is left of the guarantee, or the claim is larger than the whole
        guarantee. A claim that only fits once its own tenant's jobs have ended keeps its turn:
        otherwise smaller claims, which still fit, would pass it for ever.
        """
        leaf = self.leaves[tenant]
        for resource, amount in use.items():
            if amount > 0 and (
                self._is_beyond_guarantee(leaf, resource, 1)
                or self._is_larger_than_guarantee(leaf, resource, amount)
            ):
                return True
        return False

    def find_outranked_amount(self, tenant: str, resource: Resource) -> int | None:
        """Return the least amount with which a claim `is_outranked`; None where no amount is."""
        leaf = self.leaves[tenant]
        guarantor = self._find_guarantor(leaf, resource) if resource in self.resources else None
        if guarantor is None:
            return None
        return (
            1
            if self._is_beyond_guarantee(leaf, resource, 1)
            else max(0, self.get_guarantee(guarantor, resource)) + 1
        )

    def find_exhausted(self, tenant: str, use: Use) -> ExhaustedQuota | None:
        """Return the lowest node that has no room for so much more; None when there is room."""
        for resource, amount in use.items():
            more = amount
            for node in self.leaves[tenant].list_ancestors() if amount > 0 else ():
                rest = node.get_rest(resource)
                idle = node.get_taken(resource) - node.base.get(resource, 0)
                more = max(0, more - idle)
                if rest is not None and more > rest:
                    return make_exhausted(node, resource, amount, amount - more)
        return None

    def compute_claim_use(self, shape: Shape, least: ResourceAmount) -> Use:
        """Compute what a claim of that shape takes at least.

        A model's or vendor's quota counts only where all cards that the claim may use are of it.
        """
        found = {GPU: least.gpu_milli, MEMORY: least.memory_bytes}
        for one, part in split_by_role(shape, least) if self.models else ():
            kinds = self.size.list_matching_kinds(one.model, one.selector.vendor)
            for resource in self.models if kinds else ():
                if all(is_of_resource(resource, kind) for kind in kinds):
                    found[resource] = found.get(resource, 0) + part.gpu_milli
        return found

    def compute_seats_use(self, kinds: Iterable[CardKind], milli: int, size: int) -> Use:
        """Compute what seats on such cards take, each `milli` milli-devices, `size` bytes in all."""
        cards = list(kinds)
        found: dict[Resource, int] = {GPU: milli * len(cards), MEMORY: size}
        for resource in self.models:
            found[resource] = milli * sum(is_of_resource(resource, kind) for kind in cards)
        return found

    def narrow_to_open_models(self, tenant: str, shape: Shape) -> Shape | None:
        """Narrow the shape to models of which the tenant may hold so much more; None when there is
        none.
        """
        if not self.models:
            return shape
        kinds = self.size.list_matching_kinds(shape.model, shape.selector.vendor)
        milli = shape.held_milli * shape.count
        full = {kind.model for kind in kinds if not self._has_room_on_kind(tenant, kind, milli)}
        if not full:
            return shape
        open_ = dict.fromkeys(kind.model for kind in kinds if kind.model not in full)
        return replace(shape, model="|".join(open_)) if open_ else None

    def _has_room_on_kind(self, tenant: str, kind: CardKind, milli: int) -> bool:
        return self.has_room(tenant, dict.fromkeys(self.list_resources_of_kind(kind), milli))

    def get_guarantee(self, node: QuotaNode, resource: Resource) -> int:
        """Return what the node guarantees to tenants that have no nearer guarantor.

        Non-preemptible use beyond the parts below the node reduces it.
        """
        limit = node.limits.get(resource)
        if limit is None or self.firm is None:
            return node.cap.get(resource, 0)
        # In the twin, `base` is all non-preemptible use and all parts below; `own` is use of the
        # tenants that this node guarantees to. What is left of the nominal part is theirs.
        twin = self.firm._nodes[node.number]
        return (limit.nominal or 0) - twin.base.get(resource, 0) + twin.own.get(resource, 0)

    # --- changes -------------------------------------------------------------------------

    def add_use(self, tenant: str, use: Use, *, firm: bool = False) -> None:
        """Add what the tenant takes; `firm` where it may not be preempted."""
        self._record(self.leaves[tenant], use, 1, firm=firm)

    def remove_use(self, tenant: str, use: Use, *, firm: bool = False) -> None:
        """Remove what the tenant gives back; the exact opposite of `add_use`."""
        self._record(self.leaves[tenant], use, -1, firm=firm)

    def bind_cells(self, tenant: str, cell: Resource, count: int) -> None:
        """Add so many whole cells (or remove them).

        Not part of a trial: the caller that knows the cells undoes it.
        """
        self._change_use(self.leaves[tenant], {cell: count}, 1)

    def copy(self) -> QuotaTree:
        """Return an independent working copy of the present state."""
        other = copy(self)
        # Only amounts are copied: limits, guarantors and guarantees are fixed during a plan.
        twins = {id(node): copy(node) for node in self._nodes}
        for node in twins.values():
            node.parent = twins[id(node.parent)] if node.parent else None
            node.held = dict(node.held)
            node.base = dict(node.base)
            node.own = dict(node.own)
        other._nodes = list(twins.values())
        other._log = []
        other.root = twins[id(self.root)]
        other.leaves = {name: twins[id(leaf)] for name, leaf in self.leaves.items()}
        other.firm = self.firm and self.firm.copy()
        return other

    def mark(self) -> int:
        """Return where a trial begins."""
        return len(self._log)

    def rollback(self, mark: int) -> None:
        """Undo every change since the mark."""
        for leaf, use, sign, firm in reversed(self._log[mark:]):
            self._change_both_trees(leaf, use, -sign, firm=firm)
        del self._log[mark:]

    def _record(self, leaf: QuotaNode, use: Use, sign: int, *, firm: bool) -> None:
        self._change_both_trees(leaf, use, sign, firm=firm)
        self._log.append((leaf, use, sign, firm))

    def _change_both_trees(self, leaf: QuotaNode, use: Use, sign: int, *, firm: bool) -> None:
        self._change_use(leaf, use, sign)
        if firm and self.firm is not None:
            self.firm._change_use(self.firm._nodes[leaf.number], use, sign)

    def _change_use(self, leaf: QuotaNode, use: Use, sign: int) -> None:
        self.changes += 1
        for resource, amount in use.items():
            if not amount:
                continue
            node: QuotaNode | None = leaf
            while node is not None:
                node.held[resource] = node.held.get(resource, 0) + sign * amount
                node = node.parent
            if resource in self.resources:
                self._change_taken(leaf, resource, sign * amount)

    def _change_taken(self, leaf: QuotaNode, resource: Resource, change: int) -> None:
        guarantor = self._find_guarantor(leaf, resource)
        if guarantor:
            guarantor.own[resource] = guarantor.own.get(resource, 0) + change
        node: QuotaNode | None = leaf
        while node is not None and change:
            before = node.base.get(resource, 0)
            kept = node.kept.get(resource, 0)
            node.base[resource] = before + change
            # What the parent sees is the change of `taken`: nothing as long as the node stays
            # within what it keeps. Exact for both signs, so `rollback` restores every node.
            change = max(before + change, kept) - max(before, kept)
            node = node.parent

    def _get_node_room(self, node: QuotaNode, resource: Resource) -> int | None:
        above = None if node.parent is None else self._get_node_room(node.parent, resource)
        known = [limit for limit in (above, node.get_rest(resource)) if limit is not None]
        idle = node.get_taken(resource) - node.base.get(resource, 0)
        return min(known) + idle if known else None

    def _is_beyond_guarantee(self, leaf: QuotaNode, resource: Resource, amount: int) -> bool:
        guarantor = self._find_guarantor(leaf, resource) if resource in self.resources else None
        return guarantor is not None and guarantor.own.get(resource, 0) + amount > max(
            0, self.get_guarantee(guarantor, resource)
        )

    def _is_larger_than_guarantee(self, leaf: QuotaNode, resource: Resource, amount: int) -> bool:
        guarantor = self._find_guarantor(leaf, resource) if resource in self.resources else None
        return guarantor is not None and amount > self.get_guarantee(guarantor, resource)


def _make_unlent_tree(
    tenants: Mapping[str, TenantView], cohorts: Mapping[str, QuotaBranch], size: PoolSize
) -> QuotaTree:
    """Make the same tree without use and without lending."""
    views = dict[str, TenantView]()
    for name, view in tenants.items():
        views[name] = replace(view, quota=view.quota.without_lending, held=ResourceAmount())
    branches = dict[str, QuotaBranch]()
    for name, branch in cohorts.items():
        branches[name] = replace(branch, quota=branch.quota.without_lending)
    return QuotaTree(views, branches, size, lends=False)
