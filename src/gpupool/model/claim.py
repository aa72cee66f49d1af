"""What a tenant asks for, and how the answer "no" or "not yet" looks. Pure facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from gpupool.base.units import WHOLE, format_percent, format_share
from gpupool.model.isolation.claim_needs import ANY_NEEDS, ClaimNeeds


class SharingKind(StrEnum):
    """How a share behaves beside its neighbours."""

    FIXED = "fixed"
    BURST = "burst"
    BEST_EFFORT = "best-effort"
    MPS = "mps"
    OFFLINE = "offline"

    @property
    def promises_compute(self) -> bool:
        """Whether a share of this kind is promised compute; the others get what is left."""
        return self is not SharingKind.BEST_EFFORT and self is not SharingKind.OFFLINE

    @property
    def unpromised_text(self) -> str:
        """What a share of this kind says in place of a percentage; empty where it has a promise."""
        return "" if self.promises_compute else self.value.replace("-", " ")


#: Kinds that only a mechanism serves that names them.
NAMED_KINDS = frozenset({SharingKind.MPS})


#: Label of nodes whose engine of networks is ready, and of claims that join a network. No label of
#: a user has a space.
NETWORK_LABEL = ("a ready network engine", "")
#: Label of nodes that are in no tenant's plane, and of claims of tenants without planes.
PLANES_LABEL = ("no planes of another tenant", "")
#: Label of no node, and of claims without a network where planes of their tenant need one.
NO_NETWORK_LABEL = ("planes that need no network", "")


def describe_planes_label(tenant: str) -> tuple[str, str]:
    """Return the label of nodes where every plane of a tenant is in force, and of its claims."""
    return f"every plane of {tenant} in force", ""


def is_planes_label(key: str) -> bool:
    """Whether a label is about the planes of a tenant. No label of a user has a space."""
    return key == PLANES_LABEL[0] or key.startswith("every plane of ")


#: Words for priorities; integers from -1000 to 1000 are understood as well.
PRIORITIES: Mapping[str, int] = {"low": -100, "normal": 0, "high": 100}


@dataclass(frozen=True)
class TopologyConstraint:
    """How near together the parts of a claim must be (`required`) or should be (`preferred`), by
    the name of a level.

    Inside a node the levels are `nvlink`, `nvswitch`, `pcie-switch`, `host-bridge` and `numa`;
    `node` itself; above it whatever the pool's nodes are labelled with (`rack`, `block`, ...).
    """

    required: str | None = None
    preferred: str | None = None


ANYWHERE = TopologyConstraint()


@dataclass(frozen=True)
class CardSelector:
    """Which cards a claim may use, beside their model: one vendor, and cards that are named or
    excluded by UUID.

    `not_models` excludes models by name, in the form of `Shape.model`.
    """

    #: None: of any vendor.
    vendor: str | None = None
    not_models: tuple[str, ...] = ()
    uuids: tuple[str, ...] = ()
    not_uuids: tuple[str, ...] = ()


ANY_CARD = CardSelector()


@dataclass(frozen=True)
class Shape:
    """The part of a claim that decides where it can go. Equal shapes get equal answers.

    `gpu_milli` and `memory_bytes` are per card, `count` cards on one node; `memory_bytes` None
    means `memory_milli` thousandths of the card's memory, and where that is None too, the same part
    of its memory as of its compute. `cpu_milli` and `host_bytes` are processors and main memory of
    the node for the whole claim, 0 for no particular amount. `model` may name several, joined by
    `|`. A `count` of 0 is a claim to the node's processors and memory alone, without a card; its
    `gpu_milli` is 0.
    """

    gpu_milli: int
    memory_bytes: int | None = None
    count: int = 1
    model: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    sharing: SharingKind = SharingKind.FIXED
    cpu_milli: int = 0
    host_bytes: int = 0
    within: TopologyConstraint = ANYWHERE
    #: A partition of that published profile instead of a share (`1g.18gb`); `gpu_milli` is then the
    #: profile's, and `memory_bytes` None: each card says how much memory a partition of it has.
    profile: str | None = None
    memory_milli: int | None = None
    selector: CardSelector = ANY_CARD
    #: What it demands of the mechanism; cards without such an offer are not feasible.
    needs: ClaimNeeds = ANY_NEEDS
    #: Of a claim for MPS, the owner that its card serves alone meanwhile; empty for any other claim.
    owner: str = ""
    #: The most memory that the partition may have, where a pod counts it before its card is known;
    #: None: any.
    partition_bytes: int | None = None
    #: False: `sharing` is what a node's default may replace, see `model.sharing_default`. It changes
    #: no answer of the scheduler, so shapes that differ in it alone are equal.
    names_sharing: bool = field(default=True, compare=False)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Shapes are keys everywhere: one plan asks for this thousands of times.
        fields = self.__dataclass_fields__.items()
        return hash(tuple(getattr(self, name) for name, one in fields if one.compare))

    def __getstate__(self) -> dict[str, Any]:
        """Without the hash, which is another one in another process."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @property
    def held_milli(self) -> int:
        """Compute that is held per card: none by a share without a promise."""
        return self.gpu_milli if self.sharing.promises_compute else 0

    @property
    def is_whole(self) -> bool:
        return self.gpu_milli == WHOLE and self.sharing.promises_compute and self.profile is None

    def memory_on(self, card_memory_bytes: int) -> int:
        """Bytes needed on a card of that size, in whole MiB, rounded down for a proportional
        claim."""
        if self.memory_bytes is not None:
            return self.memory_bytes
        part = self.gpu_milli if self.memory_milli is None else self.memory_milli
        return card_memory_bytes * part // WHOLE >> 20 << 20

    def __str__(self) -> str:
        text = format_share(
            self.gpu_milli,
            self.memory_bytes,
            self.count,
            unpromised=self.sharing.unpromised_text,
            profile=self.profile,
        )
        if self.memory_milli is None or self.memory_bytes is not None:
            return text
        return text.replace(
            "its part of the memory", f"{format_percent(self.memory_milli)} % of the memory"
        )


