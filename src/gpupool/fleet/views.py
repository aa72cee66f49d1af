"""Rows of nodes and cards as the wire shows them.

Reads nothing, decides nothing but what may be seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gpupool.base.units import MIB, WHOLE
from gpupool.fleet.registration import public_facts
from gpupool.model.device import DeviceHealth, DeviceState
from gpupool.model.numa import format_cpus, read_host_capacity, read_numa_nodes, read_numa_parts
from gpupool.model.partition import (
    count_fitting,
    format_mix,
    read_occupied_slots,
    read_partition_slots,
    read_profiles,
)
from gpupool.wire.fleet import DeviceOut, NodeOut, NumaOut, PieceOut
from gpupool.wire.modes import ModeSwitchOut
from gpupool.wire.samples import ProcessOut, UsageOut


@dataclass(frozen=True)
class DeviceObservation:
    """The latest sample of one card; `received_ns` is ledger time."""

    received_ns: int
    usage: UsageOut = field(default_factory=UsageOut)
    unmanaged: tuple[ProcessOut, ...] = ()


def device_name(node: str, index: int) -> str:
    return f"{node}:{index}"


def compute_largest_share(row: Any) -> tuple[int, int]:
    """Return (milli, bytes) of the largest share a card can take now, or (0, 0)."""
    if (
        row.state != DeviceState.ADOPTED
        or row.health == DeviceHealth.FAILED
        or row.facts.get("partitioned")
    ):
        return 0, 0
    milli = WHOLE - row.used_milli
    # Shares are counted in whole MiB.
    size = (row.memory_bytes - row.used_bytes) // MIB * MIB
    return (milli, size) if milli and size else (0, 0)


def device_out(
    row: Any,
    node: str,
    seen: DeviceObservation | None,
    *,
    names_shown: bool,
    switch: ModeSwitchOut | None = None,
    owner: str | None = None,
) -> DeviceOut:
    """Return a card's row for the wire.

    Args:
        names_shown: Whether the caller may know which processes outside the pool run on it.
        switch: Its switch to another mode, while one is under way.
        owner: Whose MPS clients it serves, as the caller may read it.
    """
    # What is free on a card of an MPS owner goes to MPS shares of that owner alone.
    is_closed = row.of_cluster or owner is not None
    milli, size = (0, 0) if is_closed else compute_largest_share(row)
    return DeviceOut(
        name=device_name(node, row.idx),
        uuid=row.uuid,
        node=node,
        index=row.idx,
        model=row.model,
        product=row.product,
        memory_bytes=row.memory_bytes,
        simulated=row.simulated,
        state=row.state,
        health=row.health,
        health_reason=row.health_reason,
        used_milli=row.used_milli,
        used_bytes=row.used_bytes,
        free_milli=WHOLE - row.used_milli,
        free_bytes=row.memory_bytes - row.used_bytes,
        shares=row.shares,
        largest_milli=milli,
        largest_bytes=size,
        **_describe_pieces(row),
        usage=UsageOut() if seen is None else seen.usage,
        unmanaged=[] if seen is None else [_hide_process(p, names_shown) for p in seen.unmanaged],
        facts=public_facts(row.facts),
        mode=row.facts.get("mode", "plain"),
        switch=switch,
        mps_owner=owner,
        generation=row.generation,
        cluster=row.of_cluster,
    )


def _describe_pieces(row: Any) -> dict[str, Any]:
    """Describe what a card in partition mode is cut into and what still fits; nothing of others."""
    if not row.facts.get("partitioned"):
        return {}
    profiles = read_profiles(row.facts.get("profiles", ()))
    own = read_partition_slots(row.pieces)
    taken = read_occupied_slots(row.facts, row.pieces)
    opened = row.state == DeviceState.ADOPTED and row.health != DeviceHealth.FAILED
    return {
        "partitions": [
            PieceOut(profile=one.profile, start=one.start, size=one.size) for one in own
        ],
        "mix": format_mix(own),
        "fits": {
            one.name: count_fitting(profiles, taken, one) if opened else 0 for one in profiles
        },
    }


def node_out(row: Any, devices: int, last_seen_ns: int) -> NodeOut:
    return NodeOut(
        name=row.name,
        ready=row.ready,
        simulated=row.simulated,
        labels=row.labels,
        facts=row.facts,
        last_seen_ns=max(row.last_seen_ns, last_seen_ns),
        devices=devices,
        generation=row.generation,
        cluster=row.cluster_generation is not None,
        **_describe_host(row),
        numa=_describe_numa(row),
    )


def _describe_host(row: Any) -> dict[str, int]:
    has = read_host_capacity(row.facts)
    if has is None:
        return {}
    free = has[0] - row.used_cpu_milli, has[1] - row.used_host_bytes
    return {
        "cpu_milli": has[0],
        "host_bytes": has[1],
        "free_cpu_milli": free[0],
        "free_host_bytes": free[1],
    }


def _describe_numa(row: Any) -> list[NumaOut]:
    held = {}
    for part in read_numa_parts(row.used_numa):
        held[part.numa] = part
    found = []
    for node in read_numa_nodes(row.facts):
        _, cpu, size = held.get(node.number, (0, 0, 0))
        whole = 1000 * len(node.cpus)
        found.append(
            NumaOut(
                number=node.number,
                cpus=format_cpus(node.cpus),
                cpu_milli=whole,
                memory_bytes=node.memory_bytes,
                free_cpu_milli=whole - cpu,
                free_bytes=node.memory_bytes - size,
            )
        )
    return found


def _hide_process(process: ProcessOut, names_shown: bool) -> ProcessOut:
    """Hide pid and name of a process from all but admins; every caller sees its memory."""
    return (
        process
        if names_shown
        else ProcessOut(pid=0, name="not shown", memory_bytes=process.memory_bytes)
    )
