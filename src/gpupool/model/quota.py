"""How much a tenant may hold: a guaranteed part, how far over it, and what others may use of the
guaranteed part.

What is counted is a resource: compute and memory over all cards, compute on the cards of one model
or vendor, and whole cells (nodes, NVLink domains). A resource is a word (`gpu`, `memory`,
`gpu:H200`, `gpu:AMD`, `node`, `nvlink:H100`), the same in tables, on the wire and in text.
`catalogue.VENDORS` says which names are vendors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

GPU = "gpu"
MEMORY = "memory"
NODE = "node"
NVLINK = "nvlink"
KINDS = (GPU, MEMORY, NODE, NVLINK)
#: Kinds that are counted in whole cells: a tenant holds one when it is alone on it.
CELLS = (NODE, NVLINK)

Resource = str
#: A weight of 1, in thousandths.
WEIGHT = 1000


def name_resource(kind: str, model: str | None) -> Resource:
    """`gpu:H200`, or `gpu` where no model is meant."""
    return f"{kind}:{model}" if model else kind


def split_resource(resource: Resource) -> tuple[str, str | None]:
    """(kind, model or None).

    >>> split_resource("gpu:H200"), split_resource("node")
    (('gpu', 'H200'), ('node', None))
    """
    kind, _, model = resource.partition(":")
    return kind, model or None


@dataclass(frozen=True)
class ResourceAmount:
    """Compute in milli-devices and memory in bytes, added up over cards."""

    gpu_milli: int = 0
    memory_bytes: int = 0

    def __add__(self, other: ResourceAmount) -> ResourceAmount:
        return ResourceAmount(
            self.gpu_milli + other.gpu_milli, self.memory_bytes + other.memory_bytes
        )

    def __sub__(self, other: ResourceAmount) -> ResourceAmount:
        return ResourceAmount(
            self.gpu_milli - other.gpu_milli, self.memory_bytes - other.memory_bytes
        )


@dataclass(frozen=True)
class QuotaLimit:
    """Of one resource, in milli-devices, bytes or cells.

    `nominal` is guaranteed (None: no limit), `borrowing` how far over it (None: any), `lending` how
    much of what is not used of the nominal others may use (None: all of it).
    """

    nominal: int | None = None
    borrowing: int | None = None
    lending: int | None = None

    @property
    def maximum(self) -> int | None:
        return _sum(self.nominal, self.borrowing)

    @property
    def unlent(self) -> int:
        """The part that is never lent: held or not, it counts as taken for all other tenants."""
        return (
            0
            if self.nominal is None or self.lending is None
            else max(0, self.nominal - self.lending)
        )


@dataclass(frozen=True)
class Quota:
    """The limits of one node of the quota tree; None means no limit of that kind.

    Compute and memory have fields of their own, since every pool counts them; `others` holds the
    limits of single card models and of whole cells.
    """

    nominal_milli: int | None = None
    borrowing_milli: int | None = 0
    nominal_memory_bytes: int | None = None
    borrowing_memory_bytes: int | None = 0
    lending_milli: int | None = None
    lending_memory_bytes: int | None = None
    others: tuple[tuple[Resource, QuotaLimit], ...] = ()

    @classmethod
    def from_limits(cls, limits: Mapping[Resource, QuotaLimit]) -> Quota:
        """The quota with these limits and no other."""
        gpu = limits.get(GPU, QuotaLimit())
        memory = limits.get(MEMORY, QuotaLimit())
        others = tuple(
            sorted((name, limit) for name, limit in limits.items() if name not in (GPU, MEMORY))
        )
        return cls(
            gpu.nominal,
            gpu.borrowing,
            memory.nominal,
            memory.borrowing,
            gpu.lending,
            memory.lending,
            others,
        )

    @cached_property
    def limits(self) -> Mapping[Resource, QuotaLimit]:
        """Every resource that has a nominal part."""
        every = (
            (GPU, QuotaLimit(self.nominal_milli, self.borrowing_milli, self.lending_milli)),
            (
                MEMORY,
                QuotaLimit(
                    self.nominal_memory_bytes,
                    self.borrowing_memory_bytes,
                    self.lending_memory_bytes,
                ),
            ),
            *self.others,
        )
        found = {}
        for name, limit in every:
            if limit.nominal is not None:
                found[name] = limit
        return found

    @cached_property
    def without_lending(self) -> Quota:
        """The same with nothing of it lent."""
        return Quota.from_limits(
            {name: replace(limit, lending=0) for name, limit in self.limits.items()}
        )

    @property
    def maximum_milli(self) -> int | None:
        return _sum(self.nominal_milli, self.borrowing_milli)

    @property
    def maximum_memory_bytes(self) -> int | None:
        return _sum(self.nominal_memory_bytes, self.borrowing_memory_bytes)

    def allows_total(self, total: ResourceAmount) -> bool:
        """Whether a tenant may hold that much in all."""
        return _within(total.gpu_milli, self.maximum_milli) and _within(
            total.memory_bytes, self.maximum_memory_bytes
        )

    def guarantees_total(self, total: ResourceAmount) -> bool:
        """Whether that much is inside the nominal part."""
        return _within(total.gpu_milli, self.nominal_milli) and _within(
            total.memory_bytes, self.nominal_memory_bytes
        )


UNLIMITED = Quota(None, None, None, None)


@dataclass(frozen=True)
class QuotaBranch:
    """A node of the quota tree as it is written down: its parent's name (None: right below the
    pool) and its part.

    Inner nodes are cohorts, leaves are tenants. `weight_milli` says how much of what its siblings
    and itself compete for is its due, beside theirs.
    """

    parent: str | None = None
    quota: Quota = UNLIMITED
    weight_milli: int = WEIGHT


def list_cohorts_above(name: str | None, cohorts: Mapping[str, QuotaBranch]) -> list[str]:
    """The cohort of that name and all above it, nearest first; a loop or an unknown name ends
    it."""
    found: list[str] = []
    while name is not None and name in cohorts and name not in found:
        found.append(name)
        name = cohorts[name].parent
    return found


def sum_nominals(children: Iterable[QuotaBranch], resource: Resource) -> int:
    """What the nominal parts of these nodes add up to."""
    total = 0
    for child in children:
        limit = child.quota.limits.get(resource)
        if limit is not None:
            total += limit.nominal or 0
    return total


def _sum(nominal: int | None, borrowing: int | None) -> int | None:
    return None if nominal is None or borrowing is None else nominal + borrowing


def _within(value: int, limit: int | None) -> bool:
    return limit is None or value <= limit
