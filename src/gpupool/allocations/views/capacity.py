"""Free capacity for any caller: numbers of cards, no jobs of other tenants."""

from __future__ import annotations

import numpy as np

from gpupool.model.quota import GPU, MEMORY
from gpupool.scheduling import (
    Floats,
    FreeCapacity,
    ModelCapacity,
    ShapeFragments,
    Snapshot,
    WorkingQuotas,
    compute_mean_fragment,
    find_owned_cards,
    list_model_capacities,
    list_shape_fragments,
)
from gpupool.wire.capacity import CapacityOut, ClassRoom, ModelRoom, NodeRoom, OwnRoom


def describe_capacity(snapshot: Snapshot, tenant: str | None = None) -> CapacityOut:
    """Describe free capacity by model and node, and what the quotas leave a tenant."""
    free = FreeCapacity(snapshot.cards)
    seen = list_shape_fragments(free, snapshot.expected)
    lost = compute_mean_fragment(seen)
    yours = None
    # The caller's tenant may be younger than the snapshot.
    if tenant is not None and tenant in snapshot.tenants:
        yours = describe_tenant_room(snapshot, free, tenant)
    return CapacityOut(
        models=list(map(_describe_model, list_model_capacities(free, lost))),
        nodes=_describe_nodes(free, lost),
        classes=list(map(_describe_class, seen)),
        yours=yours,
    )


def describe_tenant_room(snapshot: Snapshot, free: FreeCapacity, tenant: str) -> OwnRoom:
    """Describe what the quotas leave a tenant of the snapshot, whatever cards are free."""
    quotas = WorkingQuotas(snapshot, free)
    # Once as a preemptible job would be judged, and once as one that is not.
    quotas.firm = False
    soft = [
        quotas.get_room(tenant, GPU),
        quotas.get_room(tenant, MEMORY),
        quotas.get_room_when_empty(tenant, GPU),
    ]
    quotas.firm = True
    firm = [
        quotas.get_room(tenant, GPU),
        quotas.get_room(tenant, MEMORY),
        quotas.get_room_when_empty(tenant, GPU),
    ]
    return OwnRoom(
        tenant=tenant,
        firm_milli=firm[0],
        firm_bytes=firm[1],
        preemptible_milli=soft[0],
        preemptible_bytes=soft[1],
        most_firm_milli=firm[2],
        most_preemptible_milli=soft[2],
    )


def _describe_model(room: ModelCapacity) -> ModelRoom:
    return ModelRoom(
        model=room.model,
        cards=room.cards,
        free_milli=room.free_milli,
        largest_milli=room.gpu_milli,
        largest_bytes=room.memory_bytes,
        whole_free=room.whole_free,
        whole_on_one_node=room.whole_on_one_node,
        whole_nodes=room.whole_nodes,
        fragment_milli=room.fragment_milli,
        cut_cards=room.cut_cards,
        profiles=dict(room.profiles),
        mps_cards=room.mps_cards,
        mps_free_milli=room.mps_free_milli,
    )


def _describe_nodes(free: FreeCapacity, lost: Floats | None) -> list[NodeRoom]:
    names = free.cards.nodes
    usable = free.open & ~find_owned_cards(free)
    open_milli = np.where(usable, np.maximum(free.milli, 0), 0)
    milli = np.bincount(free.cards.node, weights=open_milli, minlength=len(names))
    whole = free.count_cards_by_node(free.is_untouched())
    fragments = (
        None if lost is None else np.bincount(free.cards.node, weights=lost, minlength=len(names))
    )
    rooms = list[NodeRoom]()
    for node, name in enumerate(names):
        fragment = None if fragments is None else round(float(fragments[node]), 1)
        free_milli = int(milli[node])
        whole_free = int(whole[node])
        rooms.append(
            NodeRoom(
                node=name,
                free_milli=free_milli,
                whole_free=whole_free,
                fragment_milli=fragment,
            )
        )
    return rooms


def _describe_class(seen: ShapeFragments) -> ClassRoom:
    amount = int(seen.fragments.sum())
    return ClassRoom(
        share=str(seen.shape),
        model=seen.shape.model,
        part=round(seen.part, 4),
        fragment_milli=amount,
    )
