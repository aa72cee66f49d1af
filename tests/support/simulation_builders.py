"""Nodes, arrivals and pools for tests of the simulator, in one line each."""

from __future__ import annotations

from gpupool.base.units import GIB, NANOS_PER_SECOND
from gpupool.model.claim import Shape
from gpupool.model.quota import UNLIMITED, Quota, ResourceAmount
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.simulation.replay.world import SimulatedPool, build_card_table
from gpupool.simulation.studies.study import StudyQuestion, list_seeds
from gpupool.simulation.traces.nodes import read_nodes
from gpupool.simulation.traces.synthetic import TraceParameters
from gpupool.simulation.traces.trace import JobArrival, TraceNode

WHOLE, HALF = Shape(1000), Shape(500)

#: A day of work that 8 cards do in less than a second.
SMALL_TRACE = TraceParameters(days=1, cards=8, load_pct=80, median_seconds=7200)


def nodes(*cards: int, model: str = "H200") -> list[TraceNode]:
    """Return nodes `n0`, `n1`, ... with so many cards of 140 GiB each."""
    return [TraceNode(f"n{n}", ((model, 140 * GIB),) * number) for n, number in enumerate(cards)]


def job(
    name: str, at: int, seconds: int, shape: Shape = WHOLE, tenant: str = "default"
) -> JobArrival:
    """Return an arrival; both times are seconds."""
    return JobArrival(name, at * NANOS_PER_SECOND, shape, seconds * NANOS_PER_SECOND, tenant)


def world(*cards_per_node: int, quota: Quota = UNLIMITED) -> SimulatedPool:
    """Return an empty pool with one tenant, `default`."""
    tenants = {"default": TenantView(quota, ResourceAmount())}
    return SimulatedPool(Snapshot(0, build_card_table(nodes(*cards_per_node)), tenants, ()))


def question(*policies: str, seeds: int = 1) -> StudyQuestion:
    """Return a question about `SMALL_TRACE` on one node."""
    return StudyQuestion(read_nodes("1x8xH200"), policies, list_seeds(seeds), synthetic=SMALL_TRACE)


def quiet(_part: float) -> None:
    """Ignore progress."""