#: What a caller reads of an owner of another tenant: it must not learn which others there are.
FOREIGN_OWNER = "another tenant"


def describe_owner(owner: str, tenant: str, *, everything: bool = False) -> str:
    """Describe an owner to a caller of a tenant.

    Args:
        owner: As claims have it.
        tenant: The caller's.
        everything: The caller may see all tenants.

    >>> describe_owner("nlp/alice", "nlp"), describe_owner("nlp", "nlp")
    ('alice', 'tenant nlp')
    >>> describe_owner("nlp/alice", "ops"), describe_owner("nlp/alice", "ops", everything=True)
    ('another tenant', 'nlp/alice')
    """
    named, _, account = owner.partition("/")
    if named == tenant:
        return account or f"tenant {tenant}"
    return owner if everything else FOREIGN_OWNER


@dataclass(frozen=True)
class Claim:
    """A shape that a user asked for at a time."""

    id: str
    shape: Shape
    tenant: str
    project: str
    user: str
    priority: int = 0
    max_seconds: int | None = None
    submitted_ns: int = 0


class RejectionReason(StrEnum):
    """Why a card, a node or the pool cannot take a claim (now, or ever)."""

    VENDOR = "wrong vendor"
    MODEL = "wrong model"
    EXCLUDED = "not a card that was named"
    LABELS = "labels differ"
    PARTITIONED = "in partition mode"
    PROFILE = "no such partition profile"
    ISOLATION = "does not isolate as asked"
    NOT_ADOPTED = "not adopted"
    UNHEALTHY = "not healthy"
    DRAINING = "draining"
    SERVES_MPS = "serves MPS clients"
    NOT_MPS = "in use without MPS"
    CARD_TOO_SMALL = "card too small"
    COMPUTE = "not enough compute free"
    MEMORY = "not enough memory free"
    NOT_WHOLE = "not a whole card free"
    PLACE = "no free place for the partition"
    TOO_FEW_CARDS = "too few fitting cards on the node"
    CPU = "not enough processors free"
    HOST_MEMORY = "not enough main memory free"
    TOPOLOGY = "cards not near enough together"
    GANG = "room for a part of the gang only"
    RESERVED = "reserved"
    QUOTA = "tenant's quota in use"
    BEHIND = "behind claims of higher rank"


@dataclass(frozen=True)
class EvenGang:
    """Members that have equally many cards: `members` of `count` cards each."""

    members: int
    count: int


@dataclass(frozen=True)
class Rejection:
    """One sentence for people and the counts behind it.

    `cards` and `nodes` count, per reason, where the claim fell out; `fits_ever` is False
    when no emptying of the pool would help. `nearest` is a claim that would be placed now.
    `lines` are the same in several lines, for a long sentence; empty for a short one. `gang` is a
    gang that has as many cards on several nodes.
    """

    sentence: str
    dominant: RejectionReason
    cards: Mapping[RejectionReason, int] = field(default_factory=dict)
    nodes: Mapping[RejectionReason, int] = field(default_factory=dict)
    fits_ever: bool = True
    nearest: Shape | None = None
    hint: str = ""
    lines: tuple[str, ...] = ()
    gang: EvenGang | None = None
