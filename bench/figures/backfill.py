"""A synthetic month of jobs with limits: EASY backfill beside FIFO without it, and whether promised
starts are kept.

Both are the shipped cycle on a virtual clock (`gpupool.simulation`), with the same trace, pool and placement policy.
FIFO sees the oldest job alone, so nothing passes it. The trace is `simulation/traces/synthetic.py`'s with these
parameters:
one tenant, one priority, every job with a limit of one to four times what it takes, so that rank breaks no promise.
Waits are to the first start, a gang counted once; they are virtual time, the same on every machine.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.rows import Row
from gpupool.base.units import GIB
from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.model.quota import UNLIMITED, ResourceAmount
from gpupool.scheduling.snapshot.claims import WaitingClass
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.simulation.replay.promises import PromiseRecord, PromiseReplay
from gpupool.simulation.replay.world import SimulatedPool, build_card_table
from gpupool.simulation.traces.synthetic import TraceParameters, generate_trace
from gpupool.simulation.traces.trace import TraceNode, WorkloadTrace

NAME = "backfill"
COMMAND = "python -m bench backfill"
MONTH = TraceParameters(
    seed=42,
    days=30,
    cards=32,
    load_pct=60,
    median_seconds=3600,
    gang_pct=4,
    several_pct=6,
    low_pct=0,
    high_pct=0,
    limit_pct=100,
    tenants=1,
)
POOL = [
    TraceNode(f"n{number}", (("H200", 140 * GIB),) * MONTH.cards_per_node) for number in range(4)
]


class FifoWorld(SimulatedPool):
    """The oldest job is all that the scheduler is shown: what is behind it waits, whatever is
    free."""

    def take_snapshot(self, now_ns: int) -> Snapshot:
        full = super().take_snapshot(now_ns)
        oldest = min(
            full.waiting, key=lambda waiting: (waiting.oldest_ns, waiting.job_ids[0]), default=None
        )
        return full if oldest is None else replace(full, waiting=(_first(oldest),))


@dataclass(frozen=True)
class Life:
    """What came of one discipline: seconds waited by job, and what was promised."""

    waits: dict[str, float]
    ledger: PromiseRecord
    unstarted: int

    @property
    def mean(self) -> float:
        return statistics.fmean(self.waits.values())

    @property
    def p95(self) -> float:
        """Nearest rank."""
        ordered = sorted(self.waits.values())
        return ordered[-(-len(ordered) * 95 // 100) - 1]


def run(out: Path) -> list[Row]:
    trace = generate_trace(MONTH)
    easy, fifo = live(trace, SimulatedPool), live(trace, FifoWorld)
    halves = {
        one.job
        for one in trace.arrivals
        if 2 * one.shape.count * one.members == MONTH.cards and one.members > 1
    }
    (out / "backfill_waits.json").write_text(
        json.dumps({"easy": easy.waits, "fifo": fifo.waits}, indent=1) + "\n"
    )
    return [*promises(easy, halves), *waits(easy, fifo, halves)]


def live(trace: WorkloadTrace, kind: type[SimulatedPool]) -> Life:
    tenants = {tenant: TenantView(UNLIMITED, ResourceAmount()) for tenant in trace.weights}
    replay = PromiseReplay(kind(Snapshot(0, build_card_table(POOL), tenants, ())))
    outcome = replay.play_arrivals(trace.arrivals)
    came = {one.job: one.at_ns for one in trace.arrivals}
    started = replay.promises.started_ns
    return Life(
        {job: (at - came[job]) / NS for job, at in started.items()},
        replay.promises,
        outcome.left_waiting,
    )


def promises(easy: Life, halves: set[str]) -> list[Row]:
    """Of all starts that were promised, those that were put off or not kept; of gangs of half the
    cluster the same."""
    ledger, late = easy.ledger, set(easy.ledger.late_heads)
    promised_halves = halves & set(ledger.first_ns)
    note = f"of {len(ledger.first_ns)} promised"
    return [
        Row(
            "promised starts put off later on",
            "starts",
            len(ledger.postponements),
            COMMAND,
            limit=0,
            note=note,
        ),
        Row("promised starts that came late", "starts", len(late), COMMAND, limit=0, note=note),
        Row(
            "gangs of half the cluster after their estimate",
            "gangs",
            len(late & promised_halves),
            COMMAND,
            limit=0,
            note=f"of {len(promised_halves)} promised, {len(halves)} in all",
        ),
        Row(
            "jobs that never started",
            "jobs",
            easy.unstarted,
            COMMAND,
            limit=0,
            note=f"of {len(easy.waits)}",
        ),
    ]


def waits(easy: Life, fifo: Life, halves: Sequence[str] | set[str]) -> list[Row]:
    def row(figure: str, ours: float, peer: float, limit: float | None = None) -> Row:
        said = "FIFO without backfill, same cycle"
        return Row(
            figure,
            "s",
            round(ours, 1),
            COMMAND,
            peer=round(peer, 1),
            peer_command=said,
            limit_ratio=limit,
        )

    of_halves = [statistics.fmean(life.waits[job] for job in halves) for life in (easy, fifo)]
    return [
        row("mean wait", easy.mean, fifo.mean, 1.0),
        row("p95 of waits", easy.p95, fifo.p95, 1.0),
        row("mean wait of gangs of half the cluster", *of_halves),
    ]


def _first(waiting: WaitingClass) -> WaitingClass:
    """A gang whole; of a class the oldest job."""
    if waiting.gang is not None:
        return waiting
    return replace(
        waiting, job_ids=waiting.job_ids[:1], submitted_ns=waiting.submitted_ns[:1], count=1
    )
