"""A trace's claims to partitions, as the simulated nodes publish them: which profile is meant, and how much it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpupool.base.errors import BadTrace
from gpupool.model.claim import Shape
from gpupool.scheduling import profiles
from gpupool.scheduling.snapshot import Cards
from gpupool.simulation.trace import Node, Trace
from gpupool.simulation.world import columns_of


def resolved(trace: Trace, nodes: Sequence[Node]) -> Trace:
    """The trace with every profile by its full name. Raises BadTrace where no node has it, or nodes differ."""
    asked = dict.fromkeys(one.shape for one in trace.arrivals if one.shape.profile is not None)
    if not asked:
        return trace
    cards = columns_of(nodes)
    known = {shape: _resolved(trace.name, shape, cards) for shape in asked}
    return replace(trace, arrivals=tuple(replace(one, shape=known.get(one.shape, one.shape)) for one in trace.arrivals))


def _resolved(trace: str, shape: Shape, cards: Cards) -> Shape:
    found = profiles.meant(shape.profile or "", shape.model, cards)
    if len(found) == 1:
        return replace(shape, profile=found[0].name, gpu_milli=found[0].gpu_milli)
    has = ", ".join(profiles.names(shape.model, cards)) or "none"
    if not found:
        raise BadTrace(
            f"{trace}: no card can be cut into {shape.profile}; the nodes publish: {has}",
            hint="nodes in partition mode are described as  2xH200:mig, or by the column partitioned of a table",
        )
    several = ", ".join(f"{one.name} ({one.gpu_milli} milli)" for one in found)
    raise BadTrace(f"{trace}: {shape.profile} means {several}", hint="write the full name, or name the model beside it")
