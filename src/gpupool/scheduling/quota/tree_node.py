"""One node of a quota tree: what it holds, keeps, takes of its parent and guarantees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpupool.model.quota import CELLS, WEIGHT, QuotaLimit, Resource, split_resource

#: Above any amount of a pool, and sums of two still fit into 64 bits.
MOST = 1 << 62

#: What is taken, by counted resource.
Use = Mapping[Resource, int]


@dataclass(eq=False)
class QuotaNode:
    """One node of the tree: the pool, a cohort or a tenant.

    `cap` is what the node guarantees to the tenants that have no nearer guarantor; `own` is what
    those tenants hold of it together. `base` is the sum of what its children take of it.
    """

    name: str
    parent: QuotaNode | None
    limits: Mapping[Resource, QuotaLimit]
    weight_milli: int = WEIGHT
    past: int = 0
    tenant: bool = False
    #: The node's number in its tree; the same in the tree of non-preemptible use.
    number: int = 0

    def __post_init__(self) -> None:
        #: By resource, the number of the nearest node up from here, itself included, that has a
        #: part of it.
        self.guarantors: Mapping[Resource, int] = {}
        self.held: dict[Resource, int] = {}
        self.base: dict[Resource, int] = {}
        self.own: dict[Resource, int] = {}
        self.cap: dict[Resource, int] = {}
        #: What it keeps of each resource, used or not.
        self.kept = {resource: limit.unlent for resource, limit in self.limits.items()}

    @property
    def title(self) -> str:
        """The node's name in messages: `tenant nlp`, `cohort research`, `the pool`."""
        return f"{'tenant' if self.tenant else 'cohort'} {self.name}" if self.parent else "the pool"

    def list_ancestors(self) -> Iterator[QuotaNode]:
        """Yield the node and all nodes above it, the pool last."""
        node: QuotaNode | None = self
        while node is not None:
            yield node
            node = node.parent

    def get_taken(self, resource: Resource) -> int:
        """Return what the node takes of its parent: what it keeps, used or not, or more."""
        # A part that is kept is taken even if idle: no sibling may use it.
        return max(self.base.get(resource, 0), self.kept.get(resource, 0))

    def get_rest(self, resource: Resource) -> int | None:
        """Return how much more may be taken of this node alone; None is no limit."""
        limit = self.limits.get(resource)
        if limit is None or limit.maximum is None:
            return None
        return max(0, limit.maximum - self.get_taken(resource))

    def is_undivided(self, resource: Resource) -> bool:
        """Whether the node has no maximum and guarantees nothing of the resource to a node below
        it.
        """
        limit = self.limits.get(resource)
        return limit is None or (
            limit.maximum is None and self.cap.get(resource, 0) >= (limit.nominal or 0)
        )

    def is_over_nominal(self) -> bool:
        """Whether it holds more than its nominal part of any resource."""
        return any(
            self.held.get(r, 0) > (limit.nominal or 0)
            for r, limit in self.limits.items()
            if is_counted(r)
        )


@dataclass(frozen=True)
class ExhaustedQuota:
    """A node on the path to the pool that has no room for a claim.

    `held` and `most` are of that node, `kept` is what it keeps for others, `more` what the claim
    asks.
    """

    node: QuotaNode
    resource: Resource
    held: int
    most: int
    kept: int
    more: int


def make_exhausted(node: QuotaNode, resource: Resource, more: int, own: int) -> ExhaustedQuota:
    """Describe the exhausted node; `own` is what it keeps for the claimant itself, and for no
    other.
    """
    limit = node.limits[resource]
    held = node.held.get(resource, 0)
    # What children take beyond what they hold is kept for them.
    kept = max(0, node.base.get(resource, 0) - held - own)
    return ExhaustedQuota(node, resource, held, limit.maximum or 0, kept, more)


def is_counted(resource: Resource) -> bool:
    """Whether the resource is added up over cards; cells are bound, not added."""
    return split_resource(resource)[0] not in CELLS
