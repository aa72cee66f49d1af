"""Serve the routes on which a cluster's meter reports what its nodes hold, below /api/v1."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from gpupool.api.late_routes import Router
from gpupool.metering.clusters import ClusterBooks
from gpupool.model.tenant import Permission, Principal
from gpupool.tenancy.access import require_caller
from gpupool.wire.cluster import ClusterNodeIn, ClusterNodeOut

router = Router(tags=["metering"])


def get_cluster_books(request: Request) -> ClusterBooks:
    state = request.app.state
    return ClusterBooks(state.store, state.metering, state.billing.charging.remake_since)


Books = Annotated[ClusterBooks, Depends(get_cluster_books)]
Meter = Annotated[Principal, Depends(require_caller(Permission.TELL_CLUSTER))]


@router.put("/cluster/nodes/{node}")
def tell_cluster_node(
    node: str, body: ClusterNodeIn, books: Books, caller: Meter
) -> ClusterNodeOut:
    """A node's ledger as it is: its cards, what is held of them, and what ended. The same again
    changes nothing."""
    return books.record_node(node, body, caller.user)


@router.get("/cluster/nodes")
def list_cluster_nodes(books: Books, caller: Meter) -> list[str]:
    """Nodes that this caller has told and not ended: those that its cluster has no more are to be
    ended."""
    return books.list_nodes(caller.user)


@router.delete("/cluster/nodes/{node}", status_code=204)
def end_cluster_node(node: str, books: Books, caller: Meter) -> None:
    """A node that this caller told is no more: what it held ends now. Twice is once."""
    books.end_node(node, caller.user)
