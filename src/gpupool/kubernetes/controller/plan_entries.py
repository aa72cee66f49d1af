"""Translates a plan into ledger entries and the annotation of a placed pod. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpupool.base.units import MIB, format_share
from gpupool.kubernetes.cache import ledger_restore
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.resources import gang, names
from gpupool.kubernetes.resources.gpu_node import Entry
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.kubernetes.resources.pod import Pod
from gpupool.model.allocation import Seat
from gpupool.model.claim import Shape, SharingKind
from gpupool.model.isolation.claim_needs import IsolationKind
from gpupool.model.sharing_default import choose_sharing
from gpupool.scheduling import JobPlacement


def entries_by_node(
    placements: Iterable[JobPlacement], cluster: ClusterCache
) -> dict[str, list[Entry]]:
    """Entries that the plan adds to each ledger. Pods that have left meanwhile are omitted."""
    found: defaultdict[str, list[Entry]] = defaultdict(list)
    for placement in placements:
        uid, container = gang.split_job_name(placement.job)
        if gang.is_future_member(uid):
            # A member that does not exist yet is described by any waiting member of its gang.
            pod = next(iter(cluster.queue.gang_pods(placement.gang)), None)
        else:
            pod = cluster.pods.get(uid)
        if pod is not None and (pod.is_waiting or ledger_restore.is_released(pod)):
            entry = _build_entry(pod, uid, container, placement.seats, cluster.tenant_of(pod))
            # The default of the node at this moment: an entry keeps what it was written with.
            shape = _find_shape(pod, container)
            sharing = _choose_sharing(shape, cluster.hosts.get(placement.node))
            isolation = shape.needs.isolation or IsolationKind.NONE
            found[placement.node].append(replace(entry, sharing=sharing, isolation=isolation))
    return dict(found)


def planned_generations(placements: Iterable[JobPlacement]) -> dict[str, int]:
    """By node, the generation of the ledger that the plan was made from."""
    return {placement.node: placement.generations[0] for placement in placements}


def _build_entry(pod: Pod, uid: str, container: str, seats: Sequence[Seat], tenant: str) -> Entry:
    """The entry of the pod, or of a member of its gang that does not exist yet."""
    return Entry(
        uid=uid,
        namespace=pod.namespace,
        pod=pod.name if uid == pod.uid else "",
        container=container,
        seats=tuple(seats),
        tenant=tenant,
        priority=pod.priority,
        gang=pod.gang,
        account=pod.account,
        reservation=pod.reservation,
    )


def _find_shape(pod: Pod, container: str) -> Shape:
    by_container = {one.container: one for one in pod.asks}
    return by_container.get(container, pod.asks[0]).shape


def _choose_sharing(shape: Shape, host: NodeFacts | None) -> SharingKind:
    """Return what the claim names, or the default that its node has now."""
    return choose_sharing(shape, {} if host is None else host.labels)


def placement_annotation(node: str, entries: Sequence[Entry]) -> dict[str, str]:
    """The annotation that names the pod's cards, container by container."""
    lines = []
    for entry in entries:
        # A node's default can be the reason, so the pod itself does not name it.
        kind = "" if entry.sharing is SharingKind.FIXED else f" ({entry.sharing})"
        lines.append(f"{entry.container}: {_format_cards(entry)}{kind}")
    return {names.PLACED: f"{node}: {'; '.join(lines)}"}


def _format_cards(entry: Entry) -> str:
    cards = []
    for seat in entry.seats:
        if seat.partition is not None:
            cards.append(f"{seat.device} {seat.partition.profile} at unit {seat.partition.start}")
            continue
        # Whole MiB: a share of 30 % of a card rarely is a round number of bytes.
        share = format_share(seat.gpu_milli, seat.memory_bytes // MIB * MIB, 1)
        cards.append(f"{seat.device} {share}")
    return ", ".join(cards)
