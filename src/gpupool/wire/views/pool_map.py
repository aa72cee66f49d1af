"""The map of the pool in columns: every card, and every share on it, in one answer."""

from __future__ import annotations

from pydantic import Field

from gpupool.wire.common import WireModel


class MapNodes(WireModel):
    """Nodes in the order of the pool; one entry of each list belongs to one node."""

    name: list[str]
    rack: list[str | None] = Field(description="its label `rack`; null: it has none")
    domain: list[str | None] = Field(
        description="what joins it with other nodes: the value of its label `gpupool.io/level-NAME` "
        "with the most domains; null: it has none"
    )


class MapRows(WireModel):
    """What changes of cards; one entry of each list belongs to one card."""

    state: list[str] = Field(description="observed, adopted, draining or lost")
    health: list[str] = Field(description="ok, warning, failed or unknown")
    mechanism: list[str | None] = Field(
        description="how a share of it is made now; null: its agent has not said"
    )
    held_milli: list[int] = Field(description="compute that shares hold")
    used_milli: list[int | None] = Field(
        description="how busy the card says that it is; null: unknown"
    )
    memory_bytes: list[int]
    held_bytes: list[int] = Field(description="memory that shares hold")
    largest_milli: list[int] = Field(
        description="compute of the largest share that it can take now; 0 also for a card in "
        "partition mode, of an MPS owner or of a cluster"
    )


class MapCards(MapRows):
    """Cards by node and index; one entry of each list belongs to one card, `NODE:INDEX`."""

    id: list[int] = Field(description="the card's number in this pool, which never changes")
    node: list[int] = Field(description="position in `nodes`")
    index: list[int] = Field(description="on its node")
    model: list[int] = Field(description="position in `models`")


class MapOut(WireModel):
    """Every card and share. Callers other than admins see their own tenant's name alone."""

    seq: int = Field(description="the last event that it contains: go on with GET /watch from here")
    cursor: str = Field(
        "", description="names this answer: with `after` the next one has the changed cards alone"
    )
    simulated: bool = Field(description="at least one card is simulated")
    nodes: MapNodes
    cards: MapCards
    models: list[str]
    tenants: list[str]
    shares: list[int] = Field(
        description="three numbers for each share: position of its card, position in `tenants` or "
        "-1 for another tenant's, and compute; the shares of a card by the time of their start"
    )
    share_mib: list[int] = Field(
        description="memory of each share in MiB, one number for three of `shares`"
    )


class MapChangesOut(WireModel):
    """The cards that differ from the answer of `after`; cards, nodes and models are the same."""

    seq: int = Field(description="the last event that it contains")
    cursor: str = Field(description="names the map that results: `after` of the next request")
    tenants: list[str] = Field(
        description="in the place of the list before; shares that did not change keep their tenant"
    )
    changed: list[int] = Field(description="positions of cards in the map")
    rows: MapRows = Field(description="of these cards, in their order")
    shares: list[int] = Field(description="all shares of these cards, as in the map")
    share_mib: list[int] = Field(description="memory of each in MiB, as in the map")


class CardShareOut(WireModel):
    """A share of one card. Of another tenant's only the amounts are shown."""

    job: str | None = Field(None, description="its id; null: another tenant's, or a cluster's")
    name: str | None = None
    tenant: str | None = None
    user: str | None = None
    gpu_milli: int = Field(description="0: it is promised no compute")
    memory_bytes: int
    since_ns: int
    mechanism: str | None = Field(None, description="null: its node has not said, or hidden")
    share_percent: float | None = Field(
        None,
        description="of its own share, between the two latest samples; null: unknown or hidden",
    )
    used_bytes: int | None = Field(
        None,
        description="of its memory; of a job on several cards an equal part; null: unknown or hidden",
    )
