"""From a plan to what is written: entries per node, then the patch that releases each pod. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from gpupool.base.units import MIB, format_share
from gpupool.kubernetes import gangs, names, restoring
from gpupool.kubernetes.objects import Entry
from gpupool.kubernetes.pods import Pod
from gpupool.kubernetes.pool import Pool
from gpupool.model.allocation import Seat
from gpupool.scheduling.snapshot import Placement


def entries_by_node(placements: Iterable[Placement], pool: Pool) -> dict[str, list[Entry]]:
    """What the plan adds to each ledger; a pod that is gone since it was planned is left out."""
    found: defaultdict[str, list[Entry]] = defaultdict(list)
    for placement in placements:
        uid, container = gangs.parts_of(placement.job)
        pod = next(iter(pool.queue.gang(placement.gang)), None) if gangs.expected(uid) else pool.pods.get(uid)
        if pod is not None and (pod.waits or restoring.is_let_go(pod)):
            found[placement.node].append(_entry(pod, uid, container, placement.seats, pool.tenant(pod)))
    return dict(found)


def generations(placements: Iterable[Placement]) -> dict[str, int]:
    """By node the generation of its ledger that the plan knew."""
    return {placement.node: placement.generations[0] for placement in placements}


def _entry(pod: Pod, uid: str, container: str, seats: Sequence[Seat], tenant: str) -> Entry:
    """The pod's, or that of a member of its gang which does not exist yet."""
    ask = next((one for one in pod.asks if one.container == container), pod.asks[0])
    return Entry(
        uid=uid,
        namespace=pod.namespace,
        pod=pod.name if uid == pod.uid else "",
        container=container,
        seats=tuple(seats),
        tenant=tenant,
        sharing=ask.shape.sharing,
        priority=pod.priority,
        gang=pod.gang,
        account=pod.account,
        reservation=pod.reservation,
    )


def told(node: str, entries: Sequence[Entry]) -> dict[str, str]:
    """What people may read on the pod: the cards, container by container."""
    lines = [f"{entry.container}: {_cards(entry)}" for entry in entries]
    return {names.PLACED: f"{node}: {'; '.join(lines)}"}


def _cards(entry: Entry) -> str:
    return ", ".join(
        f"{seat.device} {format_share(seat.gpu_milli, seat.memory_bytes // MIB * MIB, 1)}" for seat in entry.seats
    )
