"""What the pool could still give, for whoever asks: numbers of cards, nobody's jobs."""

from __future__ import annotations

import numpy as np

from gpupool.model.quota import GPU, MEMORY
from gpupool.scheduling.capacity import Room, Seen, mean, rooms, seen_by
from gpupool.scheduling.free import Free
from gpupool.scheduling.quotas import Quotas
from gpupool.scheduling.snapshot import Floats, Snapshot
from gpupool.wire.capacity import CapacityOut, ClassRoom, ModelRoom, NodeRoom, OwnRoom


def capacity(snapshot: Snapshot, tenant: str | None = None) -> CapacityOut:
    """By model, by node, by what is expected, and what the quotas leave a tenant."""
    free = Free(snapshot.cards)
    seen = seen_by(free, snapshot.expected)
    lost = mean(seen)
    return CapacityOut(
        models=[_model(room) for room in rooms(free, lost)],
        nodes=_nodes(free, lost),
        classes=[_class(one) for one in seen],
        yours=_own(snapshot, free, tenant) if tenant is not None and tenant in snapshot.tenants else None,
    )


def _own(snapshot: Snapshot, free: Free, tenant: str) -> OwnRoom:
    quotas = Quotas(snapshot, free)
    quotas.firm = False
    soft = [quotas.left(tenant, GPU), quotas.left(tenant, MEMORY), quotas.most(tenant, GPU)]
    quotas.firm = True
    firm = [quotas.left(tenant, GPU), quotas.left(tenant, MEMORY), quotas.most(tenant, GPU)]
    return OwnRoom(
        tenant=tenant,
        firm_milli=firm[0],
        firm_bytes=firm[1],
        preemptible_milli=soft[0],
        preemptible_bytes=soft[1],
        most_firm_milli=firm[2],
        most_preemptible_milli=soft[2],
    )


def _model(room: Room) -> ModelRoom:
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
    )


def _nodes(free: Free, lost: Floats | None) -> list[NodeRoom]:
    names = free.cards.nodes
    open_milli = np.where(free.open, np.maximum(free.milli, 0), 0)
    milli = np.bincount(free.cards.node, weights=open_milli, minlength=len(names))
    whole = free.count_by_node(free.untouched())
    fragments = None if lost is None else np.bincount(free.cards.node, weights=lost, minlength=len(names))
    return [
        NodeRoom(
            node=name,
            free_milli=int(milli[node]),
            whole_free=int(whole[node]),
            fragment_milli=None if fragments is None else round(float(fragments[node]), 1),
        )
        for node, name in enumerate(names)
    ]


def _class(seen: Seen) -> ClassRoom:
    amount = int(seen.fragments.sum())
    return ClassRoom(share=str(seen.shape), model=seen.shape.model, part=round(seen.part, 4), fragment_milli=amount)
