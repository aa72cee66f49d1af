"""The map of the pool: all cards and shares as columns, from the snapshot and one query of cards.

What changes with every job (held amounts, shares) comes from the scheduler's snapshot. What changes
with the machines (models, states, labels) is the roster: one query after a change of cards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import sqlalchemy as sa

from gpupool.base.units import MIB, NANOS_PER_SECOND, WHOLE
from gpupool.fleet.tables import devices, nodes
from gpupool.metering.tables import intervals
from gpupool.model.device import DeviceHealth, DeviceState
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import (
    CardOffers,
    MechanismOffer,
    OfferAvailability,
    SizeClass,
)
from gpupool.scheduling import Snapshot
from gpupool.tenancy.tables import tenants
from gpupool.wire.views.pool_map import MapCards, MapNodes, MapOut

#: Labels of the level that joins nodes, as `scheduling.snapshot.topology_levels` reads them.
_LEVEL_PREFIX = "gpupool.io/level-"
#: What `shares` has in place of a tenant that the caller may not see.
HIDDEN_TENANT = -1

_CARDS = (
    sa.select(
        devices.c.id,
        devices.c.uuid,
        devices.c.node_id,
        devices.c.idx,
        devices.c.model,
        devices.c.memory_bytes,
        devices.c.simulated,
        devices.c.state,
        devices.c.health,
        devices.c.used_milli,
        devices.c.used_bytes,
        nodes.c.cluster_generation.is_not(None).label("of_cluster"),
    )
    .join(nodes, nodes.c.id == devices.c.node_id)
    .order_by(devices.c.node_id, devices.c.idx)
)
_NODES = sa.select(nodes.c.id, nodes.c.name, nodes.c.labels).order_by(nodes.c.id)
_OF_CLUSTER = nodes.c.cluster_generation.is_not(None)
_CLUSTER_CARDS = (
    sa.select(devices.c.id, devices.c.used_milli, devices.c.used_bytes)
    .join(nodes, nodes.c.id == devices.c.node_id)
    .where(_OF_CLUSTER)
)
_CLUSTER_SHARES = (
    sa.select(
        intervals.c.device_id,
        intervals.c.gpu_milli,
        intervals.c.memory_mib,
        intervals.c.start_s,
        tenants.c.name.label("tenant"),
    )
    .join(tenants, tenants.c.id == intervals.c.tenant_id)
    # The allocations of pods have negative numbers.
    .where(intervals.c.end_s.is_(None), intervals.c.allocation_id < 0)
)


@dataclass(frozen=True)
class CardRoster:
    """All cards with what jobs do not change, in the order of the map."""

    cards: Sequence[Any]
    nodes: MapNodes
    #: Of each card its position in `nodes` and in `models`.
    node_of_card: list[int]
    model_of_card: list[int]
    models: list[str]
    simulated: bool
    has_clusters: bool


@dataclass(frozen=True)
class MapShare:
    """A share on the map: the position of its card, and when it began."""

    card: int
    start_ns: int
    tenant: str
    milli: int
    mib: int


@dataclass(frozen=True)
class ClusterUse:
    """What is held of the cards of clusters, by the card's number; and the shares there."""

    held: Mapping[int, tuple[int, int]]
    shares: Sequence[Any]


def read_roster(connection: sa.Connection) -> CardRoster:
    """Read all cards and nodes, in two queries."""
    cards = connection.execute(_CARDS).all()
    rows = connection.execute(_NODES).all()
    position = {row.id: number for number, row in enumerate(rows)}
    models = dict[str, int]()
    for card in cards:
        models.setdefault(card.model, len(models))
    domain_counts = _count_domains(rows)
    shown = MapNodes(
        name=[row.name for row in rows],
        rack=[row.labels.get("rack") for row in rows],
        domain=[_find_domain(row.labels, domain_counts) for row in rows],
    )
    return CardRoster(
        cards,
        shown,
        [position[card.node_id] for card in cards],
        [models[card.model] for card in cards],
        list(models),
        any(card.simulated for card in cards),
        any(card.of_cluster for card in cards),
    )


def _count_domains(rows: Sequence[Any]) -> dict[str, int]:
    values = dict[str, set[str]]()
    for row in rows:
        for label, value in row.labels.items():
            if label.startswith(_LEVEL_PREFIX):
                values.setdefault(label, set()).add(value)
    return {label: len(found) for label, found in values.items()}


def _find_domain(labels: Mapping[str, str], counts: Mapping[str, int]) -> str | None:
    """Return the value of the narrowest level, which has the most domains."""
    levels = sorted((counts[label], label) for label in labels if label in counts)
    return labels[levels[-1][1]] if levels else None


def read_cluster_use(connection: sa.Connection, roster: CardRoster) -> ClusterUse:
    """Read what pods of clusters hold; no query for a pool without a cluster."""
    if not roster.has_clusters:
        return ClusterUse({}, ())
    held = dict[int, tuple[int, int]]()
    for row in connection.execute(_CLUSTER_CARDS):
        held[row.id] = (row.used_milli, row.used_bytes)
    return ClusterUse(held, connection.execute(_CLUSTER_SHARES).all())


