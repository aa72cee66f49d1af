"""Resolve the partition profiles that a trace names by what the simulated nodes publish."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpupool.base.errors import BadTrace
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering import partition_profiles
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.simulation.replay.world import build_card_table
from gpupool.simulation.traces.trace import JobArrival, TraceNode, WorkloadTrace


def resolve_trace(trace: WorkloadTrace, nodes: Sequence[TraceNode]) -> WorkloadTrace:
    """Return the trace with every profile by its full name and size.

    Raises:
        BadTrace: where no node has a profile, or nodes differ in what its name means.
    """
    cards: CardTable | None = None
    known: dict[Shape, Shape] = {}
    arrivals: list[JobArrival] = []
    for arrival in trace.arrivals:
        shape = arrival.shape
        if shape.profile is None:
            arrivals.append(arrival)
            continue
        if cards is None:
            cards = build_card_table(nodes)
        if shape not in known:
            known[shape] = _resolve_shape(trace.name, shape, cards)
        arrivals.append(replace(arrival, shape=known[shape]))
    return trace if cards is None else replace(trace, arrivals=tuple(arrivals))


def _resolve_shape(trace: str, shape: Shape, cards: CardTable) -> Shape:
    found = partition_profiles.resolve_profiles(shape.profile or "", shape.model, cards)
    if len(found) == 1:
        return replace(shape, profile=found[0].name, gpu_milli=found[0].gpu_milli)
    has = ", ".join(partition_profiles.list_profile_names(shape.model, cards)) or "none"
    if not found:
        raise BadTrace(
            f"{trace}: no card can be cut into {shape.profile}; the nodes publish: {has}",
            hint="nodes in partition mode are described as  2xH200:mig, or by the column partitioned of a table",
        )
    several = ", ".join(f"{one.name} ({one.gpu_milli} milli)" for one in found)
    raise BadTrace(
        f"{trace}: {shape.profile} means {several}",
        hint="write the full name, or name the model beside it",
    )
