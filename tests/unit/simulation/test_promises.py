"""Promises and what became of them, of lives small enough to be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

from bench.figures.promises import BUSY
from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.model.quota import UNLIMITED, Amount, Quota
from gpupool.scheduling.snapshot import Snapshot, TenantView
from gpupool.simulation.promises import Ledger, PromisedReplay
from gpupool.simulation.report import html
from gpupool.simulation.study import Case, Question, document, live, rows
from gpupool.simulation.synthetic import generate
from gpupool.simulation.trace import NS, Arrival, Node, Trace
from gpupool.simulation.world import World, columns_of

WHOLE, BOTH = Shape(1000), Shape(1000, count=2)


def ledger(*arrivals: Arrival) -> Ledger:
    world = World(
        Snapshot(0, columns_of([Node("n", (("H200", 140 * GIB),) * 2)]), {"t": TenantView(UNLIMITED, Amount())}, ())
    )
    replay = PromisedReplay(world)
    replay.run(arrivals)
    return replay.ledger


def job(name: str, at: int, seconds: int, limit: int, shape: Shape = WHOLE) -> Arrival:
    return Arrival(name, at * NS, shape, seconds * NS, "t", limit_seconds=limit)


def test_a_head_is_promised_the_limit_of_what_runs_and_starts_earlier_when_that_ends_earlier() -> None:
    found = ledger(job("a", 0, 50, 100), job("b", 1, 10, 10, BOTH))
    assert (found.first_ns, found.started_ns["b"]) == ({"b": 100 * NS}, 50 * NS)
    assert (found.put_off, found.late) == ([], [])


def test_a_job_that_outlives_its_limit_makes_the_promise_late_and_that_is_seen() -> None:
    found = ledger(job("a", 0, 200, 100), job("b", 1, 10, 10, BOTH), job("c", 150, 1, 1))
    assert found.put_off[0] == ("b", 100 * NS, 160 * NS)
    assert found.late == ["b"]


def test_a_life_counts_promises_kept_and_broken_and_results_and_report_say_so() -> None:
    late = (job("a", 0, 400, 100), job("b", 1, 10, 10, BOTH))
    nodes = (Node("n", (("H200", 140 * GIB),) * 2),)
    trace = Trace("by hand", (*late, job("c", 1000, 50, 100), job("d", 1001, 10, 10, BOTH)))
    question = Question(nodes, ("binpack",), (1,), trace=trace)
    found = live(Case(question, "binpack", 1), lambda _part: None)
    assert (found.figures.promises.kept, found.figures.promises.broken) == (1, 1)
    (run,) = document(question, [found])["runs"]
    assert (run["promises"]["kept"], run["promises"]["broken"]) == (1, 1)
    assert rows([found])[0]["broken"] == 1
    page = html(question, [found])
    assert "promised starts" in page
    assert "broken" in page


def test_what_is_short_enough_passes_the_head_and_what_is_not_does_not() -> None:
    found = ledger(job("a", 0, 100, 100), job("b", 1, 10, 10, BOTH), job("short", 2, 98, 98), job("long", 2, 5, 99))
    assert {name: at // NS for name, at in found.started_ns.items()} == {"a": 0, "short": 2, "b": 100, "long": 110}


def test_lives_with_tenants_priorities_gangs_and_quotas_break_no_promise_and_say_so() -> None:
    few = replace(BUSY, days=1, cards=8, load_pct=60, seed=7)
    nodes = (Node("n", (("H200", 140 * GIB),) * 8),)
    trace = replace(generate(few), quotas=dict.fromkeys(("team-1", "team-2"), Quota(2000, borrowing_milli=6000)))
    figures = live(Case(Question(nodes, ("binpack",), (7,), trace=trace), "binpack", 7), lambda _part: None).figures
    assert figures.promises.kept >= 10
    assert figures.promises.broken == 0
    assert figures.estimates.kept > figures.estimates.broken
