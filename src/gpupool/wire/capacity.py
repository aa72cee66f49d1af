"""Answers about free capacity: by model and node, and how much of it no expected claim can use."""

from __future__ import annotations

from pydantic import Field

from gpupool.wire.common import WireModel


class ModelRoom(WireModel):
    model: str
    cards: int
    free_milli: int = Field(description="of cards that can be given out, added up")
    largest_milli: int = Field(description="largest share that one card can take now: compute")
    largest_bytes: int = Field(description="largest share that one card can take now: memory")
    whole_free: int = Field(description="cards on which nothing is held")
    whole_on_one_node: int = Field(
        description="largest claim of whole cards that one node can take now"
    )
    whole_nodes: int = Field(description="nodes of which every card is wholly free")
    fragment_milli: float | None = Field(
        None,
        description="free and of no use to an expected claim, on average; null: nothing is expected yet",
    )
    cut_cards: int = Field(0, description="of its cards, those in partition mode")
    profiles: dict[str, int] = Field(
        default_factory=dict,
        description="by profile, how many could be cut now, if only that one is",
    )
    mps_cards: int = Field(
        0,
        description="cards that serve MPS clients, of one owner each; no other field has what is "
        "free on them",
    )
    mps_free_milli: int = Field(
        0, description="what is free on these, for MPS shares of their owners alone"
    )


class NodeRoom(WireModel):
    node: str
    free_milli: int
    whole_free: int
    fragment_milli: float | None = None


class ClassRoom(WireModel):
    """One kind of claim that is expected, and how the pool looks to it."""

    share: str = Field(description="both numbers, for people")
    model: str | None = None
    part: float = Field(description="of all claims that are expected")
    fragment_milli: int = Field(description="free and of no use to such a claim")


class OwnRoom(WireModel):
    """What quotas leave the caller's tenant, whatever cards are free; null is no limit."""

    tenant: str
    firm_milli: int | None = Field(
        None, description="what claims that are not preemptible may take now: compute"
    )
    firm_bytes: int | None = Field(None, description="the same: memory")
    preemptible_milli: int | None = Field(
        None, description="what preemptible claims may take now: compute"
    )
    preemptible_bytes: int | None = Field(None, description="the same: memory")
    most_firm_milli: int | None = Field(
        None, description="what it could hold without preemptible if nothing were held"
    )
    most_preemptible_milli: int | None = Field(
        None, description="what it could hold if nothing were held"
    )


class IdleRoom(WireModel):
    """A card of which shares are suspended because their jobs were idle."""

    card: str
    uuid: str
    jobs: int = Field(description="that are suspended, or on their way there")
    wanted: int = Field(description="of these, how many want to work again")
    running_bytes: int = Field(description="memory of the shares that are on the card")
    suspended_bytes: int = Field(description="memory that those of these jobs had there")
    kept_milli: int = Field(0, description="compute that is free only for those that want to work")
    kept_bytes: int = Field(
        0, description="memory that is free for none but them, or lent to none because of the limit"
    )
    limit_bytes: int = Field(description="both together at most: the pool's factor times the card")


class CapacityOut(WireModel):
    """Fragments are those of Weng et al., USENIX ATC 2023, measured with every condition of a
    claim."""

    models: list[ModelRoom]
    nodes: list[NodeRoom]
    classes: list[ClassRoom]
    idle: list[IdleRoom] = Field(
        default_factory=list, description="cards with shares that were suspended while idle"
    )
    suspend_factor: float = Field(
        1.0, description="running and idle-suspended shares have at most so much of a card's memory"
    )
    yours: OwnRoom | None = Field(None, description="of the caller's tenant")
