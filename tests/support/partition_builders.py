"""Cards in partition mode for tests of the scheduler: pools as after `--sim`, claims by the name of
a profile.

pool("2xH200:mig", {"sim-0:0": [(0, "3g.71gb")]})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpupool.model.claim import Shape
from gpupool.model.partition import PartitionProfile, PartitionSlot
from gpupool.probes.mig_tables import list_mig_profiles
from gpupool.scheduling.snapshot.cards import CardTable, PartitionLayout
from gpupool.scheduling.snapshot.claims import RunningJob, WaitingClass
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.simulation.replay.world import build_card_table
from gpupool.simulation.traces.nodes import read_nodes
from tests.support.scheduling_builders import snapshot

H200: Mapping[str, PartitionProfile] = {one.name: one for one in list_mig_profiles("H200")}
SECOND = 10**9

Pieces = Sequence[tuple[int, str]]


def piece(start: int, name: str, profiles: Mapping[str, PartitionProfile] = H200) -> PartitionSlot:
    return PartitionSlot(start, profiles[name].size, name)


def part(name: str, count: int = 1, **more: object) -> Shape:
    return Shape(H200[name].gpu_milli, None, count, profile=name, **more)  # type: ignore[arg-type]


def pool(sim: str, taken: Mapping[str, Pieces] | None = None) -> CardTable:
    """The cards of a description, with these pieces (of H200) cut already."""
    cards = build_card_table(read_nodes(sim))
    cuts, milli, size = dict(cards.layouts), cards.free_milli.copy(), cards.free_bytes.copy()
    for name, pieces in (taken or {}).items():
        row = cards.uuids.index(name)
        cuts[row] = PartitionLayout(
            cuts[row].profiles, tuple(sorted(piece(*one) for one in pieces))
        )
        milli[row] -= sum(H200[profile].gpu_milli for _, profile in pieces)
        size[row] -= sum(H200[profile].memory_bytes for _, profile in pieces)
    return replace(cards, layouts=cuts, free_milli=milli, free_bytes=size)


def on(
    cards: CardTable,
    job: str,
    card: str,
    start: int,
    name: str,
    *,
    ends: int | None = None,
    priority: int = 0,
    preemptible: bool = False,
    leaving_for: str = "",
) -> RunningJob:
    """A job in that piece of a card; `ends` in seconds."""
    row, profile = cards.uuids.index(card), H200[name]
    return RunningJob(
        job,
        "nlp",
        priority,
        (row,),
        (profile.gpu_milli,),
        (profile.memory_bytes,),
        part(name),
        0,
        None if ends is None else ends * SECOND,
        preemptible=preemptible,
        beneficiary=leaving_for,
        slots=(piece(start, name),),
    )


def asked(
    name: str,
    *heads: str,
    priority: int = 0,
    seconds: int | None = None,
    count: int = 1,
    at: int = 0,
) -> WaitingClass:
    shape = part(name, count)
    return WaitingClass("nlp", priority, shape, heads, len(heads), at * SECOND, seconds=seconds)


def with_jobs(cards: CardTable, jobs: Sequence[RunningJob], *classes: WaitingClass) -> Snapshot:
    return replace(snapshot(cards, *classes), running=tuple(jobs))


def starts(plan: object) -> dict[str, tuple[str, int]]:
    """By job, the card and the unit that its piece starts at."""
    found = {}
    for placement in plan.placements:  # type: ignore[attr-defined]
        for seat in placement.seats:
            found[placement.job] = (seat.device, seat.partition.start)
    return found
