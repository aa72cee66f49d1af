"""Answer one question to the simulator: a trace on nodes, under each policy, with each seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from gpupool.base.units import WHOLE
from gpupool.model.claim import Rejection, Shape
from gpupool.model.quota import UNLIMITED, WEIGHT, ResourceAmount
from gpupool.scheduling.scoring import registry
from gpupool.scheduling.scoring.registry import find_policy
from gpupool.scheduling.snapshot.claims import ClassKey
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.simulation.replay.foreknowledge import ONLINE, Foreknowledge
from gpupool.simulation.replay.fragments import count_arrivals
from gpupool.simulation.replay.measure import LifeFigures, LifeMeter
from gpupool.simulation.replay.parallel import TellProgress, run_all
from gpupool.simulation.replay.profile_resolution import resolve_trace
from gpupool.simulation.replay.replay import Replay, ReplayWatcher
from gpupool.simulation.replay.world import SimulatedJob, SimulatedPool, build_card_table
from gpupool.simulation.traces.synthetic import TraceParameters, generate_trace, list_parameters
from gpupool.simulation.traces.trace import TraceNode, WorkloadTrace

#: First word of results.json; the number rises if a field changes its meaning.
FORMAT = "gpupool-simulation 1"
FIRST_SEED = 42
DEFAULT_POLICY = registry.DEFAULT_POLICY


@dataclass(frozen=True)
class StudyQuestion:
    """What to simulate: `trace`, or `synthetic` parameters that give each seed a trace of its own."""

    nodes: tuple[TraceNode, ...]
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    trace: WorkloadTrace | None = None
    synthetic: TraceParameters | None = None
    #: What jobs of a made-up trace ask for, if not what its parameters say.
    shapes: tuple[Shape, ...] = ()
    #: What the pool knows of the claims to come (`foreknowledge`).
    knowledge: str = ONLINE

    @property
    def source(self) -> str:
        return self.trace.name if self.trace else "synthetic"


@dataclass(frozen=True)
class StudyCase:
    """One policy with one seed."""

    question: StudyQuestion
    policy: str
    seed: int


@dataclass(frozen=True)
class SimulatedLife:
    """The figures of one case."""

    policy: str
    seed: int
    figures: LifeFigures


def list_seeds(number: int) -> tuple[int, ...]:
    """Return the seeds 42, 43, ..., which are those of the paper."""
    return tuple(range(FIRST_SEED, FIRST_SEED + number))


def answer_question(
    question: StudyQuestion, told: TellProgress, workers: int | None = None
) -> list[SimulatedLife]:
    """Simulate every case on all processors; return them by policy and then by seed. Blocks.

    Raises:
        UnknownPolicy, BadTrace: before anything runs.
    """
    return run_all(simulate_case, list_cases(question), told, workers)


def list_cases(question: StudyQuestion) -> list[StudyCase]:
    """List the cases by policy and then by seed. Raises UnknownPolicy."""
    cases: list[StudyCase] = []
    for policy in question.policies:
        find_policy(policy)
        for seed in question.seeds:
            cases.append(StudyCase(question, policy, seed))
    return cases


def simulate_case(case: StudyCase, tell: TellProgress) -> SimulatedLife:
    """Simulate one case from the first arrival until nothing more can happen."""
    return watch_case(case, tell)


class LifeRecorder(ReplayWatcher, Protocol):
    """A watcher that records all of a life, with the jobs that wait at its end."""

    def on_left_waiting(
        self, jobs: Iterable[SimulatedJob], why: Mapping[ClassKey, Rejection], now_ns: int
    ) -> None: ...


def watch_case(
    case: StudyCase,
    tell: TellProgress,
    recorder: Callable[[SimulatedPool], LifeRecorder] | None = None,
) -> SimulatedLife:
    """Simulate one case with a recorder of its pool; placements then have their scores.

    `recorder` makes the recorder once the pool exists. Scores are computed only for it: they cost
    time and change no decision.
    """
    trace = build_case_trace(case.question, case.seed)
    world = SimulatedPool(build_empty_pool(trace, case.question.nodes, case.policy))
    window = trace.arrivals[0].at_ns, trace.arrivals[-1].at_ns
    whole = world.first.expected
    known = Foreknowledge(case.question.knowledge, whole, WHOLE * len(world.cards))
    meter = LifeMeter(world, window, whole, trace.weights)
    record = None if recorder is None else recorder(world)
    watchers = [meter] if record is None else [meter, record]
    replay = Replay(world, watchers, known=known, keeps_scores=record is not None)
    outcome = replay.play_arrivals(
        trace.arrivals, progress=lambda done, all_: tell(done / max(1, all_))
    )
    if record is not None:
        record.on_left_waiting(
            world.list_waiting(), replay.explain_waiting(outcome.ended_ns), outcome.ended_ns
        )
    return SimulatedLife(case.policy, case.seed, meter.compute_figures(world, outcome))


def build_case_trace(question: StudyQuestion, seed: int) -> WorkloadTrace:
    if question.trace is not None:
        return resolve_trace(question.trace, question.nodes)
    assert question.synthetic is not None
    return resolve_trace(
        generate_trace(replace(question.synthetic, seed=seed), question.shapes), question.nodes
    )


def build_empty_pool(trace: WorkloadTrace, nodes: Sequence[TraceNode], policy: str) -> Snapshot:
    """Build the pool before the first arrival: everything free, tenants with the trace's quotas.

    Its expected demand is the whole trace, which `online` knowledge does not use.
    """
    names = dict.fromkeys([*trace.weights, *(one.tenant for one in trace.arrivals)])
    tenants = {name: _build_tenant(trace, name) for name in names}
    return Snapshot(
        0, build_card_table(nodes), tenants, (), policy, expected=count_arrivals(trace.arrivals)
    )


def _build_tenant(trace: WorkloadTrace, name: str) -> TenantView:
    weight = trace.weights.get(name, 1)
    return TenantView(
        trace.quotas.get(name, UNLIMITED), ResourceAmount(), weight_milli=weight * WEIGHT
    )


def build_document(question: StudyQuestion, lives: Sequence[SimulatedLife]) -> dict[str, Any]:
    """Build `results.json`, ready for JSON."""
    runs: list[dict[str, Any]] = []
    for life in lives:
        runs.append({"policy": life.policy, "seed": life.seed, **asdict(life.figures)})
    return {
        "format": FORMAT,
        "trace": question.source,
        "knowledge": question.knowledge,
        "synthetic": question.synthetic and list_parameters(question.synthetic),
        "nodes": len(question.nodes),
        "cards": sum(len(node.cards) for node in question.nodes),
        "runs": runs,
    }


def list_policy_rows(lives: Sequence[SimulatedLife]) -> list[dict[str, Any]]:
    """List a row for each policy, for the terminal: means over its seeds, None if one is unknown."""
    by_policy: dict[str, list[LifeFigures]] = {}
    for life in lives:
        by_policy.setdefault(life.policy, []).append(life.figures)
    return [_build_row(policy, figures) for policy, figures in by_policy.items()]


def _build_row(policy: str, figures: Sequence[LifeFigures]) -> dict[str, Any]:
    waits = [one.waits["all"] for one in figures]
    promised = 0
    broken = 0
    refused: list[int] = []
    for one in figures:
        promised += one.promises.kept + one.promises.broken
        broken += one.promises.broken
        refused.append(sum(one.refused.values()))
    return {
        "policy": policy,
        "allocation_pct": _average_field(figures, "allocation_pct"),
        "fragment_pct": _average_field(figures, "fragment_pct"),
        "p50": _average_field(waits, "p50"),
        "p95": _average_field(waits, "p95"),
        "p99": _average_field(waits, "p99"),
        "whole_nodes": _average_field(figures, "whole_nodes"),
        "evictions": _average_field(figures, "evictions"),
        "lost_card_hours": _average_field(figures, "lost_card_hours"),
        "unstarted": _average_field(figures, "unstarted"),
        # Sums, not means: one broken promise in ten seeds must not be rounded away.
        "promised": promised,
        "broken": broken,
        "refused": compute_mean(refused),
        "jobs": _average_field(figures, "jobs"),
    }


def _average_field(figures: Sequence[object], name: str) -> float | None:
    return compute_mean([getattr(one, name) for one in figures])


def compute_mean(values: Sequence[float | None]) -> float | None:
    """Return the mean, None if there is no value or one is unknown.

    A mean over the known ones alone would flatter a policy whose worst seed is unknown.
    """
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return round(sum(known) / len(known), 3)
