"""The quota tree at work: who holds what at every node, how much more may be added, and who is inside its nominal part.

The pool is the root, cohorts are inner nodes, tenants are leaves. Two sums are kept per node and resource, each
corrected along one path when something is taken or given back, so a question costs the depth of the tree:

* what the node holds;
* what it takes of its parent: what it holds, and at least what it keeps (nominal less lending), used or not. A node may
  not take more of its parent than leaves everybody within the maximum (nominal plus borrowing) all the way up.

Beside it is kept what may not be preempted, in a tree of the same form in which nobody lends (`firm`): what others are
guaranteed is taken there, used or not. So whatever is guaranteed can be had back, and what is firm beyond its own
tenant's part leaves so much less of what nobody is guaranteed.

A tenant's guarantor, for one resource, is the nearest node up from itself that has a nominal part, at last the pool. It
guarantees what the nominal parts beneath it leave, to all who have no nearer one together. This knows numbers and
models, no queue and no card.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cache

from gpupool.model.claim import Shape
from gpupool.model.quota import GPU, MEMORY, Amount, Branch, Limit, Resource, lineage, parts
from gpupool.scheduling.feasible import Kind
from gpupool.scheduling.pool_size import PoolSize
from gpupool.scheduling.quota_node import Node, Use, is_counted
from gpupool.scheduling.role_amounts import by_role
from gpupool.scheduling.snapshot import TenantView


@dataclass(frozen=True)
class Exhausted:
    """Where on the path to the pool a claim has no room: `held` and `most` of that node, what others in it `keep`."""

    node: Node
    resource: Resource
    held: int
    most: int
    kept: int
    more: int


class Tree:
    """A working copy for one plan. Tenants that name a cohort nobody knows hang below the pool."""

    def __init__(
        self, tenants: Mapping[str, TenantView], cohorts: Mapping[str, Branch], size: PoolSize, *, lends: bool = True
    ) -> None:
        self.size = size
        self.changes = 0
        """How often something was taken or given back."""
        branches = [*cohorts.values(), *(Branch(v.cohort, v.quota, v.weight_milli) for v in tenants.values())]
        limits = {(r, limit) for branch in branches for r, limit in branch.quota.limits.items()}
        self.resources = {r for r, _ in limits}
        self.models = tuple(sorted(r for r in self.resources if parts(r)[0] == GPU and r != GPU))
        keeping = {r for r, limit in limits if limit.kept}
        whole = {r: Limit(size.of(r), 0 if r in keeping else None) for r in self.resources if is_counted(r)}
        self._nodes, self._log = list[Node](), list[tuple[Node, Use, int, bool]]()
        self.root = self._new(Node("", None, whole))
        inner = self._hang(cohorts)
        self.leaves = {name: self._leaf(name, view, inner) for name, view in tenants.items()}
        self._guarantee()
        for name, view in tenants.items():
            self.take(name, {GPU: view.held.gpu_milli, MEMORY: view.held.memory_bytes})
        self._log.clear()
        self.firm = _unlent(tenants, cohorts, size) if lends and self.resources else None
        """Of what may not be preempted; None where nobody has a limit."""

    # --- building ------------------------------------------------------------------------

    def _hang(self, cohorts: Mapping[str, Branch]) -> dict[str, Node]:
        inner: dict[str, Node] = {}
        for name in sorted(cohorts, key=lambda name: len(lineage(name, cohorts))):
            branch = cohorts[name]
            above = inner.get(branch.parent or "", self.root)
            inner[name] = self._new(Node(name, above, branch.quota.limits, branch.weight_milli))
        return inner

    def _leaf(self, name: str, view: TenantView, inner: Mapping[str, Node]) -> Node:
        above = inner.get(view.cohort or "", self.root)
        leaf = self._new(Node(name, above, view.quota.limits, view.weight_milli, tenant=True))
        for node in leaf.path():
            node.past += view.past
        return leaf

    def _new(self, node: Node) -> Node:
        node.number = len(self._nodes)
        above = node.parent.guarantors if node.parent else {}
        node.guarantors = {**above, **dict.fromkeys(node.limits, node.number)}
        self._nodes.append(node)
        return node

    def _guarantee(self) -> None:
        for node in self._nodes:
            node.cap = {r: limit.nominal or 0 for r, limit in node.limits.items()}
        for node in reversed(self._nodes):
            self._start_keeping(node)
            for resource, limit in node.limits.items():
                above = node.parent and self._guarantor(node.parent, resource)
                if above:
                    above.cap[resource] = above.cap.get(resource, 0) - (limit.nominal or 0)

    def _start_keeping(self, node: Node) -> None:
        # Children come after their parents, so each node is complete when it is met from behind.
        for resource in self.resources:
            if node.parent is not None and (kept := node.taken(resource)):
                node.parent.base[resource] = node.parent.base.get(resource, 0) + kept

    # --- answers -------------------------------------------------------------------------

    def room(self, tenant: str, resource: Resource) -> int | None:
        """How much more the tenant may hold of it; None is no limit."""
        return self._room(self.leaves[tenant], resource) if resource in self.resources else None

    def covers(self, tenant: str, use: Use) -> bool:
        """Whether nobody on the path would be over its maximum."""
        rooms = ((amount, self.room(tenant, resource)) for resource, amount in use.items() if amount > 0)
        return all(room is None or amount <= room for amount, room in rooms)

    def borrows(self, tenant: str, use: Use) -> bool:
        """Whether taking that would go over what the tenant is guaranteed, of anything it takes."""
        leaf = self.leaves[tenant]
        return any(amount > 0 and self._beyond(leaf, resource, amount) for resource, amount in use.items())

    def outranked(self, tenant: str, use: Use) -> bool:
        """Whether its turn comes after those inside what they are guaranteed: nothing is left of that, or it is larger.

        One that would only fit once its own tenant's jobs have ended keeps its turn: else smaller ones, which still
        fit, would pass it for ever.
        """
        leaf = self.leaves[tenant]
        return any(
            amount > 0 and (self._beyond(leaf, resource, 1) or self._larger(leaf, resource, amount))
            for resource, amount in use.items()
        )

    def outranked_from(self, tenant: str, resource: Resource) -> int | None:
        """The least of it with which a claim is `outranked`; None: however much it takes, it is not by that."""
        leaf = self.leaves[tenant]
        guarantor = self._guarantor(leaf, resource) if resource in self.resources else None
        if guarantor is None:
            return None
        return 1 if self._beyond(leaf, resource, 1) else max(0, self.cap(guarantor, resource)) + 1

    def exhausted(self, tenant: str, use: Use) -> Exhausted | None:
        """The lowest node that has no room for it; None when there is room."""
        for resource, amount in use.items():
            more = amount
            for node in self.leaves[tenant].path() if amount > 0 else ():
                rest, idle = node.rest(resource), node.taken(resource) - node.base.get(resource, 0)
                more = max(0, more - idle)
                if rest is not None and more > rest:
                    return _exhausted(node, resource, amount, amount - more)
        return None

    def ask(self, shape: Shape, least: Amount) -> Use:
        """What a claim of that shape takes at least: of a model's or vendor's part when all its cards are of that."""
        found = {GPU: least.gpu_milli, MEMORY: least.memory_bytes}
        for one, part in by_role(shape, least) if self.models else ():
            kinds = self.size.matching(one.model, one.selector.vendor)
            for resource in self.models if kinds else ():
                if all(_is_of(resource, kind) for kind in kinds):
                    found[resource] = found.get(resource, 0) + part.gpu_milli
        return found

    def seats(self, kinds: Iterable[Kind], milli: int, size: int) -> Use:
        """What seats on such cards take, each `milli`; `size` bytes in all."""
        cards = list(kinds)
        named = {r: milli * sum(_is_of(r, kind) for kind in cards) for r in self.models}
        return {GPU: milli * len(cards), MEMORY: size, **named}

    def narrowed(self, tenant: str, shape: Shape) -> Shape | None:
        """The shape kept to those models of which the tenant may hold so much more; None when there is none."""
        if not self.models:
            return shape
        kinds = self.size.matching(shape.model, shape.selector.vendor)
        milli = shape.held_milli * shape.count
        full = {kind.model for kind in kinds if not self._has_room(tenant, kind, milli)}
        if not full:
            return shape
        open_ = dict.fromkeys(kind.model for kind in kinds if kind.model not in full)
        return replace(shape, model="|".join(open_)) if open_ else None

    def of_kind(self, kind: Kind) -> list[Resource]:
        """The models that are counted of which such a card is one."""
        return [resource for resource in self.models if _is_of(resource, kind)]

    def _has_room(self, tenant: str, kind: Kind, milli: int) -> bool:
        return self.covers(tenant, dict.fromkeys(self.of_kind(kind), milli))

    def cap(self, node: Node, resource: Resource) -> int:
        """What the node guarantees to those who have no nearer one: less what is firm beyond the parts beneath it."""
        limit = node.limits.get(resource)
        if limit is None or self.firm is None:
            return node.cap.get(resource, 0)
        twin = self.firm._nodes[node.number]
        return (limit.nominal or 0) - twin.base.get(resource, 0) + twin.own.get(resource, 0)

    def below(self, node: Node) -> list[Node]:
        """The nodes right below it."""
        return [one for one in self._nodes if one.parent is node]

    def owed(self, tenant: str, resource: Resource) -> Node:
        """Who guarantees it to the tenant: `cap` of it, of which `own` is held."""
        return self._guarantor(self.leaves[tenant], resource) or self.root

    def guaranteed_alike(self, one: str, other: str) -> bool:
        """Whether the same node guarantees both whatever is counted."""
        return self.guarantors(one) == self.guarantors(other)

    def guarantors(self, tenant: str) -> tuple[int, ...]:
        """Numbers of the nodes that guarantee the tenant what is counted, in a fixed order of the resources."""
        return tuple(self.owed(tenant, r).number for r in sorted(self.resources) if is_counted(r))

    # --- changes -------------------------------------------------------------------------

    def take(self, tenant: str, use: Use, *, firm: bool = False) -> None:
        self._note(self.leaves[tenant], use, 1, firm=firm)

    def give(self, tenant: str, use: Use, *, firm: bool = False) -> None:
        """The exact opposite of `take`."""
        self._note(self.leaves[tenant], use, -1, firm=firm)

    def bind(self, tenant: str, cell: Resource, count: int) -> None:
        """So many whole cells more (or less). Whoever knows the cells undoes it too: trials do not."""
        self._add(self.leaves[tenant], {cell: count}, 1)

    def copy(self) -> Tree:
        """Another working copy, as this one is now."""
        other, twins = copy(self), {id(node): copy(node) for node in self._nodes}
        for node in twins.values():
            node.parent = twins[id(node.parent)] if node.parent else None
            node.held, node.base, node.own = dict(node.held), dict(node.base), dict(node.own)
        other._nodes, other._log = list(twins.values()), []
        other.root = twins[id(self.root)]
        other.leaves = {name: twins[id(leaf)] for name, leaf in self.leaves.items()}
        other.firm = self.firm and self.firm.copy()
        return other

    def mark(self) -> int:
        """Where a trial begins."""
        return len(self._log)

    def rollback(self, mark: int) -> None:
        """Undo everything since the mark."""
        for leaf, use, sign, firm in reversed(self._log[mark:]):
            self._both(leaf, use, -sign, firm=firm)
        del self._log[mark:]

    def _note(self, leaf: Node, use: Use, sign: int, *, firm: bool) -> None:
        self._both(leaf, use, sign, firm=firm)
        self._log.append((leaf, use, sign, firm))

    def _both(self, leaf: Node, use: Use, sign: int, *, firm: bool) -> None:
        self._add(leaf, use, sign)
        if firm and self.firm is not None:
            self.firm._add(self.firm._nodes[leaf.number], use, sign)

    def _add(self, leaf: Node, use: Use, sign: int) -> None:
        self.changes += 1
        for resource, amount in use.items():
            if not amount:
                continue
            node: Node | None = leaf
            while node is not None:
                node.held[resource] = node.held.get(resource, 0) + sign * amount
                node = node.parent
            if resource in self.resources:
                self._commit(leaf, resource, sign * amount)

    def _commit(self, leaf: Node, resource: Resource, change: int) -> None:
        guarantor = self._guarantor(leaf, resource)
        if guarantor:
            guarantor.own[resource] = guarantor.own.get(resource, 0) + change
        node: Node | None = leaf
        while node is not None and change:
            before, kept = node.base.get(resource, 0), node.kept.get(resource, 0)
            node.base[resource] = before + change
            change = max(before + change, kept) - max(before, kept)
            node = node.parent

    def _room(self, node: Node, resource: Resource) -> int | None:
        above = None if node.parent is None else self._room(node.parent, resource)
        known = [limit for limit in (above, node.rest(resource)) if limit is not None]
        idle = node.taken(resource) - node.base.get(resource, 0)
        return min(known) + idle if known else None

    def _guarantor(self, node: Node, resource: Resource) -> Node | None:
        number = node.guarantors.get(resource)
        return None if number is None else self._nodes[number]

    def _beyond(self, leaf: Node, resource: Resource, amount: int) -> bool:
        guarantor = self._guarantor(leaf, resource) if resource in self.resources else None
        return guarantor is not None and guarantor.own.get(resource, 0) + amount > max(0, self.cap(guarantor, resource))

    def _larger(self, leaf: Node, resource: Resource, amount: int) -> bool:
        guarantor = self._guarantor(leaf, resource) if resource in self.resources else None
        return guarantor is not None and amount > self.cap(guarantor, resource)


def _unlent(tenants: Mapping[str, TenantView], cohorts: Mapping[str, Branch], size: PoolSize) -> Tree:
    """The same tree with nobody on it, in which nobody lends."""
    views = {name: replace(view, quota=view.quota.unlent, held=Amount()) for name, view in tenants.items()}
    branches = {name: replace(branch, quota=branch.quota.unlent) for name, branch in cohorts.items()}
    return Tree(views, branches, size, lends=False)


def _exhausted(node: Node, resource: Resource, more: int, own: int) -> Exhausted:
    """`own`: what of the node is kept for the claimant itself, and so for no other."""
    limit, held = node.limits[resource], node.held.get(resource, 0)
    kept = max(0, node.base.get(resource, 0) - held - own)
    return Exhausted(node, resource, held, limit.maximum or 0, kept, more)


@cache
def _is_of(resource: Resource, kind: Kind) -> bool:
    return kind.is_of(parts(resource)[1] or "")