def build_map(
    seq: int,
    roster: CardRoster,
    snapshot: Snapshot,
    clusters: ClusterUse,
    busy_percent: Mapping[str, float],
    tenant: str | None,
) -> MapOut:
    """Build the map as one caller may see it.

    Args:
        seq: The number of the last event before the snapshot.
        roster: The cards.
        snapshot: What is held of them.
        clusters: What is held of the cards of clusters.
        busy_percent: How busy each card says that it is, by uuid.
        tenant: The tenant whose name is shown; None shows all.
    """
    table = snapshot.cards
    row_of_uuid = {uuid: row for row, uuid in enumerate(table.uuids)}
    free_milli = table.free_milli.tolist()
    free_bytes = table.free_bytes.tolist()
    rows = [row_of_uuid.get(card.uuid) for card in roster.cards]
    mechanisms = _list_mechanisms(snapshot, rows)
    held_milli = list[int]()
    held_bytes = list[int]()
    largest = list[int]()
    for card, row in zip(roster.cards, rows, strict=True):
        if row is None:
            milli, size = clusters.held.get(card.id, (card.used_milli, card.used_bytes))
        else:
            milli = WHOLE - free_milli[row]
            size = card.memory_bytes - free_bytes[row]
        held_milli.append(milli)
        held_bytes.append(size)
        closed = row is None or row in table.layouts or row in table.owners
        largest.append(0 if closed else _compute_largest(card, milli, size))
    names, shares = _collect_shares(roster, snapshot, rows, clusters, tenant)
    return MapOut(
        seq=seq,
        simulated=roster.simulated,
        nodes=roster.nodes,
        cards=MapCards(
            id=[card.id for card in roster.cards],
            node=roster.node_of_card,
            index=[card.idx for card in roster.cards],
            model=roster.model_of_card,
            state=[card.state for card in roster.cards],
            health=[card.health for card in roster.cards],
            mechanism=mechanisms,
            held_milli=held_milli,
            used_milli=[_convert_percent(busy_percent.get(card.uuid)) for card in roster.cards],
            memory_bytes=[card.memory_bytes for card in roster.cards],
            held_bytes=held_bytes,
            largest_milli=largest,
        ),
        models=roster.models,
        tenants=list(names),
        shares=list(
            chain.from_iterable(
                (share.card, names.get(share.tenant, HIDDEN_TENANT), share.milli)
                for share in shares
            )
        ),
        share_mib=[share.mib for share in shares],
    )


def _compute_largest(card: Any, held_milli: int, held_bytes: int) -> int:
    """Return the compute of the largest share, as `fleet.views.compute_largest_share` does."""
    if card.state != DeviceState.ADOPTED or card.health == DeviceHealth.FAILED:
        return 0
    return WHOLE - held_milli if card.memory_bytes - held_bytes >= MIB else 0


def _convert_percent(percent: float | None) -> int | None:
    return None if percent is None else round(percent * 10)


def _list_mechanisms(snapshot: Snapshot, rows: Sequence[int | None]) -> list[str | None]:
    """Name how a share of each card is made now."""
    offers = snapshot.cards.offers
    # Cards that are alike share their offers: each kind is looked at once.
    known = dict[int, str | None]()
    found = list[str | None]()
    for row in rows:
        card = None if row is None or row not in offers else offers[row]
        if card is None:
            found.append(None)
            continue
        if id(card) not in known:
            known[id(card)] = find_present_mechanism(card)
        found.append(known[id(card)])
    return found


def find_present_mechanism(offers: CardOffers) -> str | None:
    """Name the mechanism that a share of a card gets now; None where it gets none."""
    present = list[MechanismOffer]()
    for offer in offers.mechanisms:
        if offer.availability is OfferAvailability.NOW:
            present.append(offer)
    # Whole cards are offered beside shares: the name of the share says more of the card.
    for offer in present:
        if offer.sizes is not SizeClass.WHOLE and HostKind.PROCESS in offer.hosts:
            return offer.name
    return present[0].name if present else None


def _collect_shares(
    roster: CardRoster,
    snapshot: Snapshot,
    rows: Sequence[int | None],
    clusters: ClusterUse,
    tenant: str | None,
) -> tuple[dict[str, int], list[MapShare]]:
    """Collect the shares by card and start; and the tenants to show, with their positions."""
    card_of_row = {row: card for card, row in enumerate(rows) if row is not None}
    shares = list[MapShare]()
    for job in snapshot.running:
        for row, milli, size in zip(job.rows, job.milli, job.sizes, strict=True):
            # A card that came after the roster was read is on the next map.
            if row in card_of_row:
                card = card_of_row[row]
                shares.append(MapShare(card, job.started_ns, job.tenant, milli, size // MIB))
    card_of_id = {card.id: number for number, card in enumerate(roster.cards)}
    for share in clusters.shares:
        card = card_of_id[share.device_id]
        start_ns = share.start_s * NANOS_PER_SECOND
        shares.append(MapShare(card, start_ns, share.tenant, share.gpu_milli, share.memory_mib))
    shares.sort(key=lambda share: (share.card, share.start_ns))
    holders = {share.tenant for share in shares}
    shown = sorted(holders) if tenant is None else [tenant]
    return dict(zip(shown, range(len(shown)), strict=True)), shares
