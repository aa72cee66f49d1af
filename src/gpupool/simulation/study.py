"""One question to the simulator: this trace, on these nodes, under each of these policies, with each of these seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from gpupool.base.units import WHOLE
from gpupool.model.claim import Rejection, Shape
from gpupool.model.quota import UNLIMITED, WEIGHT, Amount
from gpupool.scheduling.policies import DEFAULT, named
from gpupool.scheduling.snapshot import ClassKey, Snapshot, TenantView
from gpupool.simulation.foreknowledge import ONLINE, Foreknowledge
from gpupool.simulation.fragments import expected_of
from gpupool.simulation.measure import Figures, Meter
from gpupool.simulation.parallel import Tell, run_all
from gpupool.simulation.partitioned import resolved
from gpupool.simulation.replay import Replay, Watcher
from gpupool.simulation.synthetic import Parameters, described, generate
from gpupool.simulation.trace import Node, Trace
from gpupool.simulation.world import Job, World, columns_of

FORMAT = "gpupool-simulation 1"
FIRST_SEED = 42
DEFAULT_POLICY = DEFAULT


@dataclass(frozen=True)
class Question:
    """`trace`, or `synthetic` parameters of which each seed makes a trace of its own."""

    nodes: tuple[Node, ...]
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    trace: Trace | None = None
    synthetic: Parameters | None = None
    shapes: tuple[Shape, ...] = ()
    """What jobs of a made-up trace ask for, if not what its parameters say."""
    knowledge: str = ONLINE
    """What the pool knows of the claims to come (`foreknowledge`)."""

    @property
    def source(self) -> str:
        return self.trace.name if self.trace else "synthetic"


@dataclass(frozen=True)
class Case:
    """One policy with one seed."""

    question: Question
    policy: str
    seed: int


@dataclass(frozen=True)
class Life:
    """What came of one case."""

    policy: str
    seed: int
    figures: Figures


def seeds_of(number: int) -> tuple[int, ...]:
    """42, 43, ...: those of the paper."""
    return tuple(range(FIRST_SEED, FIRST_SEED + number))


def ask(question: Question, told: Tell, workers: int | None = None) -> list[Life]:
    """Every case, by policy and then by seed. Raises UnknownPolicy, BadTrace before anything runs."""
    return run_all(live, cases_of(question), told, workers)


def cases_of(question: Question) -> list[Case]:
    """By policy and then by seed. Raises UnknownPolicy."""
    for policy in question.policies:
        named(policy)
    return [Case(question, policy, seed) for policy in question.policies for seed in question.seeds]


def live(case: Case, tell: Tell) -> Life:
    """One case from the first arrival until nothing more can happen."""
    return watched(case, tell)


class Recorder(Watcher, Protocol):
    """A watcher that writes down all of a life, what waits at its end included."""

    def left(self, jobs: Iterable[Job], why: Mapping[ClassKey, Rejection], now_ns: int) -> None: ...


def watched(case: Case, tell: Tell, recorder: Callable[[World], Recorder] | None = None) -> Life:
    """The same written down by a recorder of its world, made once there is one; placements have their scores."""
    trace = trace_of(case.question, case.seed)
    world = World(beginning(trace, case.question.nodes, case.policy))
    window = trace.arrivals[0].at_ns, trace.arrivals[-1].at_ns
    whole = world.first.expected
    known = Foreknowledge(case.question.knowledge, whole, WHOLE * len(world.cards))
    meter = Meter(world, window, whole, trace.weights)
    record = None if recorder is None else recorder(world)
    watchers = [meter] if record is None else [meter, record]
    replay = Replay(world, watchers, known=known, keeps_scores=record is not None)
    outcome = replay.run(trace.arrivals, progress=lambda done, all_: tell(done / max(1, all_)))
    if record is not None:
        record.left(world.waiting(), replay.why_waiting(outcome.ended_ns), outcome.ended_ns)
    return Life(case.policy, case.seed, meter.figures(world, outcome))


def trace_of(question: Question, seed: int) -> Trace:
    if question.trace is not None:
        return resolved(question.trace, question.nodes)
    assert question.synthetic is not None
    return resolved(generate(replace(question.synthetic, seed=seed), question.shapes), question.nodes)


def beginning(trace: Trace, nodes: Sequence[Node], policy: str) -> Snapshot:
    """The pool before the first arrival: everything free, tenants with the trace's quotas, all of it expected."""
    names = dict.fromkeys([*trace.weights, *(one.tenant for one in trace.arrivals)])
    tenants = {name: _view(trace, name) for name in names}
    return Snapshot(0, columns_of(nodes), tenants, (), policy, expected=expected_of(trace.arrivals))


def _view(trace: Trace, name: str) -> TenantView:
    weight = trace.weights.get(name, 1)
    return TenantView(trace.quotas.get(name, UNLIMITED), Amount(), weight_milli=weight * WEIGHT)


def document(question: Question, lives: Sequence[Life]) -> dict[str, Any]:
    """Everything, ready for JSON."""
    return {
        "format": FORMAT,
        "trace": question.source,
        "knowledge": question.knowledge,
        "synthetic": question.synthetic and described(question.synthetic),
        "nodes": len(question.nodes),
        "cards": sum(len(node.cards) for node in question.nodes),
        "runs": [{"policy": one.policy, "seed": one.seed, **asdict(one.figures)} for one in lives],
    }


def rows(lives: Sequence[Life]) -> list[dict[str, Any]]:
    """For the terminal: one row per policy, means over its seeds; None where one of them is unknown."""
    policies = dict.fromkeys(one.policy for one in lives)
    return [_row(policy, [one.figures for one in lives if one.policy == policy]) for policy in policies]


def _row(policy: str, figures: Sequence[Figures]) -> dict[str, Any]:
    waits = [one.waits["all"] for one in figures]
    return {
        "policy": policy,
        "allocation_pct": mean([one.allocation_pct for one in figures]),
        "fragment_pct": mean([one.fragment_pct for one in figures]),
        "p50": mean([one.p50 for one in waits]),
        "p95": mean([one.p95 for one in waits]),
        "p99": mean([one.p99 for one in waits]),
        "whole_nodes": mean([one.whole_nodes for one in figures]),
        "evictions": mean([one.evictions for one in figures]),
        "lost_card_hours": mean([one.lost_card_hours for one in figures]),
        "unstarted": mean([one.unstarted for one in figures]),
        "promised": sum(one.promises.kept + one.promises.broken for one in figures),
        "broken": sum(one.promises.broken for one in figures),
        "refused": mean([sum(one.refused.values()) for one in figures]),
        "jobs": mean([one.jobs for one in figures]),
    }


def mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 3) if known and len(known) == len(values) else None
