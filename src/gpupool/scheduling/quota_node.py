"""One node of a quota tree: what it holds, keeps, takes of its parent and guarantees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpupool.model.quota import CELLS, WEIGHT, Limit, Resource, parts

Use = Mapping[Resource, int]
"""What is taken, per resource that is counted."""


@dataclass(eq=False)
class Node:
    """One node of the tree. `own` is held by those whom this node guarantees `cap` to, together."""

    name: str
    parent: Node | None
    limits: Mapping[Resource, Limit]
    weight_milli: int = WEIGHT
    past: int = 0
    tenant: bool = False
    number: int = 0
    """Of the nodes of its tree, the same in the tree of what is firm."""

    def __post_init__(self) -> None:
        self.guarantors: Mapping[Resource, int] = {}
        """By resource, the number of the nearest node up from here, itself included, that has a part of it."""
        self.held: dict[Resource, int] = {}
        self.base: dict[Resource, int] = {}
        self.own: dict[Resource, int] = {}
        self.cap: dict[Resource, int] = {}
        self.kept = {resource: limit.kept for resource, limit in self.limits.items()}
        """What it keeps of each resource, used or not."""

    @property
    def title(self) -> str:
        """`tenant nlp`, `cohort research`, `the pool`."""
        return f"{'tenant' if self.tenant else 'cohort'} {self.name}" if self.parent else "the pool"

    def path(self) -> Iterator[Node]:
        """The node and all above it, the pool last."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def taken(self, resource: Resource) -> int:
        """What the node takes of its parent: what it keeps, used or not, or more."""
        return max(self.base.get(resource, 0), self.kept.get(resource, 0))

    def rest(self, resource: Resource) -> int | None:
        """How much more may be taken of this node, whatever those above it say; None is no limit."""
        limit = self.limits.get(resource)
        if limit is None or limit.maximum is None:
            return None
        return max(0, limit.maximum - self.taken(resource))

    def is_undivided(self, resource: Resource) -> bool:
        """Whether nothing bounds what may be taken of this node, and nothing of it is guaranteed to one below it."""
        limit = self.limits.get(resource)
        return limit is None or (limit.maximum is None and self.cap.get(resource, 0) >= (limit.nominal or 0))

    def over(self) -> bool:
        """Whether it holds more than its nominal part of anything."""
        return any(self.held.get(r, 0) > (limit.nominal or 0) for r, limit in self.limits.items() if is_counted(r))


def is_counted(resource: Resource) -> bool:
    """Whether it adds up over cards; cells are bound, not added."""
    return parts(resource)[0] not in CELLS
