"""Promises and what became of them, of lives small enough to be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

from bench.figures.promises import BUSY
from gpupool.base.units import GIB
from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.model.claim import Shape
from gpupool.model.quota import UNLIMITED, Quota, ResourceAmount
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.simulation.replay.promises import PromiseRecord, PromiseReplay
from gpupool.simulation.replay.world import SimulatedPool, build_card_table
from gpupool.simulation.reports.report import render_page
from gpupool.simulation.studies.study import (
    StudyCase,
    StudyQuestion,
    build_document,
    list_policy_rows,
    simulate_case,
)
from gpupool.simulation.traces.synthetic import generate_trace
from gpupool.simulation.traces.trace import JobArrival, TraceNode, WorkloadTrace

WHOLE, BOTH = Shape(1000), Shape(1000, count=2)


def ledger(*arrivals: JobArrival) -> PromiseRecord:
    world = SimulatedPool(
        Snapshot(
            0,
            build_card_table([TraceNode("n", (("H200", 140 * GIB),) * 2)]),
            {"t": TenantView(UNLIMITED, ResourceAmount())},
            (),
        )
    )
    replay = PromiseReplay(world)
    replay.play_arrivals(arrivals)
    return replay.promises


def job(name: str, at: int, seconds: int, limit: int, shape: Shape = WHOLE) -> JobArrival:
    return JobArrival(name, at * NS, shape, seconds * NS, "t", limit_seconds=limit)


def test_a_head_is_promised_the_limit_of_what_runs_and_starts_earlier_when_that_ends_earlier() -> (
    None
):
    found = ledger(job("a", 0, 50, 100), job("b", 1, 10, 10, BOTH))
    assert (found.first_ns, found.started_ns["b"]) == ({"b": 100 * NS}, 50 * NS)
    assert (found.postponements, found.late_heads) == ([], [])


def test_a_job_that_outlives_its_limit_makes_the_promise_late_and_that_is_seen() -> None:
    found = ledger(job("a", 0, 200, 100), job("b", 1, 10, 10, BOTH), job("c", 150, 1, 1))
    assert found.postponements[0] == ("b", 100 * NS, 160 * NS)
    assert found.late_heads == ["b"]


def test_a_life_counts_promises_kept_and_broken_and_results_and_report_say_so() -> None:
    late = (job("a", 0, 400, 100), job("b", 1, 10, 10, BOTH))
    nodes = (TraceNode("n", (("H200", 140 * GIB),) * 2),)
    trace = WorkloadTrace("by hand", (*late, job("c", 1000, 50, 100), job("d", 1001, 10, 10, BOTH)))
    question = StudyQuestion(nodes, ("binpack",), (1,), trace=trace)
    found = simulate_case(StudyCase(question, "binpack", 1), lambda _part: None)
    assert (found.figures.promises.kept, found.figures.promises.broken) == (1, 1)
    (run,) = build_document(question, [found])["runs"]
    assert (run["promises"]["kept"], run["promises"]["broken"]) == (1, 1)
    assert list_policy_rows([found])[0]["broken"] == 1
    page = render_page(question, [found])
    assert "promised starts" in page
    assert "broken" in page


def test_what_is_short_enough_passes_the_head_and_what_is_not_does_not() -> None:
    found = ledger(
        job("a", 0, 100, 100),
        job("b", 1, 10, 10, BOTH),
        job("short", 2, 98, 98),
        job("long", 2, 5, 99),
    )
    assert {name: at // NS for name, at in found.started_ns.items()} == {
        "a": 0,
        "short": 2,
        "b": 100,
        "long": 110,
    }


def test_lives_with_tenants_priorities_gangs_and_quotas_break_no_promise_and_say_so() -> None:
    few = replace(BUSY, days=1, cards=8, load_pct=60, seed=7)
    nodes = (TraceNode("n", (("H200", 140 * GIB),) * 8),)
    trace = replace(
        generate_trace(few),
        quotas=dict.fromkeys(("team-1", "team-2"), Quota(2000, borrowing_milli=6000)),
    )
    figures = simulate_case(
        StudyCase(StudyQuestion(nodes, ("binpack",), (7,), trace=trace), "binpack", 7),
        lambda _part: None,
    ).figures
    assert figures.promises.kept >= 10
    assert figures.promises.broken == 0
    assert figures.estimates.kept > figures.estimates.broken
