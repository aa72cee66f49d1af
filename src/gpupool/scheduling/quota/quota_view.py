"""What the quotas of one plan say about a claim: rank, room, guarantee, and which node is exhausted."""

from __future__ import annotations

from gpupool.model.claim import Shape
from gpupool.model.quota import GPU, Resource, ResourceAmount
from gpupool.scheduling.quota.model_options import (
    list_uses_by_model,
    narrow_to_guaranteed_models,
    select_guaranteed_uses,
)
from gpupool.scheduling.quota.promised_use import PromisedUse
from gpupool.scheduling.quota.queue_order import (
    UNLIMITED,
    QuotaHeadroom,
    Standing,
    compute_headroom,
    compute_standing,
    find_smallest,
    find_tightest,
)
from gpupool.scheduling.quota.tree import QuotaTree
from gpupool.scheduling.quota.tree_node import ExhaustedQuota, Use


class QuotaView:
    """Answers about claims, from the quota tree as it is now and as of promised starts."""

    def __init__(self, tree: QuotaTree) -> None:
        self.tree = tree
        #: By tenant the standing, with the number of tree changes before which it was computed.
        self._standings: dict[str, tuple[int, Standing]] = {}
        self.promised_uses: list[PromisedUse] = []
        #: When the claim in question would run; None: promised starts are not looked at.
        self.window: tuple[int, int] | None = None
        #: Whether the claim in question is non-preemptible.
        self.firm = True

    @property
    def has_limits(self) -> bool:
        """Whether any tenant has a limit: without one no claim borrows and only cards can lack."""
        return bool(self.tree.resources)

    @property
    def has_model_limits(self) -> bool:
        """Whether any quota limits cards of one model or vendor."""
        return bool(self.tree.models)

    @property
    def has_only_compute_limits(self) -> bool:
        """Whether quotas, if there are any, limit only compute on any card."""
        return self.tree.resources <= {GPU}

    def list_met_trees(self) -> list[QuotaTree]:
        """Return the quotas as of the promised starts that the claim in question would meet."""
        return (
            [one.tree for one in self.promised_uses if one.is_met_by(*self.window)]
            if self.window
            else []
        )

    def is_borrowing(self, tenant: str, shape: Shape, least: ResourceAmount) -> bool:
        """Whether the claim would go over its tenant's guarantee on every kind of card."""
        return not select_guaranteed_uses(
            self.tree, tenant, list_uses_by_model(self.tree, shape, least)
        )

    def is_outranked(self, tenant: str, shape: Shape, least: ResourceAmount) -> bool:
        """Whether the claim's turn comes after claims inside their guarantees."""
        ways = list_uses_by_model(self.tree, shape, least)
        return all(self.tree.is_outranked(tenant, way) for way in ways)

    def format_guarantors(self, tenant: str) -> str:
        """Return the names of nodes that guarantee the tenant something less than all there is.

        Where the whole pool is the tenant's and has no maximum, cards stop a claim and not its
        quota.
        """
        titles = dict[str, None]()
        for resource in sorted(self.tree.resources):
            node = self.tree.find_guarantor(tenant, resource)
            # A part of the pool is never undivided: on the other cards an owner may reclaim today.
            if not (node.is_undivided(resource) and self.tree.covers_pool(node, resource)):
                titles[node.title] = None
        return ", ".join(titles)

    def get_standing(self, tenant: str) -> Standing:
        """Return where the tenant stands in the fair share; lower goes first."""
        known = self._standings.get(tenant)
        # One placement changes the tree once and asks for the standing of many classes of a tenant.
        if known is None or known[0] != self.tree.changes:
            known = self.tree.changes, compute_standing(self.tree, tenant)
            self._standings[tenant] = known
        return known[1]

    def get_headroom(self, tenant: str) -> QuotaHeadroom:
        """Return what the tenant may still take by every quota up to the pool."""
        if not self.has_limits:
            return UNLIMITED
        return find_tightest(compute_headroom(tree, tenant) for tree in self._list_asked_trees())

    def admit_shape(self, tenant: str, shape: Shape, least: ResourceAmount) -> Shape | None:
        """Narrow the claim to the models of which its tenant may hold more; None: it has no room
        now.
        """
        if not self.has_limits:
            return shape
        may: Shape | None = shape
        for tree in self._list_asked_trees():
            if may is not None:
                may = (
                    tree.narrow_to_open_models(tenant, may)
                    if tree.has_room(tenant, tree.compute_claim_use(shape, least))
                    else None
                )
        return may

    def narrow_to_guaranteed_models(
        self, tenant: str, shape: Shape, least: ResourceAmount
    ) -> Shape | None:
        """Narrow the claim to the models on which it borrows nothing; None where that changes
        nothing.
        """
        return narrow_to_guaranteed_models(self.tree, tenant, shape, least)

    def has_room(self, tenant: str, use: Use) -> bool:
        """Whether every tree that the claim in question would meet has room for so much more."""
        return all(tree.has_room(tenant, use) for tree in self._list_asked_trees())

    def find_promise_in_way(
        self, tenant: str, shape: Shape, least: ResourceAmount, window: tuple[int, int]
    ) -> PromisedUse | None:
        """Return the first promise beside which the claim finds no room if it runs during the
        window.
        """
        return self.find_promise_in_way_of_use(
            tenant, self.tree.compute_claim_use(shape, least), window
        )

    def find_promise_in_way_of_use(
        self, tenant: str, use: Use, window: tuple[int, int]
    ) -> PromisedUse | None:
        """Return the first promise beside which so much more finds no room during the window."""
        without = list[PromisedUse]()
        for one in self.promised_uses:
            if one.is_met_by(*window):
                sides = self.list_tree_sides(one.tree)
                if not all(tree.has_room(tenant, use) for tree in sides):
                    without.append(one)
        return min(without, key=lambda one: one.start_ns, default=None)

    def find_exhausted_node(self, tenant: str, shape: Shape, least: ResourceAmount) -> str:
        """Return the title of the node below the pool that has no room; empty where cards lack, if
        anything.
        """
        for tree in self._list_asked_trees() if self.has_limits else ():
            found = tree.find_exhausted(
                tenant, tree.compute_claim_use(shape, least)
            ) or self._find_exhausted_model(tenant, shape, tree)
            if found:
                return (
                    found.node.title
                    # The pool itself is full of cards in use, which is no quota. Only in the tree
                    # of non-preemptible use may it be full of what it keeps for guarantees.
                    if found.node.parent or (tree.firm is None and found.kept)
                    else ""
                )
        return ""

    def list_tenants_in_exhausted_node(
        self, tenant: str, shape: Shape, least: ResourceAmount
    ) -> frozenset[str] | None:
        """Return the tenants below the lowest node that has no room for the claim; None where cards
        lack.

        Empty where the quota is full not by use but by what is kept for others.
        """
        for tree in self._list_asked_trees():
            found = tree.find_exhausted(
                tenant, tree.compute_claim_use(shape, least)
            ) or self._find_exhausted_model(tenant, shape, tree)
            if found is None:
                continue
            if not (found.node.parent or (tree.firm is None and found.kept)):
                return None
            # In the tree of non-preemptible use nothing is lent, so a full node there is full of
            # what others are guaranteed: evictions of those below it would not help.
            if tree.firm is None:
                return frozenset()
            below = set[str]()
            for name, leaf in tree.leaves.items():
                # By number: a tree as of a promised start has nodes of its own.
                if any(node.number == found.node.number for node in leaf.list_ancestors()):
                    below.add(name)
            return frozenset(below)
        return None

    def _list_asked_trees(self) -> list[QuotaTree]:
        """All trees in which the claim in question must find room."""
        # Usually one tree or two; this is asked for each rank and each placement.
        found = self.list_tree_sides(self.tree)
        for tree in self.list_met_trees():
            found += self.list_tree_sides(tree)
        return found

    def list_tree_sides(self, tree: QuotaTree) -> list[QuotaTree]:
        """Return the tree, and for a non-preemptible claim also the tree of non-preemptible use."""
        return [tree, tree.firm] if self.firm and tree.firm is not None else [tree]

    def get_room(self, tenant: str, resource: Resource) -> int | None:
        """Return how much more of the resource the tenant may hold by every quota; None is no
        limit.
        """
        return find_smallest(tree.get_room(tenant, resource) for tree in self._list_asked_trees())

    def _find_exhausted_model(
        self, tenant: str, shape: Shape, tree: QuotaTree, *, some: bool = False
    ) -> ExhaustedQuota | None:
        if not some and tree.narrow_to_open_models(tenant, shape) is not None:
            return None
        milli = shape.held_milli * shape.count
        found = (tree.find_exhausted(tenant, {resource: milli}) for resource in tree.models)
        return next((one for one in found if one is not None), None)
